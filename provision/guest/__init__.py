"""Containers of a machine: how they are reached and how they are made."""
