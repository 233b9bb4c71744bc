"""Proxmox VE's containers: their configuration files read, judged and edited."""
