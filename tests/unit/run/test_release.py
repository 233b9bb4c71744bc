"""Taking GPUs from their drivers: the script that the machine runs, on a bus in a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from checks.bdf import Bdf
from provision.acts import release
from provision.host.moves import Function, Regenerate, Switch
from provision.templates import render
from tests.unit.run.kernel import Machine

GPU, AUDIO, OTHER, OTHER_AUDIO = "0000:01:00.0", "0000:01:00.1", "0000:02:00.0", "0000:02:00.1"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    monkeypatch.setattr(release, "UNBIND_SECONDS", 1)
    machine = Machine(tmp_path)
    for bdf in (GPU, AUDIO):
        machine.bus.function(bdf, "vfio-pci", "vfio-pci", group=987651)
    for bdf in (OTHER, OTHER_AUDIO):
        machine.bus.function(bdf, "vfio-pci", "vfio-pci", group=987652)
    yield machine
    machine.bus.let_go()


def switch(now: str | None = "vfio-pci", audio: str | None = "snd_hda_intel") -> Switch:
    functions = (
        Function(Bdf.parse(GPU), now, "nvidia", "987651"),
        Function(Bdf.parse(AUDIO), "vfio-pci", audio, "987651"),
    )
    return Switch(Bdf.parse(GPU), functions, (Bdf.parse(OTHER), Bdf.parse(OTHER_AUDIO)))


def untouched(machine: Machine, *bdfs: str) -> bool:
    return all(machine.bus.now(bdf) == machine.bus.override(bdf) == "vfio-pci" for bdf in bdfs)


def test_a_gpu_and_its_audio_leave_vfio_and_the_other_gpu_stays(machine: Machine) -> None:
    done = machine.run(release.online_script(switch()))
    assert done.returncode == 0, done.stderr
    assert machine.bus.now(GPU) is None
    assert machine.bus.now(AUDIO) == "snd_hda_intel"
    assert (machine.bus.override(GPU), machine.bus.override(AUDIO)) == ("", "")
    assert untouched(machine, OTHER, OTHER_AUDIO)
    assert "modprobe snd_hda_intel" in machine.calls
    again = machine.run(release.online_script(switch(None)))
    assert again.returncode == 1
    assert f"{AUDIO} changed under us" in again.stderr


@pytest.mark.parametrize("name", ["987651", "noiommu-987651"])
def test_a_gpu_held_by_a_running_vm_is_never_unbound(machine: Machine, tmp_path: Path, name: str) -> None:
    group = tmp_path / "vfio" / name
    group.parent.mkdir()
    with group.open("w"):
        # The tests' own process is the holder: it has the group's file open.
        done = machine.run(release.online_script(switch()))
    assert done.returncode == 1
    assert f"pid {os.getpid()} (" in done.stderr
    assert "nothing was touched" in done.stderr
    assert untouched(machine, GPU, AUDIO, OTHER, OTHER_AUDIO)
    assert machine.run(release.online_script(switch())).returncode == 0


def test_who_holds_the_other_gpu_is_no_reason(machine: Machine, tmp_path: Path) -> None:
    group = tmp_path / "vfio" / "987652"
    group.parent.mkdir()
    with group.open("w"):
        assert machine.run(release.online_script(switch())).returncode == 0
    assert untouched(machine, OTHER, OTHER_AUDIO)


def test_an_unbind_that_blocks_is_said_and_no_further_function_is_touched(machine: Machine) -> None:
    machine.bus.held(GPU)
    done = machine.run(release.online_script(switch()))
    assert done.returncode == 1
    assert f"{GPU} is blocked: vfio-pci did not let go of it within 1 s" in done.stderr
    assert untouched(machine, AUDIO, OTHER, OTHER_AUDIO)
    # The kernel keeps the device locked: the next look must not wait with it.
    again = machine.run(release.online_script(switch()))
    assert again.returncode == 1
    assert f"{GPU} is locked by the kernel" in again.stderr


def test_a_gpu_that_somebody_bound_to_another_driver_meanwhile_is_left(machine: Machine) -> None:
    done = machine.run(release.online_script(switch("nouveau")))
    assert done.returncode == 1
    assert f"{GPU} changed under us: it is on vfio-pci now" in done.stderr
    assert untouched(machine, GPU, AUDIO)


def test_a_function_that_an_earlier_run_had_freed_is_taken_from_there(machine: Machine) -> None:
    assert machine.run("set -u\n" + render("pci.sh") + f"unbind {GPU} 1").returncode == 0
    done = machine.run(release.online_script(switch()))
    assert done.returncode == 0, done.stderr
    assert (machine.bus.now(GPU), machine.bus.override(GPU)) == (None, "")


def test_a_companion_that_no_driver_takes_stays_without_one(machine: Machine) -> None:
    machine.bus.refuses(AUDIO, "snd_hda_intel")
    done = machine.run(release.online_script(switch()))
    assert done.returncode == 0
    assert "stays without a driver" in done.stdout
    assert (machine.bus.now(AUDIO), machine.bus.override(AUDIO)) == (None, "")


def test_a_gpu_on_nouveau_with_a_leftover_override_is_freed(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.bus.function(GPU, "nouveau", "nouveau")
    only = Switch(Bdf.parse(GPU), (Function(Bdf.parse(GPU), "nouveau", "nvidia", None),), ())
    assert machine.run(release.online_script(only)).returncode == 0
    assert (machine.bus.now(GPU), machine.bus.override(GPU)) == (None, "")


def regenerate(machine: Machine, loader: str | None = None) -> tuple[int, str]:
    (machine.root / "modules" / "6.1").mkdir(parents=True, exist_ok=True)
    (machine.state / "regenerate").touch()
    done = machine.run(release.regenerate_script(Regenerate(("6.1",), loader)))  # type: ignore[arg-type]
    return done.returncode, done.stdout + done.stderr


def test_the_marker_goes_only_when_the_new_initramfs_is_there(machine: Machine) -> None:
    code, said = regenerate(machine)
    assert (code, "is not there" in said) == (1, True)
    assert (machine.state / "regenerate").exists()
    image = machine.root / "boot" / "initrd.img-6.1"
    machine.program("update-initramfs", f"echo new >{image}.n && mv {image}.n {image}")
    assert regenerate(machine)[0] == 0
    assert not (machine.state / "regenerate").exists()


def test_an_initramfs_that_did_not_take_its_place_is_an_error(machine: Machine) -> None:
    image = machine.root / "boot" / "initrd.img-6.1"
    machine.program("update-initramfs", f"echo a >{image}; echo new >{image}.new")
    code, said = regenerate(machine)
    assert code == 1
    assert "initrd.img-6.1.new was left over" in said
    machine.program("update-initramfs", f"rm -f {image}.new")
    code, said = regenerate(machine)
    assert (code, "is still the old one" in said) == (1, True)


def made(machine: Machine, name: str) -> None:
    image = machine.root / "boot" / "initrd.img-6.1"
    machine.program(name, f"echo new >{image}.n && mv {image}.n {image}")


def test_the_partitions_of_proxmox_get_both_loaders(machine: Machine) -> None:
    made(machine, "update-initramfs")
    (machine.root / "boot" / "grub").mkdir()
    machine.program("proxmox-boot-tool")
    assert regenerate(machine, "proxmox-boot-tool")[0] == 0
    assert [call for call in machine.calls if "initramfs" not in call] == [
        "update-grub ",
        "proxmox-boot-tool refresh",
    ]
    machine.program("proxmox-boot-tool", "exit 1")
    code, said = regenerate(machine, "proxmox-boot-tool")
    assert (code, "proxmox-boot-tool refresh failed" in said) == (1, True)
    assert (machine.state / "regenerate").exists()


def test_dracut_makes_the_initramfs_where_it_is_the_tool(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine.programs / "update-initramfs").unlink()
    for name in ("mkdir", "stat", "sync", "rm", "mv", "cat"):
        (machine.programs / name).symlink_to(f"/usr/bin/{name}")
    script = release.regenerate_script(Regenerate(("6.1",), None))
    (machine.root / "modules" / "6.1").mkdir(parents=True)
    only_ours = f"PATH={machine.programs}\n{script}"
    done = machine.run(only_ours)
    assert "neither update-initramfs nor dracut is there" in done.stderr
    made(machine, "dracut")
    machine.program("lsinitrd")
    done = machine.run(only_ours)
    assert done.returncode == 0, done.stderr
    assert f"dracut --force {machine.root}/boot/initrd.img-6.1 6.1" in machine.calls


def test_an_unbind_that_blocks_leaves_no_folder_behind(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    machine.bus.held(GPU)
    assert machine.run(release.online_script(switch())).returncode == 1
    assert list((tmp_path / "tmp").iterdir()) == []


def test_what_update_initramfs_says_when_it_fails_is_told(machine: Machine) -> None:
    machine.program("update-initramfs", "echo 'No space left on device'; exit 1")
    code, said = regenerate(machine)
    assert code == 1
    assert "No space left on device" in said
    assert (machine.state / "regenerate").exists()


def test_a_function_that_is_where_it_is_to_be_keeps_its_driver_and_loses_its_override(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.bus.function(GPU, "nvidia", "nvidia")
    machine.bus.function(AUDIO, "snd_hda_intel", "vfio-pci")
    functions = (
        Function(Bdf.parse(GPU), "nvidia", "nvidia", None),
        Function(Bdf.parse(AUDIO), "snd_hda_intel", "snd_hda_intel", None),
    )
    assert machine.run(release.online_script(Switch(Bdf.parse(GPU), functions, ()))).returncode == 0
    assert [machine.bus.now(bdf) for bdf in (GPU, AUDIO)] == ["nvidia", "snd_hda_intel"]
    assert [machine.bus.override(bdf) for bdf in (GPU, AUDIO)] == ["", ""]
