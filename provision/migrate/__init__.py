"""A live service is moved to another machine: looked at, copied, proven there, and only then switched to."""
