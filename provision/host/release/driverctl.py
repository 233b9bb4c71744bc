"""driverctl's overrides: /etc/driverctl.d/pci-BDF holds a driver's name (driverctl(8)). Pure.

Its rule starts a service for each of them at every boot. A file that is gone sets nothing. The name ``none`` keeps
every driver away, and so does that of any driver which is not the function's own.
"""

from __future__ import annotations

from checks.bdf import Bdf
from provision.host.release.target import Holder, Target, other_driver


def find(path: str, text: str) -> tuple[Holder, ...]:
    name, driver = path.rsplit("/", 1)[1], text.strip()
    if not name.startswith("pci-") or not other_driver(driver):
        return ()
    try:
        bdf = Bdf.parse(name.removeprefix("pci-"))
    except ValueError:
        return ()
    what = f"binds {bdf} to {driver} (by hand: driverctl unset-override {bdf})"
    return (Holder(path, 1, text, what, lambda function: function.bdf == bdf),)


def clean(path: str, text: str, target: Target) -> str | None:
    """The same text, None where the file goes."""
    holders = find(path, text)
    return None if any(h.holds(one) for h in holders for one in target.functions) else text
