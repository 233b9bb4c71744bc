"""Will the kernel take the modules that DKMS compiles, where Secure Boot is in force? Pure."""

from __future__ import annotations

from provision.host import view
from provision.host.driver_checks import seen
from provision.host.driver_checks.scene import COMPILED, Said, Scene
from provision.plan import Refusal

CONSOLE = (
    "at that boot the MOK manager waits on the console (monitor or BMC) for ten seconds: Enroll MOK, Continue, Yes, "
    "the password, Reboot; then run again"
)


def judge(scene: Scene) -> Said:
    """A module whose key the firmware does not know is refused at load, after a release that took the GPUs away."""
    if scene.driver is None or scene.driver.route not in COMPILED:
        return
    if not scene.installing and view.driver(scene.snapshot) is not None:
        return
    if not seen.must_be_signed(scene.snapshot):
        return
    certificate = seen.signing_certificate(scene.snapshot, scene.os.get("ID") == "ubuntu")
    there = certificate not in seen.KEYS or scene.snapshot.data("stat", certificate) is not None
    said = seen.enrolled(scene.snapshot.command("mokutil-test-key")[1], certificate) if there else "missing"
    if said == "enrolled":
        yield f"Secure Boot is in force, and {certificate} is enrolled: modules are signed with it"
        return
    words = {
        "absent": f"the key that DKMS signs with, {certificate}, is not enrolled",
        "asked": f"the key {certificate} waits to be enrolled at the console",
        "missing": f"there is no key yet that DKMS could sign with ({certificate})",
        "unknown": f"whether the key {certificate} is enrolled could not be told (mokutil --test-key)",
    }
    make = "" if said != "missing" else _make(certificate)
    command = (
        "" if said == "asked" else f"{make}mokutil --import {certificate} (it asks for a one-time password); "
    )
    yield Refusal(
        "machine.driver",
        f"Secure Boot is in force, and {words[said]}",
        "modprobe would end with 'Key was rejected by service', with the GPUs already taken from where they were",
        f"{command}reboot; {CONSOLE}",
    )


def _make(certificate: str) -> str:
    """The command that makes the key of DKMS, in the distribution's way."""
    if certificate == seen.KEYS[1]:
        return "apt-get install shim-signed mokutil && update-secureboot-policy --new-key; "
    key = certificate.rsplit(".", 1)[0] + ".key"
    return (
        "apt-get install dkms mokutil openssl && openssl req -new -x509 -nodes -days 36500 -subj '/CN=DKMS module "
        f"signing key/' -newkey rsa:2048 -keyout {key} -outform DER -out {certificate}; "
    )
