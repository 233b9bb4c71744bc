"""``provcheck fit``: will this model serve this context length on these GPUs, from configs and headers alone.

files     config.json, the safetensors index and headers of a folder, bounded
shape     what a config says about layers, heads and caches
weights   bytes per GPU after sharding
gpus      ``2xA6000``, ``2x48G`` or a recorded NVML dump
cache     bytes of KV cache and recurrent state that one request needs, per engine
reserve   what the engine keeps for activations, graphs and itself
judge     the sum, and what to lower by how much
"""
