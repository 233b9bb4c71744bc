"""provcheck: proves that GPUs, drivers and a served model really work, and names the cause when they do not."""

__version__ = "0.1.0"
