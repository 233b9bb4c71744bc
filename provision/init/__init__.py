"""``provision init``: the inventory of a host, its containers and its engine services, as they were made by hand."""
