"""Knowledge as data: rows of values, text, source and date checked."""
