"""The undo script: each kind of change, all together and of one run, twice, and what it leaves alone."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from pathlib import Path

import pytest

from provision.host.changes import Change, dump, parse, undo_script, with_changes
from tests.unit.run.kernel import Machine

GPU, AUDIO, OTHER = "0000:01:00.0", "0000:01:00.1", "0000:02:00.0"
ME = f"{os.getuid()}:{os.getgid()}"


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def undo(machine: Machine, changes: tuple[Change, ...], *words: str) -> tuple[int, str]:
    done = machine.run(undo_script(changes), *words)
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout


def write(machine: Machine, path: Path, run: str, text: str, boot: bool = False) -> Change:
    """As an act does it: the original is kept, by run, then the new text is put."""
    change = Change("file", run, str(path), sha(text), boot=boot)
    if path.exists():
        name = f"{run}.{path.name}"
        (machine.state / "originals" / name).write_text(path.read_text())
        change = Change("file", run, str(path), sha(text), name, "640", ME, boot=boot)
    path.write_text(text)
    return change


def test_the_changes_of_one_run_go_back_alone(machine: Machine, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("mine\n")
    changes = (
        write(machine, one, "r1", "a\n"),
        write(machine, two, "r1", "x\n"),
        write(machine, one, "r2", "b\n"),
    )
    assert undo(machine, changes, "r2")[0] == 0
    assert (one.read_text(), two.read_text()) == ("a\n", "x\n")
    assert "already" in undo(machine, changes, "r2")[1]
    assert undo(machine, changes)[0] == 0
    assert one.read_text() == "mine\n"
    assert not two.exists()
    code, said = undo(machine, changes)
    assert (code, said.count("already")) == (0, 3)


def test_an_older_run_alone_leaves_what_a_later_one_wrote(machine: Machine, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine\n")
    changes = (
        write(machine, file, "r1", "a\n"),
        write(machine, file, "r2", "b\n"),
        write(machine, file, "r3", "a\n"),
    )
    code, said = undo(machine, changes, "r1")
    assert (code, "was written by run r3 too" in said) == (1, True)
    assert file.read_text() == "a\n"
    assert undo(machine, changes)[0] == 0
    assert file.read_text() == "mine\n"


def test_what_somebody_wrote_between_two_runs_is_no_loss(machine: Machine, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine\n")
    first = write(machine, file, "r1", "a\n")
    file.write_text("theirs\n")
    code, said = undo(machine, (first, write(machine, file, "r2", "b\n")))
    assert (code, "changed by somebody else" in said) == (1, True)
    assert file.read_text() == "theirs\n"


def test_what_somebody_did_after_a_run_was_taken_back_is_theirs(machine: Machine, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine\n")
    first = write(machine, file, "r1", "a\n")
    assert undo(machine, (first,), "r1")[0] == 0
    file.write_text("theirs\n")
    changes = (first, write(machine, file, "r2", "b\n"))
    code, said = undo(machine, changes)
    assert (code, "run r1 was taken back already" in said) == (0, True)
    assert file.read_text() == "theirs\n"


def test_a_container_of_a_run_that_was_taken_back_is_still_stopped(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "c1").mkdir()
    config = tmp_path / "c1" / "config"
    machine.program("lxc-info", "echo RUNNING")
    changes = (Change("container", "r1", id="c1", folder=str(tmp_path / "c1")),)
    for words in (("r1",), ()):
        config.write_text("lxc.start.auto = 1\n")
        assert undo(machine, changes, *words)[0] == 0
        assert config.read_text() == "lxc.start.auto = 0\n"
    assert "lxc-stop -n c1 -t 120" in machine.calls


UNITS = "kpro-a.service loaded active running A\\nkpro-b.service loaded activating start B\\n"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (f"printf '{UNITS}'", "stop container {}, which ends kpro-a.service, kpro-b.service in it"),
        (":", "stop container {}"),
        ("exit 1", "stop container {}, and what serves in it could not be asked"),
    ],
)
@pytest.mark.parametrize("folder", ["", "pct"])
def test_a_look_says_what_serves_in_a_container_that_would_be_stopped(
    folder: str, answer: str, said: str, machine: Machine, tmp_path: Path
) -> None:
    (tmp_path / "c1").mkdir()
    (tmp_path / "c1" / "config").write_text("lxc.start.auto = 1\n")
    machine.program("lxc-info", "echo RUNNING")
    machine.program("lxc-attach", answer)
    machine.program("pct", f'case $1 in status) echo "status: running" ;; exec) {answer} ;; esac')
    changes = (Change("container", "r1", id="105", folder=folder or str(tmp_path / "c1")),)
    assert f"would {said.format(105)}" in undo(machine, changes, "--look")[1].splitlines()
    assert not any("stop" in call.split() for call in machine.calls)


def test_a_run_that_changed_nothing_here_is_said_to_be(machine: Machine) -> None:
    change = Change("module", "r1", id="nvidia")
    nothing = (0, "run r9 changed nothing here\n")
    # A program that calls it knows its runs.
    assert undo(machine, (change,), "r9") == nothing
    # By hand its journal on the machine tells that there was such a run.
    (machine.state / "journal").mkdir()
    (machine.state / "journal" / "r9.jsonl").touch()
    done = machine.run(undo_script((change,)), "r9", holder="")
    assert (done.returncode, done.stdout) == nothing


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("NOSUCHRUN",), "there was no run NOSUCHRUN on this machine"),
        (("--look", "NOSUCHRUN"), "there was no run NOSUCHRUN on this machine"),
        (("../r3",), "'../r3' is no run"),
        (("r1 r2",), "'r1 r2' is no run"),
        (("",), "'' is no run"),
        (("--lok",), "no option --lok"),
        (("r1", "r2"), "one run at a time, not both r1 and r2"),
    ],
)
def test_what_is_no_run_of_this_machine_is_an_error_that_lists_those_that_are(
    words: tuple[str, ...], why: str, machine: Machine, tmp_path: Path
) -> None:
    (machine.state / "r3.jsonl").touch()
    file = tmp_path / "f"
    changes = (write(machine, file, "r1", "a\n"), Change("module", "r2", id="nvidia"))
    done = machine.run(undo_script(changes), *words, holder="")
    assert done.returncode == 2
    assert done.stdout.startswith(f"undo.sh: {why}; nothing was changed\nusage: undo.sh [--look] [RUN]\n")
    assert done.stdout.endswith("Runs that changed something here: r1 r2\n")
    assert file.exists()


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_undo_tells_its_usage_and_does_nothing(word: str, machine: Machine, tmp_path: Path) -> None:
    file = tmp_path / "f"
    done = machine.run(undo_script((write(machine, file, "r1", "a\n"),)), word, holder="")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "usage: undo.sh [--look] [RUN]")
    assert file.exists()
    assert "here: none" in machine.run(undo_script(()), word, holder="").stdout


def test_to_look_is_heard_on_either_side_of_the_run(machine: Machine, tmp_path: Path) -> None:
    file = tmp_path / "f"
    changes = (write(machine, file, "r1", "a\n"),)
    for words in (("--look", "r1"), ("r1", "--look")):
        assert undo(machine, changes, *words) == (0, f"would remove {file}\n")
    assert file.exists()


def test_to_look_changes_nothing(machine: Machine, tmp_path: Path) -> None:
    file, new = tmp_path / "file", tmp_path / "new"
    file.write_text("mine\n")
    machine.bus.function(GPU, "nvidia")
    changes = (
        write(machine, file, "r1", "ours\n", boot=True),
        write(machine, new, "r1", "ours\n"),
        Change("binding", "r1", id=GPU, before="vfio-pci", override="vfio-pci"),
        Change("unit", "r1", id="kpro-devices.service", before="disabled inactive"),
    )
    machine.program("systemctl", "case $1 in is-enabled) echo enabled;; is-active) echo active;; esac")
    code, said = undo(machine, changes, "--look")
    assert code == 0
    assert all(line.startswith("would ") for line in said.splitlines())
    assert len(said.splitlines()) == 5
    assert "would make the initramfs and the boot loader's configuration anew" in said
    assert (file.read_text(), new.read_text(), machine.bus.now(GPU)) == ("ours\n", "ours\n", "nvidia")
    assert {call.split()[1] for call in machine.calls} == {"is-enabled", "is-active"}
    assert not (machine.state / "regenerate").exists()


def test_to_look_tells_once_of_what_two_runs_wrote_the_same(machine: Machine, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine\n")
    first = write(machine, file, "r1", "a\n")
    file.write_text("mine\n")
    changes = (first, write(machine, file, "r2", "a\n"))
    assert undo(machine, changes, "--look")[1] == f"would put {file} back\n"
    assert undo(machine, changes)[0] == 0
    assert file.read_text() == "mine\n"


def test_a_boot_file_that_goes_back_makes_the_initramfs_anew(machine: Machine, tmp_path: Path) -> None:
    file, plain = tmp_path / "vfio.conf", tmp_path / "plain"
    file.write_text("options vfio-pci ids=10de:2230\n")
    (machine.root / "boot" / "grub").mkdir()
    changes = (write(machine, file, "r1", "# out\n", boot=True), write(machine, plain, "r2", "x\n"))
    assert undo(machine, changes, "r2")[0] == 0
    assert machine.calls == []
    assert undo(machine, changes)[0] == 0
    assert machine.calls == ["update-initramfs -u -k all", "update-grub "]
    assert not (machine.state / "regenerate").exists()
    undo(machine, changes)
    assert len(machine.calls) == 2


def test_an_undo_that_was_cut_before_the_initramfs_is_finished_by_the_next(
    machine: Machine, tmp_path: Path
) -> None:
    file = tmp_path / "vfio.conf"
    file.write_text("mine\n")
    changes = (write(machine, file, "r1", "# out\n", boot=True),)
    machine.program("update-initramfs", "echo full; exit 1")
    code, said = undo(machine, changes)
    assert (code, "update-initramfs failed" in said) == (1, True)
    assert (machine.state / "regenerate").exists()
    machine.program("update-initramfs")
    code, said = undo(machine, changes)
    assert (code, "is the original already" in said) == (0, True)
    assert not (machine.state / "regenerate").exists()


BINDING = Change("binding", "r1", id=GPU, before="vfio-pci", override="vfio-pci")


def test_a_gpu_goes_back_to_vfio_with_its_override_and_the_other_stays(machine: Machine) -> None:
    machine.bus.function(GPU, "nvidia")
    machine.bus.function(OTHER, "nvidia")
    (machine.root / "module" / "nvidia").mkdir(parents=True)
    changes = (BINDING, Change("module", "r1", id="nvidia"))
    code, said = undo(machine, changes)
    assert (code, machine.bus.now(GPU), machine.bus.override(GPU)) == (0, "vfio-pci", "vfio-pci")
    assert machine.bus.now(OTHER) == "nvidia"
    assert f"the NVIDIA modules stay loaded: {OTHER} is on them" in said
    assert not any(call.startswith("rmmod") for call in machine.calls)
    code, said = undo(machine, changes)
    assert (code, f"{GPU} is on vfio-pci already" in said) == (0, True)


def test_the_modules_go_when_no_gpu_is_left_on_them(machine: Machine) -> None:
    machine.bus.function(GPU, "nvidia")
    (machine.root / "module" / "nvidia").mkdir(parents=True)
    (machine.root / "module" / "nvidia_uvm").mkdir()
    machine.program("rmmod", f"rmdir {machine.root}/module/$1")
    code, said = undo(machine, (BINDING, Change("module", "r1", id="nvidia")))
    assert (code, "the NVIDIA modules are unloaded" in said) == (0, True)
    assert [call for call in machine.calls if call.startswith("rmmod")] == [
        "rmmod nvidia_uvm",
        "rmmod nvidia",
    ]


def test_a_gpu_in_use_is_left_to_the_reboot(machine: Machine, tmp_path: Path) -> None:
    machine.bus.function(GPU, "nvidia", group=987653)
    group = tmp_path / "vfio" / "987653"
    group.parent.mkdir()
    with group.open("w"):
        code, said = undo(machine, (BINDING,))
    assert (code, machine.bus.now(GPU)) == (10, "nvidia")
    assert f"pid {os.getpid()} (" in said
    assert "the next reboot puts it back" in said


def test_all_together_a_gpu_goes_back_to_before_the_first_run(machine: Machine) -> None:
    machine.bus.function(GPU, "nvidia")
    changes = (BINDING, Change("binding", "r2", id=GPU, before="", override="nvidia"))
    assert undo(machine, changes)[0] == 0
    assert (machine.bus.now(GPU), machine.bus.override(GPU)) == ("vfio-pci", "vfio-pci")
    assert undo(machine, changes)[0] == 0
    assert machine.bus.now(GPU) == "vfio-pci"


def test_a_run_that_was_taken_back_alone_hides_no_later_one(machine: Machine) -> None:
    machine.bus.function(GPU, "nvidia")
    (machine.state / "undone").write_text("r1\n")
    changes = (BINDING, Change("binding", "r2", id=GPU, before="vfio-pci", override="vfio-pci"))
    assert f"would put {GPU} from nvidia to vfio-pci" in undo(machine, changes, "--look")[1]
    assert undo(machine, changes)[0] == 0
    assert machine.bus.now(GPU) == "vfio-pci"


def test_a_gpu_that_is_gone_or_refused_is_said(machine: Machine) -> None:
    machine.bus.function(GPU, "nvidia")
    machine.bus.refuses(GPU, "vfio-pci")
    gone = Change("binding", "r1", id=OTHER, before="vfio-pci")
    code, said = undo(machine, (BINDING, gone))
    assert code == 1
    assert f"{OTHER} is not on the bus" in said
    assert f"{GPU} was not taken by vfio-pci: the next reboot puts it back" in said


def tree(machine: Machine, folder: Path, files: dict[Path, str]) -> Change:
    """As before_tree leaves it on the machine, and the files put."""
    listed = machine.state / "originals" / "t"
    made = []
    for path in files:
        if path.exists() or path.is_symlink():
            kept = Path(f"{listed}.kept{path}")
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(path.read_text())
        if not path.parent.exists():
            made.append(str(path.parent))
    Path(f"{listed}.folders").write_text("".join(f"{path}\n" for path in made))
    lines = []
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("link:"):
            path.symlink_to(text.removeprefix("link:"))
            lines.append(f"{text}\t{path}\n")
        else:
            path.write_text(text)
            lines.append(f"{sha(text)}\t{path}\n")
    listed.write_text("".join(lines))
    return Change("tree", "r1", id="driver", original="t", then=("depmod:6.1", "ldconfig"))


def test_a_set_of_files_goes_with_its_folders_and_what_it_replaced_comes_back(
    machine: Machine, tmp_path: Path
) -> None:
    old = tmp_path / "lib.so.1"
    old.write_text("old\n")
    new, link = tmp_path / "made" / "nvidia.ko", tmp_path / "made" / "lib.so"
    change = tree(machine, tmp_path, {old: "new\n", new: "module\n", link: "link:lib.so.1"})
    assert undo(machine, (change,))[0] == 0
    assert old.read_text() == "old\n"
    assert not new.parent.exists()
    assert machine.calls == ["depmod 6.1", "ldconfig "]
    code, said = undo(machine, (change,))
    assert (code, "already" in said) == (0, True)
    assert len(machine.calls) == 2


def test_a_file_of_a_set_that_somebody_changed_stays(machine: Machine, tmp_path: Path) -> None:
    one, two = tmp_path / "made" / "one", tmp_path / "made" / "two"
    change = tree(machine, tmp_path, {one: "1\n", two: "2\n"})
    one.write_text("theirs\n")
    code, said = undo(machine, (change,))
    assert (code, one.read_text(), two.exists()) == (1, "theirs\n", False)
    assert f"{one} was changed by somebody else" in said


def test_a_unit_is_enabled_or_not_as_before(machine: Machine) -> None:
    change = Change("unit", "r1", id="kpro-devices.service", before="disabled inactive")
    machine.program("systemctl", "case $1 in is-enabled) echo enabled;; is-active) echo active;; esac")
    assert undo(machine, (change,))[0] == 0
    assert machine.calls[2:] == [
        "systemctl -q disable kpro-devices.service",
        "systemctl stop kpro-devices.service",
    ]
    machine.program(
        "systemctl", "case $1 in is-enabled) echo disabled; exit 1;; is-active) echo inactive; exit 3;; esac"
    )
    code, said = undo(machine, (change,))
    assert (code, "as before already" in said) == (0, True)


def test_packages_go_only_when_nothing_else_would(machine: Machine) -> None:
    change = Change("packages", "r1", id="packages", names=("nvidia-smi", "gone"))
    machine.program("dpkg-query", "case $4 in nvidia-smi) printf installed;; *) exit 1;; esac")
    machine.program("apt-get", "echo 'Purg nvidia-smi [1]'; echo 'Purg theirs [1]'")
    code, said = undo(machine, (change,))
    assert (code, "theirs would go with them" in said) == (1, True)
    assert not any("-y purge" in call for call in machine.calls)
    machine.program("apt-get", "echo 'Purg nvidia-smi [1]'")
    code, said = undo(machine, (change,))
    assert code == 0
    assert "apt-get -q -y purge nvidia-smi" in machine.calls
    assert "gone" not in machine.calls[-1]


def test_a_manifest_of_the_old_form_is_read(machine: Machine, tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("ours\n")
    old = {"kind": "file", "run": "r0", "path": str(file), "written": sha("ours\n"), "original": None}
    old |= {"mode": None, "owner": None, "id": "", "folder": ""}
    text = json.dumps({"schema": "kpro-manifest/1", "changes": [old]})
    changes = parse(text)
    assert parse(dump(changes)) == changes
    assert undo(machine, changes)[0] == 0
    assert not file.exists()


def test_a_second_change_of_a_run_keeps_what_was_there_before_the_first() -> None:
    again = Change("binding", "r1", id=GPU, before="", override="")
    assert with_changes((BINDING,), [again]) == (BINDING,)
    assert len(with_changes((BINDING,), [Change("binding", "r2", id=GPU)])) == 2


def test_undo_by_hand_waits_for_no_run_and_changes_nothing_beside_one(
    machine: Machine, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    change = write(machine, file, "r1", "ours\n")
    lock = tmp_path / "run" / "lock"
    lock.parent.mkdir()
    lock.write_text('{"run": "r2"}\n')
    script = undo_script((change,)).replace("/run/kpro", str(lock.parent))
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = machine.run(script, holder="")
        assert (done.returncode, '"run": "r2"' in done.stdout) == (4, True)
        assert file.exists()
        # A run that holds the lock itself says so.
        assert machine.run(script, "--look", holder="").returncode == 0
    assert machine.run(script, holder="").returncode == 0
    assert not file.exists()


def test_a_unit_goes_back_to_before_the_first_run_that_changed_it(machine: Machine) -> None:
    first = Change("unit", "r1", id="kpro-devices.service", before="disabled inactive")
    later = Change("unit", "r2", id="kpro-devices.service", before="enabled active")
    machine.program(
        "systemctl",
        "case $1 in is-enabled) echo disabled; exit 1 ;; is-active) echo inactive; exit 3 ;; esac",
    )
    code, said = undo(machine, (first, later), "--look")
    assert (code, "would" in said) == (0, False), said
    code, said = undo(machine, (first, later), "--look", "r2")
    assert (code, "would enable and start kpro-devices.service" in said) == (0, True), said
