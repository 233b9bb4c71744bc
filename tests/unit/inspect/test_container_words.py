"""What an inspection says of a Proxmox container's file: one verdict, and a command that keeps what is right."""

from __future__ import annotations

import pytest

from provision.inspect.containers import Container, containers, findings
from tests.unit.plan.seen import Seen

PATH = "/etc/pve/lxc/120.conf"


def read(text: str) -> Container:
    (found,) = containers(Seen().put("file", PATH, text).snapshot)
    return found


@pytest.mark.parametrize(
    ("line", "owner", "command"),
    [
        ("/dev/nvidia0", "root:root", "/dev/nvidia0,mode=0666"),
        ("/dev/nvidia0,gid=44", "root:44", "/dev/nvidia0,gid=44,mode=0666"),
        ("/dev/nvidia0,uid=7,gid=44", "7:44", "/dev/nvidia0,uid=7,gid=44,mode=0666"),
    ],
)
def test_a_device_without_a_mode_is_its_owner_s_and_keeps_it(line: str, owner: str, command: str) -> None:
    found = [
        one for one in findings([read(f"arch: amd64\ndev0: {line}\n")], None) if one.id == "container.mode"
    ]
    assert [(f"0660 {owner} inside" in one.meaning, one.next_step) for one in found] == [
        (True, f"pct set 120 -dev0 {command}")
    ]
    assert not [
        one for one in findings([read(f"dev0: {line},mode=0666\n")], None) if one.id == "container.mode"
    ]


@pytest.mark.parametrize("line", ["nonsense line here", "hostpci0: 42:00", "memory: 64G"])
def test_a_line_that_proxmox_does_not_take_has_one_verdict(line: str) -> None:
    found = read(f"arch: amd64\n{line}\n")
    (said,) = [one for one in findings([found], None) if one.kind == "problem"]
    for text in (found.verdict, said.meaning):
        assert "refuse" in text
        assert "goes on" in text
        assert "ignores" not in text


@pytest.mark.parametrize("text", ["", "\n", "#only a note\n", "[before]\narch: amd64\n"])
def test_an_empty_file_is_no_configuration(text: str) -> None:
    found = read(text)
    assert found.verdict == "empty: not a configuration"
    assert found.as_dict()["unprivileged"] == "unknown"
    assert read("arch: amd64\n").as_dict()["unprivileged"] is False
    assert read("arch: amd64\n").verdict == "accepted"
