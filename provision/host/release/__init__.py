"""Step 2: what holds the named GPUs, and what takes it away. One module for each kind of holder; all of it pure."""
