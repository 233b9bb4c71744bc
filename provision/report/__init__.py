"""The report of a run: one HTML file that needs nothing else, and the same as JSON, both told from its journal."""
