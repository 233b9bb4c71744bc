"""Snapshots made by hand: what was looked at, in a few words."""

from __future__ import annotations

from checks.snapshot import Section, Snapshot

NVIDIA = "vendor=0x10de\ndevice=0x2230\nclass=0x030000\ndriver={driver}\ngroup={group}\noverride={override}\n"


class Seen:
    """Collects sections; ``snapshot`` is what a parser would have made of them."""

    def __init__(self) -> None:
        self.sections: dict[tuple[str, str], Section] = {}

    def put(self, kind: str, path: str, data: bytes | str | None, error: str | None = None) -> Seen:
        raw = data.encode() if isinstance(data, str) else data
        self.sections[kind, path] = Section(kind, path, raw, error)
        return self

    def cmd(self, name: str, output: str, code: int = 0) -> Seen:
        return self.put("cmd", name, output).put("rc", name, f"{code}\n")

    def tools(self, *names: str, there: bool = True) -> Seen:
        for name in names:
            self.put("tool", name, f"/usr/bin/{name}\n" if there else None)
        return self

    def gpu(self, bdf: str, driver: str = "nvidia", group: str = "1", override: str = "(null)") -> Seen:
        return self.put("pci", bdf, NVIDIA.format(driver=driver, group=group, override=override))

    @property
    def snapshot(self) -> Snapshot:
        return Snapshot(dict(self.sections))
