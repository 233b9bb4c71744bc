"""Drivers compiled once and installed everywhere: the archive, the build, and what the controller keeps."""
