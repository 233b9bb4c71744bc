"""Real reboots of a real kernel: cut off, at the last boot allowed, with a guest, with a unit that fails."""

from __future__ import annotations

import pytest

from provision.spec import Guest
from provision.testhost.vm.ssh import Address
from tests.vm.reboot_rig import Controller, boot_id, eventually

pytestmark = pytest.mark.usefixtures("clean")

CONTAINER = r"""
mkdir -p /srv/kpro-root /var/lib/lxc/c1
grep -q kpro-root /etc/fstab || echo '/ /srv/kpro-root none bind 0 0' >>/etc/fstab
mountpoint -q /srv/kpro-root || mount /srv/kpro-root
cat >/var/lib/lxc/c1/config <<'END'
lxc.uts.name = c1
lxc.rootfs.path = dir:/srv/kpro-root
lxc.rootfs.options = ro
lxc.init.cmd = /bin/sleep infinity
lxc.apparmor.profile = unconfined
lxc.net.0.type = none
lxc.autodev = 1
lxc.mount.auto = proc:mixed sys:mixed
lxc.start.auto = 1
END
[ "$(lxc-info -n c1 -sH)" = RUNNING ] || lxc-start -n c1 -d
"""


def test_a_controller_killed_during_the_reboot_leaves_a_machine_that_takes_the_run_back(box: Address) -> None:
    before = boot_id(box)
    controller = Controller.start(
        box,
        """
        change("/etc/kpro-proof", "ours\\n")
        rebooted(confirm_seconds=50)
        """,
    )
    controller.until("vm: reboots (")
    controller.kill()
    eventually(box, "test -e /var/lib/kpro/confirm.undone.json", "the run is taken back", 300)
    assert boot_id(box) != before
    assert box.run("test ! -e /etc/kpro-proof; echo $?").stdout == "0\n"


def test_at_the_last_boot_allowed_the_run_is_taken_back_at_once(box: Address) -> None:
    controller = Controller.start(
        box,
        """
        change("/etc/kpro-proof", "ours\\n")
        rebooted(confirm_seconds=6000, confirm_boots=2)
        sh("systemctl reboot")
        """,
    )
    controller.end()
    eventually(box, "test -e /var/lib/kpro/confirm.undone.json", "the run is taken back", 200)
    assert box.run("test ! -e /etc/kpro-proof; echo $?").stdout == "0\n"


def test_a_guest_is_entered_over_the_connection_that_the_boot_left(box: Address) -> None:
    box.run(CONTAINER)
    controller = Controller.start(
        box,
        """
        inside = host(state, machine.guest_host_name(machine.guests[0]))
        rebooted()
        say("after: " + transport.run(inside, "hostname; id -u").text)
        ok, output = inside.run_shell_command("hostname")
        say(f"pyinfra's own: {ok} {output.stdout}")
        confirm.confirm(metal, None, voice)
        """,
        guests=(Guest(name="inside", backend="lxc", id="c1"),),
    )
    said = controller.end()
    assert "after: c1\n0\n" in said.partition("RETAKEN")[2]
    assert "pyinfra's own: True c1" in said


def test_a_device_unit_that_fails_is_a_failed_unit_and_keeps_nobody_from_booting(box: Address) -> None:
    controller = Controller.start(
        box,
        """
        from provision.host.nodes import SCRIPT, UNIT
        from provision.templates import render
        script = render("kpro-devices.sh.j2", machine="vm", wanted="0000:09:00.0", kept="", root="")
        unit = render("kpro-devices.service.j2", machine="vm", script=SCRIPT)
        edits = [FileEdit(SCRIPT, None, script.encode(), "", "700"), FileEdit(UNIT, None, unit.encode(), "")]
        nodes.unit(metal, Edits(tuple(edits)), voice)
        try:
            nodes.make(metal, None, voice)
        except Exception as error:
            say(f"refused: {error}")
        rebooted()
        say("state: " + sh("systemctl is-failed kpro-devices; systemctl is-active lxc.service"))
        say("order: " + sh("systemctl show -P Before kpro-devices.service"))
        say(sh(f"KPRO_RUN=x sh /var/lib/kpro/undo.sh {session.id}"))
        confirm.confirm(metal, None, voice)
        """,
    )
    said = controller.end()
    assert "0000:09:00.0 is not on the bus" in said.partition("reboots (")[0]
    assert "systemd is degraded: kpro-devices.service failed" in said
    assert "state: failed\nactive\n" in said
    assert {"lxc.service", "nvidia-persistenced.service"} <= set(
        said.partition("order: ")[2].splitlines()[0].split()
    )
    left = box.run(
        "ls /etc/systemd/system/kpro-devices.service /var/lib/kpro/devices.sh; systemctl is-enabled kpro-devices",
        check=False,
    )
    assert left.stdout == "", left
