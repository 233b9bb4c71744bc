"""Model files from the hub: asked for from the controller, fetched by the machine itself.

``select``, ``problems``, ``ask``, ``fetch``, ``progress`` and ``order`` travel to the machine as one file (``pack``);
they need nothing but Python 3.11 and huggingface_hub.
"""
