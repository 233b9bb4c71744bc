"""``provision build-driver`` around its compile: what is refused, what is cached, what an interrupt leaves."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from provision.cli import main
from provision.driver import build, cache, command, pack
from provision.driver.apt import Apt
from provision.driver.archive import Prebuilt
from provision.driver.process import Commands, Failed
from tests.unit.driver.conftest import KERNEL, VERSION

Make = Callable[..., Path]
WANTED = Prebuilt(VERSION, "open", KERNEL)


def run(*words: str, driver: str = VERSION, kernel: str = KERNEL) -> Result:
    return CliRunner().invoke(main, ["build-driver", "--driver", driver, "--kernel", kernel, *words])


@pytest.fixture
def never_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(*_: object) -> None:
        raise AssertionError("it must not come to a build")

    monkeypatch.setattr(build, "_make", make)
    monkeypatch.setattr(build, "_ready", lambda: None)


@pytest.mark.parametrize(
    ("words", "values", "why"),
    [
        ((), {"driver": "535.261.04"}, "did you mean '535.261.03'"),
        ((), {"kernel": "6.1.0; reboot"}, "has not the form of a kernel release"),
        ((), {"kernel": "../../x"}, "has not the form of a kernel release"),
        (("--sign-key", "/k"), {}, "go together"),
        (("--sign-key", "/k", "--sign-cert", "/c"), {}, "/k is no file"),
        (("--output", "/tmp"), {}, "is a folder"),
        (
            ("--suite", "nosuch"),
            {},
            "'nosuch' is no Debian suite that a driver is built in: bookworm, trixie",
        ),
        (("--suite", ""), {}, "'' is no Debian suite"),
    ],
)
def test_what_cannot_be_meant_ends_with_2_and_one_line_each(
    never_made: None, words: tuple[str, ...], values: dict[str, str], why: str
) -> None:
    result = run(*words, **values)
    assert result.exit_code == 2
    assert why in result.output


def test_an_archive_that_is_there_answers_for_no_suite_that_there_is_not(
    never_made: None, make_archive: Make
) -> None:
    make_archive()
    assert run("--suite", "trixie").exit_code == 0
    refused = run("--suite", "nosuch", "--output", "/tmp")
    assert refused.exit_code == 2
    assert "'nosuch'" in refused.output
    assert "is a folder" in refused.output


def test_the_second_call_finds_the_archive(never_made: None, make_archive: Make) -> None:
    path = make_archive()
    result = run()
    assert result.exit_code == 0, result.output
    assert result.stdout.strip() == str(path)
    assert "already built" in result.stderr


def test_an_archive_of_another_driver_or_without_the_signature_is_not_taken_for_it(
    make_archive: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    key.write_text("k")
    certificate.write_text("c")
    made: list[build.Request] = []

    def make(request: build.Request, *_: object) -> None:
        made.append(request)
        raise Failed("stopped here")

    monkeypatch.setattr(build, "_make", make)
    monkeypatch.setattr(build, "_ready", lambda: None)
    signed = ("--sign-key", str(key), "--sign-cert", str(certificate))
    make_archive()
    assert run(*signed).exit_code == 1
    make_archive(signed=True)
    assert run(*signed).exit_code == 1, "signed with another key"
    other = make_archive(version="580.159.04")
    other.rename(cache.path_of(WANTED))
    assert run().exit_code == 1
    assert len(made) == 3


@pytest.mark.parametrize(
    "stop", [KeyboardInterrupt(), Failed("compiling: make ended with 2"), OSError("disk full")]
)
def test_what_ends_early_writes_nothing_and_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: BaseException
) -> None:
    def make(request: build.Request, work: Path, *_: object) -> None:
        (work / "root").mkdir()
        raise stop

    monkeypatch.setattr(build, "_make", make)
    monkeypatch.setattr(build, "_ready", lambda: None)
    left = cache.folder() / ".build-of-a-cut-run"
    left.mkdir(parents=True)
    result = run()
    assert result.exit_code == (command.EXIT_INTERRUPTED if isinstance(stop, KeyboardInterrupt) else 1)
    assert "nothing was written" in result.output
    assert [entry.name for entry in cache.folder().iterdir()] == [".lock"]


def test_without_root_it_is_said_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    result = run()
    assert result.exit_code == 1
    assert "run it as root" in result.output


def test_everything_that_the_suite_lacks_is_named_with_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = {
        "nvidia-smi": ("535.309.01-1", "535.261.03-1"),
        "libcuda1": ("535.261.03-1",),
        "nvidia-modprobe": ("530.1-1",),
    }
    monkeypatch.setattr(Apt, "versions", lambda self, package: there.get(package, ()))
    names = (
        "linux-headers-6.1.0-53-amd64",
        "linux-headers-6.1.0-53-rt-amd64",
        "linux-headers-6.1.0-53-common",
    )
    monkeypatch.setattr(Apt, "names", lambda self, prefix: names)
    request = build.Request(WANTED, "open", "bookworm", tmp_path / "x")
    with pytest.raises(Failed) as refused:
        build._packages(request, Apt(tmp_path, Commands(tmp_path / "log", print)))
    said = str(refused.value)
    assert f"no linux-headers-{KERNEL}" in said
    assert "there are: 6.1.0-53-amd64" in said
    assert "rt" not in said.split("\n")[1]
    assert "no nvidia-open-kernel-dkms 535.261.03; there is: none" in said
    assert "no nvidia-smi" not in said
    assert "libnvidia-nvvm4" not in said, "taken where the suite has it"


def test_a_failing_program_is_told_with_its_last_lines_and_one_that_hangs_is_ended(tmp_path: Path) -> None:
    commands = Commands(tmp_path / "log", print)
    with pytest.raises(Failed, match="ended with 3\n    why it failed"):
        commands(["sh", "-c", "echo why it failed; exit 3"], "trying")
    with pytest.raises(Failed, match="no-such-program is missing"):
        commands(["no-such-program"], "trying")


def test_the_compilers_error_and_its_known_cause_are_shown(tmp_path: Path) -> None:
    folder = tmp_path / "var/lib/dkms/nvidia-current-open/550.163.01/build"
    folder.mkdir(parents=True)
    (folder / "make.log").write_text(f"{folder}/nv-pci.c:244:9: error: too few arguments\n")
    said = build._why(tmp_path, Prebuilt("550.163.01", "open", "6.12.117+deb13-amd64"))
    assert said is not None
    assert "nv-pci.c:244:9: error: too few arguments" in said
    assert "pci_resize_resource() has four arguments" in said
    assert "known" not in (build._why(tmp_path, Prebuilt("550.163.01", "open", "6.1.0-50-amd64")) or "")


def test_files_come_from_the_packages_by_their_version_alone(tmp_path: Path) -> None:
    unpacked, stage = tmp_path / "unpacked", tmp_path / "stage"
    libraries = unpacked / "usr/lib/x86_64-linux-gnu/nvidia/current"
    libraries.mkdir(parents=True)
    for name in ("libcuda.so.535.261.03", "libother.so.1.2"):
        (libraries / name).write_text(name)
    (libraries / "libcuda.so.1").symlink_to("libcuda.so.535.261.03")
    (libraries / "libcuda.so").symlink_to("libcuda.so.1")
    (libraries / "libother.so.1").symlink_to("libother.so.1.2")
    firmware = unpacked / "lib/firmware/nvidia/535.261.03"
    firmware.mkdir(parents=True)
    (firmware / "gsp.bin").write_text("x")
    for name in ("usr/bin/nvidia-modprobe", "usr/share/doc/nvidia-smi"):
        (unpacked / name).parent.mkdir(parents=True, exist_ok=True)
        (unpacked / name).write_text("x")
    (unpacked / "usr/bin/nvidia-modprobe").chmod(0o755)
    pack.collect(unpacked, {"nvidia.ko": b"x"}, VERSION, stage)
    files, links = pack.listed(stage)
    assert [entry.path for entry in files] == [
        "bin/nvidia-modprobe",
        "firmware/gsp.bin",
        "lib/libcuda.so.535.261.03",
        "modules/nvidia.ko",
    ]
    assert links == {"lib/libcuda.so": "libcuda.so.1", "lib/libcuda.so.1": "libcuda.so.535.261.03"}
