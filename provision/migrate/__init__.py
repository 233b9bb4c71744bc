"""A service moves from one host to another."""
