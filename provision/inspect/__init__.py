"""``provision inspect`` and ``provision record``: what there is on a machine, and a copy of it to look at elsewhere."""
