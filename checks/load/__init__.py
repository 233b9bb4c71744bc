"""``provcheck load``: GPUs at work for bounded seconds, each in a child with a deadline.

look      what NVML says while a GPU works; before and after it is read as for 'provcheck gpus'
work      the measurements, in the child, one GPU each
run       the parent: children started, told when, cut off when late
judge     measured numbers to findings; pure
"""
