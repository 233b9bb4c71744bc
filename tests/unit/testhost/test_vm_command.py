from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from provision.testhost.vm import command, qemu
from provision.testhost.vm.command import MOST_GPUS, Shape, Sockets, bdf, words
from provision.testhost.vm.ssh import Address

SOCKETS = [Sockets(Path(f"/s/{n}g"), Path(f"/s/{n}a")) for n in range(MOST_GPUS + 1)]
SHAPE = Shape(Path("/v/disk.qcow2"), Path("/v/serial"), Path("/s/qmp"), 2222, SOCKETS[:2])


def after(option: str, shape: Shape = SHAPE) -> list[str]:
    made = words(shape)
    return [made[place + 1] for place, word in enumerate(made) if word == option]


def functions(shape: Shape = SHAPE) -> list[dict[str, object]]:
    return [json.loads(word) for word in after("-device", shape) if word.startswith("{")]


def test_each_gpu_has_a_root_port_of_its_own_with_its_audio_beside_it() -> None:
    places = [(row["bus"], row["addr"], row["socket"]["path"]) for row in functions()]  # type: ignore[index]
    assert places == [
        ("rp1", "0x0.0", "/s/0g"),
        ("rp1", "0x0.1", "/s/0a"),
        ("rp2", "0x0.0", "/s/1g"),
        ("rp2", "0x0.1", "/s/1a"),
    ]
    ports = [word for word in after("-device") if word.startswith("pcie-root-port")]
    assert [port.rpartition("addr=")[2] for port in ports] == ["2.0", "3.0"]
    assert [bdf(0), bdf(1)] == ["0000:01:00.0", "0000:02:00.0"]


def test_there_are_no_more_gpus_than_root_ports() -> None:
    assert len(functions(replace(SHAPE, gpus=SOCKETS[:MOST_GPUS]))) == 2 * MOST_GPUS
    with pytest.raises(ValueError, match="room for 8"):
        words(replace(SHAPE, gpus=SOCKETS))


def test_the_machine_boots_from_its_disk_and_says_that_it_is_a_test_host() -> None:
    made = words(SHAPE)
    assert not {"-kernel", "-initrd", "-append"} & set(made)
    assert after("-smbios") == ["type=1,product=kpro-test-host"]
    assert "intel-iommu,intremap=on,caching-mode=on" in made


def test_what_the_guest_has_flushed_survives_the_end_of_qemu() -> None:
    assert ["cache=writeback" in drive for drive in after("-drive")] == [True]


def test_the_guest_sees_nothing_but_us_unless_that_is_asked_for() -> None:
    assert after("-netdev") == ["user,id=n0,restrict=on,hostfwd=tcp:127.0.0.1:2222-:22"]
    assert "restrict=off" in after("-netdev", replace(SHAPE, outbound=True))[0]


def test_kvm_is_used_only_when_it_works_and_root_becomes_somebody_else() -> None:
    assert after("-accel") == ["tcg,thread=multi"]
    assert after("-accel", replace(SHAPE, kvm=True)) == ["kvm"]
    assert after("-run-with") == []
    assert after("-run-with", replace(SHAPE, user=(65534, 65534))) == ["user=65534:65534"]


def test_a_comma_in_a_path_is_not_the_end_of_it() -> None:
    assert "file=/v,,w/d,if=none" in after("-drive", replace(SHAPE, disk=Path("/v,w/d")))[0]


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("QEMU emulator version 10.1.0 (Debian 1:10.1.0+ds-1)", (10, 1)),
        ("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)", (7, 2)),
        ("no emulator", (0, 0)),
    ],
)
def test_the_version_of_qemu_is_read_from_what_it_says(said: str, version: tuple[int, int]) -> None:
    assert qemu.version_in(said) == version
    assert (version >= qemu.OLDEST) is (version == (10, 1))


def test_the_way_in_trusts_one_key_and_no_setting_of_the_users() -> None:
    made = Address(2222, Path("/k"), Path("/known")).command()
    assert made[:3] == ["ssh", "-F", "none"]
    assert {"StrictHostKeyChecking=yes", "UserKnownHostsFile=/known", "BatchMode=yes"} <= set(made)
    assert command.MACHINE[1].startswith("q35")
