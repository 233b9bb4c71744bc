"""The virtual test host: a Debian machine in QEMU whose GPUs are emulated and whose software is real.

    found = image.ready(Recipe(), say)
    with VirtualHost(found, gpus=(EmulatedGpu(), EmulatedGpu()), say=say) as vm:
        vm.ssh("lspci -nnk")

The real vfio-pci and NVIDIA's real kernel module bind there; what needs silicon fails, honestly.
"""
