"""A GPU is handed over to virtual machines and taken back, while the machine runs."""
