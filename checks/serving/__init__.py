"""Checks of a model server: does it really generate, and as it should."""
