"""A recorded tree gives the snapshot that it was made from; secrets are no part of it; nothing is left half-written."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.snapshot import Section, Snapshot
from provision.host.tree import observe_tree
from provision.inspect import recording, tree_files
from provision.inspect.examine import examine
from provision.inspect.record import bare
from provision.inspect.requests import RECORDED, once, requests
from provision.inspect.secrets import Secrets
from provision.inspect.tree_files import entries
from provision.planner import guest_requests
from provision.planner import requests as planned
from provision.spec import Guest, Machine
from tests.unit.inspect.live import observe_here

MACHINES = Path(__file__).resolve().parents[2] / "replay" / "machines"
MACHINE = Machine(name="any")


def kept(snapshot: Snapshot) -> dict[tuple[str, str], bytes | None]:
    """What a tree can say again: whatever was looked at, and is there or positively absent."""
    return {
        key: section.data
        for key, section in snapshot.sections.items()
        if section.error is None and section.kind not in ("dir", "tool", "record")
    }


def cleaned(snapshot: Snapshot) -> dict[tuple[str, str], bytes | None]:
    secrets = Secrets()
    return {
        key: secrets.cleaned(key[1], data) if data is not None and key[0] in ("file", "cmd") else data
        for key, data in kept(snapshot).items()
    }


def rewritten(snapshot: Snapshot, wanted: list[str], target: Path) -> Snapshot:
    recording.write(target, snapshot, {})
    return observe_tree(target, wanted)


@pytest.mark.parametrize("name", ["kpro5-locked", "kpro5", "kpro6", "plain"])
def test_a_record_of_a_machine_gives_its_snapshot_again(name: str, tmp_path: Path) -> None:
    wanted = once([*planned(MACHINE), *requests(MACHINE), *RECORDED])
    first = observe_tree(MACHINES / name, wanted)
    again = rewritten(first, wanted, tmp_path / "tree")
    assert kept(again) == cleaned(first)


def test_a_record_of_this_machine_gives_its_snapshot_again(tmp_path: Path) -> None:
    wanted = once([*planned(MACHINE), *requests(MACHINE)])
    first = observe_here(wanted)
    clean = cleaned(first)
    again = kept(rewritten(first, wanted, tmp_path / "tree"))
    # The shell hands on a command's output with the line end that it has or has not.
    differ = {key for key in clean if (clean[key] or b"").strip() != (again.get(key) or b"").strip()}
    assert differ == set()


def test_an_inspection_of_a_record_says_what_the_live_one_said(tmp_path: Path) -> None:
    snapshot = observe_tree(MACHINES / "kpro5-locked", requests(MACHINE, recorded=True))
    recording.write(tmp_path / "tree", snapshot, {})
    live = examine(snapshot).as_dict()
    told = examine(observe_tree(tmp_path / "tree", requests(MACHINE, recorded=True)), recorded=True).as_dict()
    for part in ("gpus", "holders", "findings"):
        assert told[part] == live[part], part
    assert {key: told["host"][key] for key in live["host"]} == live["host"]


def test_what_was_absent_is_known_to_be_and_what_is_taken_out_later_is_not(tmp_path: Path) -> None:
    wanted = requests(MACHINE, recorded=True)
    recording.write(tmp_path / "tree", observe_tree(MACHINES / "kpro5", wanted), {})
    before = examine(observe_tree(tmp_path / "tree", wanted), recorded=True)
    assert before.host["mappings"] == []
    (tmp_path / "tree/.kpro/cmd/dkms-status.out").unlink()
    after = examine(observe_tree(tmp_path / "tree", wanted), recorded=True)
    assert before.host["dkms"] != "unknown"
    assert after.host["dkms"] == "unknown"


def test_a_file_that_could_not_be_read_is_never_absent_in_the_record(tmp_path: Path) -> None:
    key = ("file", "/etc/default/grub")
    snapshot = Snapshot({key: Section(*key, None, "cannot be read")})
    done = recording.write(tmp_path / "tree", snapshot, {})
    assert done.lost == ["/etc/default/grub: cannot be read"]
    again = observe_tree(tmp_path / "tree", ["file:/etc/default/grub"])
    assert again.sections[key].error == "is a folder"


SECRET_FILES = {
    "/etc/pve/nodes/a/qemu-server/101.conf": (
        b"#notes%3A root password is hunter2\nargs: -vnc 0.0.0.0:1,password=hunter2\ncipassword: hunter2\n"
        b"hostpci0: 0000:42:00,pcie=1\nname: win\nsshkeys: ssh-ed25519%20AAAAhunter2%20x\nsmbios1: uuid=hunter2\n",
        [b"hostpci0: 0000:42:00,pcie=1\n", b"name: win\n"],
    ),
    "/var/lib/lxc/llm/config": (
        b"lxc.environment = HF_TOKEN=hunter2\nlxc.environment = OTHER=hunter2\nlxc.arch = amd64\n",
        [b"lxc.environment = OTHER=(removed)", b"lxc.arch = amd64\n"],
    ),
    "/proc/4242/cmdline": (b"/usr/bin/kvm\0-vnc\0password=hunter2\0", [b"/usr/bin/kvm\0"]),
    "/proc/cmdline": (b"root=/dev/sda1 token=hunter2 vfio-pci.ids=10de:2230\n", [b"vfio-pci.ids=10de:2230"]),
    "/etc/x.conf": (
        b"root:$6$salthunter2$abcdefghunter2\nwpa-psk hunter2\nkey: sk-hunter2hunter2\nhttp://me:hunter2@host/\n"
        b"-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2\n-----END OPENSSH PRIVATE KEY-----\n",
        [],
    ),
}


def test_no_secret_is_in_a_record_and_what_a_plan_needs_stays(tmp_path: Path) -> None:
    sections = {("file", path): Section("file", path, data) for path, (data, _) in SECRET_FILES.items()}
    openers = b"77\t/dev/nvidia0\tpython -m vllm --api-key hunter2 --hf-token hunter2 --port 8000\n"
    sections["cmd", "openers"] = Section("cmd", "openers", openers)
    done = recording.write(tmp_path / "tree", Snapshot(sections), {})
    for path in (tmp_path / "tree").rglob("*"):
        if path.is_file():
            assert b"hunter2" not in path.read_bytes(), path
    for path_text, (_, stays) in SECRET_FILES.items():
        text = (tmp_path / "tree" / path_text.lstrip("/")).read_bytes()
        assert all(part in text for part in stays), text
        assert b"(removed)" in text
    assert b"--port 8000" in (tmp_path / "tree/.kpro/cmd/openers.out").read_bytes()
    assert sum(done.removed.values()) >= 10
    assert (tmp_path / "tree/.kpro/removed").read_text()


@pytest.mark.parametrize("path", ["/../../escape", "/etc/../../escape", "relative", "/", "/a/\0b"])
def test_no_path_of_a_hostile_machine_leaves_the_tree(path: str, tmp_path: Path) -> None:
    key = ("file", path)
    done = recording.write(tmp_path / "tree", Snapshot({key: Section(*key, b"x")}), {})
    assert done.lost
    assert not tree_files.is_safe(path)
    assert not (tmp_path / "escape").exists()
    assert not (tmp_path.parent / "escape").exists()


def test_nothing_is_written_through_a_link_that_the_machine_sent(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    sections = {
        ("link", "/etc/a"): Section("link", "/etc/a", f"{outside}\n".encode()),
        ("names", "/etc/a/*"): Section("names", "/etc/a/*", b"/etc/a/b\n"),
    }
    recording.write(tmp_path / "tree", Snapshot(sections), {})
    assert list(outside.iterdir()) == []


def test_links_come_after_what_has_content() -> None:
    snapshot = Snapshot(
        {
            ("link", "/a"): Section("link", "/a", b"b\n"),
            ("file", "/c"): Section("file", "/c", b"x"),
            ("dir", "/d"): Section("dir", "/d", b"e\n"),
        }
    )
    kinds = [entry.kind for entry in entries(snapshot, lambda _, data: data)[0]]
    assert kinds == sorted(kinds, key=["file", "folder", "link", "touch"].index)


def test_an_interrupt_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(recording, "_put", interrupted)
    with pytest.raises(KeyboardInterrupt):
        recording.write(tmp_path / "tree", Snapshot({}), {})
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_something_in_it_is_refused_and_an_empty_one_is_used(tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    (full / "x").write_text("")
    with pytest.raises(ValueError, match="not empty"):
        recording.free(full)
    with pytest.raises(ValueError, match="is not there: make it first"):
        recording.free(tmp_path / "no" / "tree")
    with pytest.raises(ValueError, match="no folder"):
        recording.free(full / "x")
    empty = tmp_path / "empty"
    empty.mkdir()
    recording.free(empty)
    recording.write(empty, Snapshot({}), {})
    assert (empty / ".kpro").is_dir()
    assert empty.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("word", "host", "user", "port"),
    [("gpubox", "gpubox", None, None), ("root@10.0.0.5:2222", "10.0.0.5", "root", 2222)],
)
def test_a_host_is_what_ssh_takes(word: str, host: str, user: str | None, port: int | None) -> None:
    ssh = bare(word).ssh
    assert ssh is not None
    assert (ssh.host, ssh.user, ssh.port) == (host, user, port)


@pytest.mark.parametrize("word", ["-oProxyCommand=x", "a b", "", "a;b", "root@", "host:123456"])
def test_what_is_no_host_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="is no host"):
        bare(word)


def test_every_kind_of_look_of_a_plan_can_be_recorded() -> None:
    guest = Guest(name="llm", backend="lxc", id="llm")
    machine = Machine(name="any", guests=(guest,))
    kinds = {request.split(":")[0] for request in (*planned(machine), *guest_requests(machine, guest, []))}
    assert kinds <= {
        "file",
        "glob",
        "with",
        "names",
        "sha",
        "stat",
        "link",
        "dir",
        "tool",
        "cmd",
        "pci",
        "vms",
        "units",
    }
    assert tree_files.CMD == "/.kpro/cmd/"
