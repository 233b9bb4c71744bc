"""Services that somebody set up by hand: found by their processes, compared, never changed."""
