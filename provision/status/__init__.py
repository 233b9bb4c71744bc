"""``provision status``: where the machines of an inventory stand, without touching them."""
