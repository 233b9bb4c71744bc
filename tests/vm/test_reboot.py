"""Real reboots of a real kernel over SSH: confirmed, and not confirmed."""

from __future__ import annotations

import pytest

from provision.testhost.vm.ssh import Address
from tests.vm.reboot_rig import Controller, boot_id, events, eventually

pytestmark = pytest.mark.usefixtures("clean")

KPRO_UNITS = (
    "ls /etc/systemd/system{,/*.wants} /var/lib/kpro | grep -c -e kpro-confirm -e kpro-undo -e ^confirm"
)


def test_a_machine_boots_its_lock_is_taken_anew_and_the_confirmed_run_stays(box: Address) -> None:
    before = boot_id(box)
    controller = Controller.start(
        box,
        """
        change("/etc/kpro-proof", "ours\\n")
        rebooted()
        confirm.confirm(metal, None, voice)
        session.close()
        """,
    )
    said = controller.end()
    assert boot_id(box) != before
    assert "lost: the lock of vm is gone" in said
    assert "RETAKEN" in said
    assert " s of 400: " in said
    assert box.run("cat /etc/kpro-proof").stdout == "ours\n"
    assert box.run(KPRO_UNITS, check=False).stdout == "0\n"
    begun = [event for event in events(box, controller.run) if event["event"] == "begin"]
    assert "a reason of the test's" in begun[0]["text"]


def test_a_run_that_nobody_confirms_is_taken_back_by_the_machine_itself(box: Address) -> None:
    controller = Controller.start(
        box,
        """
        change("/etc/kpro-proof", "ours\\n")
        rebooted(confirm_seconds=60)
        """,
    )
    controller.end()
    assert box.run("cat /etc/kpro-proof").stdout == "ours\n"
    eventually(box, "test -e /var/lib/kpro/confirm.undone.json", "the run is taken back", 120)
    assert box.run("test ! -e /etc/kpro-proof && cat /proc/uptime").stdout.split()[0] > "55"
    assert [event["event"] for event in events(box, controller.run)][-2:] == ["undoing", "undone"]
    late = Controller.start(
        box,
        """
        try:
            confirm.confirm(metal, None, voice)
        except Exception as error:
            say(f"refused: {error}")
        """,
    )
    assert "refused: vm was not confirmed in time" in late.end()
