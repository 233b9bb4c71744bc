"""Knowledge as data: rows of values, each with its source."""
