"""NVIDIA's network repository, where apt does not know it yet: which one it is, and what proves that it is NVIDIA's.
Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from checks.snapshot import Snapshot
from provision.data import driver_routes
from provision.data.driver_routes import REPOSITORIES, VENDOR
from provision.host import apt_asked, driver_seen, openpgp
from provision.plan import Item, Refusal, Step
from provision.spec import Driver, Machine

KEYRING_PACKAGE = "cuda-keyring"
_PATHS = ("/usr/share/keyrings/", "/etc/apt/sources.list.d/", "/etc/apt/preferences.d/", "/usr/share/doc/")


@dataclass(frozen=True)
class AddRepository:
    """The repository to add, and the driver that apt is asked for before it stays. ``address`` is the folder of the
    distribution; that of the machine's architecture is below it. ``fingerprint`` is its key's, in hexadecimal."""

    address: str
    fingerprint: str
    driver: Driver

    @property
    def distro(self) -> str:
        return self.address.rsplit("/", 1)[1]


def refusals(snapshot: Snapshot) -> list[Refusal]:
    """Why the repository cannot be added to this machine."""
    if not apt_asked.repository_is_unknown(snapshot) or _row(snapshot):
        return []
    release = driver_seen.os_release(snapshot)
    return [
        Refusal(
            "machine.driver.route",
            f"NVIDIA has no repository for {release.get('ID', 'an unknown system')} {release.get('VERSION_ID', '')}",
            "packages for another system would not fit its libraries and kernels",
            f"use another route; there are repositories for {', '.join(row.distro for row in REPOSITORIES)}",
        )
    ]


def _row(snapshot: Snapshot) -> driver_routes.Repository | None:
    release = driver_seen.os_release(snapshot)
    return driver_routes.repository((release.get("ID", ""), release.get("VERSION_ID", "")))


def item(machine: Machine, driver: Driver, snapshot: Snapshot) -> Item:
    wanted = to_add(driver, snapshot)
    text = (
        f"add NVIDIA's repository {wanted.distro} (keyring {VENDOR.keyring}, key {VENDOR.fingerprint[-8:]}), then ask "
        f"apt for driver {driver.version}: it stays only if apt would install it"
    )
    return Item(Step.DRIVER, "driver.repository", machine.host_name, wanted.distro, text, wanted)


def to_add(driver: Driver, snapshot: Snapshot) -> AddRepository:
    """For a system that ``refusals`` did not refuse."""
    row = _row(snapshot)
    assert row is not None, "refused before"
    return AddRepository(f"{VENDOR.address}/{row.distro}", VENDOR.fingerprint, driver)


def wrong_keyring(paths: list[str], keys: bytes, sources: str, address: str, fingerprint: str) -> list[str]:
    """What is wrong with a keyring package: the paths of its files, its key material, its lines for apt. ``address``:
    the folder that its packages must come from; ``fingerprint``: the only key that may sign them."""
    wrong = [f"it would write {path}" for path in paths if not path.startswith(_PATHS)]
    try:
        found = openpgp.fingerprints(keys)
    except ValueError as error:
        return [*wrong, f"its key cannot be read ({error})"]
    if set(found) != {fingerprint}:
        wrong.append(f"its key is {', '.join(found) or 'none'}, NVIDIA's is {fingerprint}")
    lines = [
        line.strip() for line in sources.splitlines() if line.strip() and not line.lstrip().startswith("#")
    ]
    form = re.compile(rf"deb \[signed-by=/usr/share/keyrings/[\w.-]+\] {re.escape(address)}/? /")
    wrong += [f"its source is {line!r}" for line in lines if not form.fullmatch(line)]
    return wrong if lines else [*wrong, "it brings no source"]
