"""What a profile is made of: flags and variables as rows, each with its source and the versions that know it."""

from __future__ import annotations

from dataclasses import dataclass

from packaging.specifiers import SpecifierSet

BLOCK, DRAFTS, DRAFTER = "{block}", "{drafts}", "{drafter}"
"""In a flag's words: the drafter's block size, the drafts of one round (the block less its anchor), its folder."""


@dataclass(frozen=True)
class Flag:
    """One flag of a profile, for the engine versions in ``versions`` (a specifier; empty means all known)."""

    words: tuple[str, ...]
    why: str
    source: str
    versions: str = ""

    @property
    def reads_block(self) -> bool:
        return any(BLOCK in word or DRAFTS in word for word in self.words)

    def written(self, drafter: str | None, block: int | None) -> list[str]:
        """Its words for one drafter."""
        numbers = {
            f'"{DRAFTS}"': str((block or 0) - 1),
            DRAFTS: str((block or 0) - 1),
            BLOCK: str(block),
            DRAFTER: drafter or "",
        }
        words = list(self.words)
        for mark, text in numbers.items():
            words = [word.replace(mark, text) for word in words]
        return words


@dataclass(frozen=True)
class Setting:
    """An environment variable that kpro sets, for the versions that read it. ``{cache}`` stands for the
    service's own compile cache folder."""

    name: str
    value: str
    why: str
    source: str
    versions: str = ""

    def holds(self, version: str) -> bool:
        return version in SpecifierSet(self.versions, prereleases=True)


@dataclass(frozen=True)
class Profile:
    """A profile for one engine kind. ``versions`` are those that can do it at all."""

    name: str
    engine: str
    text: str
    flags: tuple[Flag, ...]
    source: str
    drafter: bool = False
    versions: str = ""
    settings: tuple[Setting, ...] = ()

    def fits(self, version: str) -> bool:
        return version in SpecifierSet(self.versions, prereleases=True)

    def of(self, version: str) -> list[Flag]:
        """The flags as this version spells them."""
        return [flag for flag in self.flags if version in SpecifierSet(flag.versions, prereleases=True)]

    @property
    def reads_block(self) -> bool:
        """Does it need the block size of the drafter's own config?"""
        return any(flag.reads_block for flag in self.flags)

    def words(self, version: str, drafter: str | None, block: int | None = None) -> list[str]:
        """All its flags as this version spells them. Raises ValueError for a version that cannot do it, and for a
        drafter or its block size that is missing."""
        if not self.fits(version):
            raise ValueError(f"profile {self.name!r} needs {self.engine} {self.versions}, not {version}")
        if self.drafter and drafter is None:
            raise ValueError(f"profile {self.name!r} drafts with a second model: drafter=Model(…) is missing")
        if self.reads_block and block is None:
            raise ValueError(f"profile {self.name!r} takes the drafter's own block size, which is not known")
        return [word for flag in self.of(version) for word in flag.written(drafter, block)]

    def variables(self, version: str) -> list[Setting]:
        return [row for row in self.settings if row.holds(version)]
