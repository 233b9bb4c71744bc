"""Model files from the hub: asked for from the controller, fetched by the machine itself.

What fetches travels to the machine as one file (``pack``), and needs nothing there but Python 3.11. ``controller`` and
``pack`` stay here.
"""
