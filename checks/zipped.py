"""Imports out of the single file, each module's code worked out once.

zipimport names a module's file by getting its code, and gets the code once more to run it (CPython 3.10 to 3.13,
``zipimporter.get_filename``). Where the bytecode inside is another version's, all sources are compiled twice: that is
half of the time that ``provcheck gpus`` takes there.
"""

from __future__ import annotations

import sys
from zipimport import zipimporter


class Importer(zipimporter):
    """zipimporter, with the name of a module's file taken from the list of files alone."""

    def get_filename(self, fullname: str) -> str:
        """The module's source, whether it runs from that or from its bytecode. Raises ZipImportError for no module."""
        name = fullname.rpartition(".")[2]
        file = f"{name}/__init__.py" if self.is_package(fullname) else f"{name}.py"
        return f"{self.archive}/{self.prefix}{file}"


def install(archive: str) -> None:
    """From now on, what is imported out of ``archive`` is imported so."""

    def hook(path: str) -> Importer:
        if path != archive and not path.startswith(f"{archive}/"):
            raise ImportError("not of the single file")
        return Importer(path)

    sys.path_hooks.insert(0, hook)
    for path in [one for one in sys.path_importer_cache if one == archive or one.startswith(f"{archive}/")]:
        del sys.path_importer_cache[path]
