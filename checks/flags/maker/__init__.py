"""Reads the command-line flags of released engine wheels from their sources, without importing them."""
