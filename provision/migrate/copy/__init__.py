"""Folders of a service from one host to another, without loss and without the controller in between."""

from provision.migrate.copy.copying import Copy
from provision.migrate.copy.look import measure, reach
from provision.migrate.copy.model import CopyFailed, CopySettings, Folder, Progress, Sizes

__all__ = ["Copy", "CopyFailed", "CopySettings", "Folder", "Progress", "Sizes", "measure", "reach"]
