"""The CUDA driver by ctypes, and the few kernels that the checks run. Needs the driver, never a toolkit."""
