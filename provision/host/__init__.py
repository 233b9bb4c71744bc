"""The metal: what is seen on a host, decided about it and done to it."""
