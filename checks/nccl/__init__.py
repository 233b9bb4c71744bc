"""``provcheck nccl``: peer copies and collectives between GPUs, with the library that the engine uses."""
