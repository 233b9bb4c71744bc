"""Knowledge as rows: values, text, source. The code that uses a row never repeats what stands in it."""
