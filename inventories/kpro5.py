"""kpro5: two RTX A6000 in a Proxmox host, one container, one service."""

from provision.spec import Machine

machine = Machine(name="kpro5")
metal, guests = machine.pyinfra_groups()
