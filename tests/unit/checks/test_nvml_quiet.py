"""``provcheck gpus`` changes nothing: no setter of NVML is called, no file is written but the one asked for."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from checks.gpus import getters, nvml, nvml_read
from tests import strace_log
from tests.strace_log import changes
from tests.unit.checks import nvml_rig
from tests.unit.checks.nvml_rig import environment


def traced(tmp_path: Path, *args: object, faults: str = "gpus=2") -> list[str]:
    if not shutil.which("strace"):
        pytest.fail("strace is missing: scripts/bootstrap --tests installs it")
    log = tmp_path / "strace.log"
    env = {**environment(faults), "PYTHONDONTWRITEBYTECODE": "1"}
    argv = [
        "strace",
        "-f",
        "-qq",
        "-o",
        str(log),
        "-e",
        f"trace={strace_log.CALLS}",
        *nvml_rig.command(*args),
    ]
    subprocess.run(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=120, check=False)
    text = log.read_text()
    assert "libnvidia-ml.so.1" in text, "the library was loaded under the trace"
    return changes(text)


def test_a_check_writes_no_file(tmp_path: Path) -> None:
    assert traced(tmp_path, "--expect", 2) == []


def test_a_hang_makes_it_write_no_file_either(tmp_path: Path) -> None:
    assert traced(tmp_path, "--deadline", 1.5, faults="gpus=2,hang:nvmlDeviceGetEccMode:gpu1") == []


def test_the_record_is_the_only_file_that_is_written(tmp_path: Path) -> None:
    record = tmp_path / "out" / "record.json"
    record.parent.mkdir()
    seen = traced(tmp_path, "--record", record)
    assert seen
    assert all(f'"{record.parent}' in call or call.startswith("fchmod(") for call in seen), seen
    assert [file.name for file in record.parent.iterdir()] == ["record.json"]


def test_the_reading_of_a_trace_finds_what_changes_something() -> None:
    log = (
        '12 openat(AT_FDCWD, "/etc/passwd", O_RDONLY|O_CLOEXEC) = 3\n'
        '12 openat(AT_FDCWD, "/sys/x", O_WRONLY|O_CLOEXEC) = 3\n'
        '12 openat(AT_FDCWD, "/sys/y", O_WRONLY|O_CLOEXEC) = -1 EACCES (Permission denied)\n'
        '13 openat(AT_FDCWD, "/dev/null", O_RDWR) = 3\n'
        '13 unlink("/tmp/x") = 0\n'
        '14 symlink("../nvidia0", "/dev/char/195:0" <unfinished ...>\n'
        '15 mkdir("/dev/nvidia-caps", 0755 <unfinished ...>\n'
        "14 <... symlink resumed>)           = -1 EEXIST (File exists)\n"
        "15 <... mkdir resumed>)             = 0\n"
        '16 rmdir("/cut"  <unfinished ...>\n'
    )
    assert [call.split("(")[0] for call in changes(log)] == ["openat", "unlink", "mkdir"]


def test_no_function_that_changes_a_setting_is_named_by_what_reads_nvml() -> None:
    named = set()
    for module in (getters, nvml, nvml_read):
        assert module.__file__
        named |= set(re.findall(r"\bnvml[A-Z]\w+", Path(module.__file__).read_text()))
    named |= {getter.call for getter in getters.DEVICE} | {call for call, _ in getters.STRUCTS.values()}
    assert len(named) > 60
    allowed = re.compile(
        r"nvml(Device|System)Get|nvmlInit(WithFlags)?$|nvmlDeviceValidateInforom$|nvmlDevice$|nvmlReturn$"
    )
    assert [name for name in sorted(named) if not allowed.match(name)] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make device nodes")
def test_nvidia_s_library_makes_no_device_node_and_no_link_behind_the_check(tmp_path: Path) -> None:
    node = tmp_path / "nvidia-uvm"
    env = environment(f"gpus=1,node={node}")
    subprocess.run(nvml_rig.command(), env=env, stdout=subprocess.DEVNULL, timeout=60, check=False)
    assert list(tmp_path.iterdir()) == []
    bare = "import ctypes; ctypes.CDLL('libnvidia-ml.so.1').nvmlInitWithFlags(0)"
    subprocess.run([sys.executable, "-c", bare], env=env, timeout=60, check=True)
    assert node.is_char_device(), "the double makes it where nobody keeps it from doing so"
    assert node.with_name("nvidia-uvm.link").is_symlink()
