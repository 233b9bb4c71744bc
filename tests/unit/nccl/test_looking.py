"""Where libraries and variables are found, what is never taken over, and what is ours in /dev/shm."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from checks.errors import BadInput
from checks.nccl import environment, library, pairs, run, segments
from checks.nccl.command import parse_gpus, parse_size
from checks.nccl.crew import Deadlines
from checks.nccl.device import mixed
from checks.nccl.run import Wish
from tests.unit.nccl.conftest import Rig

INSIDE = "lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2"


def engine(home: Path) -> Path:
    file = home / INSIDE
    file.parent.mkdir(parents=True)
    file.write_bytes(b"")
    return file


def first(
    tmp_path: Path, variables: dict[str, str] | None = None, command: str | None = None
) -> library.Candidate:
    return library.candidates(
        library=None, env=None, variables=variables or {}, command=command, kept=tmp_path / "kept"
    )[0]


def test_the_order_is_that_of_engines(tmp_path: Path) -> None:
    kept, own = engine(tmp_path / "kept/vllm"), engine(tmp_path / "service")
    assert first(tmp_path).path == str(kept)
    assert first(tmp_path, command=str(tmp_path / "service/bin/python")).path == str(own)
    named = first(tmp_path, {"VLLM_NCCL_SO_PATH": "/y/libnccl.so.2"}, str(tmp_path / "service/bin/python"))
    assert (named.path, named.how) == ("/y/libnccl.so.2", "VLLM_NCCL_SO_PATH")


def test_what_is_named_and_not_there_is_refused(tmp_path: Path) -> None:
    for named in ({"library": tmp_path / "no.so", "env": None}, {"library": None, "env": tmp_path}):
        with pytest.raises(BadInput):
            library.candidates(**named, variables={}, command=None)


def test_the_runtime_is_looked_for_beside_nccl(tmp_path: Path) -> None:
    file = tmp_path / "lib/python3.12/site-packages/nvidia/cu13/lib/libcudart.so.13"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"")
    assert library.runtimes(tmp_path)[0] == str(file)
    assert library.home_of(Path(f"{tmp_path}/{INSIDE}")) == tmp_path


UNIT = """LoadState=loaded
ExecStart={{ path=/opt/kpro/envs/vllm/bin/vllm ; argv[]=/opt/kpro/envs/vllm/bin/vllm serve ; ignore_errors=no }}
Environment=NCCL_P2P_LEVEL=SYS "HF_TOKEN=secret one" NCCL_DEBUG=WARN
EnvironmentFiles={file} (ignore_errors=no)
MainPID=0
"""


def test_a_unit_gives_its_variables_and_never_its_secrets(tmp_path: Path) -> None:
    file = tmp_path / "env"
    file.write_text(
        "# NCCL_IB_DISABLE=0\nNCCL_IB_DISABLE=1\nAPI_KEY=topsecret\nNCCL_P2P_LEVEL='PHB'\nNCCL_TOKEN=x\n"
    )
    service = environment.parse_unit("kpro-chat.service", UNIT.format(file=file))
    assert service.variables == {"NCCL_P2P_LEVEL": "PHB", "NCCL_DEBUG": "WARN", "NCCL_IB_DISABLE": "1"}
    assert service.program == "/opt/kpro/envs/vllm/bin/vllm"
    assert "secret" not in repr(service)


def test_a_unit_that_is_not_there_is_refused() -> None:
    with pytest.raises(BadInput, match="knows no unit"):
        environment.parse_unit("x.service", "LoadState=not-found\n")


def test_multicast_is_off_unless_the_service_says_otherwise() -> None:
    assert environment.ranks({}, None, {})["NCCL_NVLS_ENABLE"] == "0"
    service = environment.Service("x", {"NCCL_NVLS_ENABLE": "1"})
    assert environment.ranks({}, service, {})["NCCL_NVLS_ENABLE"] == "1"


@pytest.mark.skipif(os.geteuid() != 0, reason="another process's environment needs root")
def test_a_running_engine_gives_its_variables() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env={"NCCL_ALGO": "Ring"}
    )
    try:
        while process.poll() is None and not Path(f"/proc/{process.pid}/environ").read_bytes():
            pass
        assert environment.process(process.pid).variables == {"NCCL_ALGO": "Ring"}
    finally:
        process.communicate(b"\n")


def test_only_files_that_our_own_processes_held_are_removed(tmp_path: Path) -> None:
    for name in ("nccl-old", "nccl-ours", "nccl-foreign"):
        (tmp_path / name).write_bytes(b"")
    assert segments.sweep({"nccl-old"}, {"nccl-ours", "nccl-old"}, tmp_path) == ["nccl-ours"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["nccl-foreign", "nccl-old"]


def test_a_file_that_a_living_process_holds_stays(tmp_path: Path) -> None:
    name = f"nccl-kpro-test-{os.getpid()}"
    path = Path("/dev/shm") / name
    try:
        with path.open("w"):
            assert segments.held_by([os.getpid()]) == {name}
            assert segments.sweep(set(), {name}) == []
            assert path.exists()
    finally:
        path.unlink()


@pytest.mark.parametrize("count", range(2, 9))
def test_rounds_of_pairs_hold_every_pair_once_and_no_gpu_twice_at_a_time(count: int) -> None:
    found = pairs.rounds(range(count))
    assert sorted(pair for together in found for pair in together) == [
        (a, b) for a in range(count) for b in range(a + 1, count)
    ]
    for together in found:
        members = [gpu for pair in together for gpu in pair]
        assert len(members) == len(set(members))


def test_what_the_host_computes_is_a_pattern_and_not_a_constant() -> None:
    assert len({mixed(index, 7) for index in range(1000)}) == 1000
    assert mixed(5, 1) != mixed(5, 2)


@pytest.mark.parametrize(("text", "size"), [("1G", 1 << 30), ("64m", 64 << 20), ("12", 8), ("4KiB", 4096)])
def test_a_size_is_read(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "7", "1T", "-1", "65G", "1.5G"])
def test_a_size_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse_size(text)


@pytest.mark.parametrize("text", ["", "0,0", "a", "-1", "0;1"])
def test_a_list_of_gpus_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse_gpus(text)


def test_eight_ranks_come_through(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in rig.environment(KPRO_DOUBLE_CUDA="gpus=8").items():
        monkeypatch.setenv(name, value)
    wish = Wish(size=64 << 10, library=rig.nccl / "libnccl.so.2", deadlines=Deadlines(init=30, size=30))
    bench = run.look(wish, None)
    assert bench.gpus == list(range(8))
    run.measure(bench, wish)
    (told,) = bench.data["runs"]
    assert [rank["done"] for rank in told["ranks"]] == [True] * 8
    sums = [line for rank in told["ranks"] for line in rank["told"] if "sum" in line]
    assert len(sums) == 8 * 2 * 3
    assert all(line["wrong"] == 0 for line in sums)


def test_a_gpu_that_is_not_there_is_refused(rig: Rig) -> None:
    said = rig.run("--gpus", "5")
    assert said.code == 2
    assert "no GPU 5" in said.stderr


def test_a_busy_gpu_is_left_alone_unless_forced() -> None:
    device = {"nvmlDeviceGetUUID": "GPU-0", "memv2": {"used": 100 << 30}}
    seen = [{"uuid": "GPU-0"}]
    assert run.in_use({"nvmlInit": None, "devices": [device]}, seen)
    assert not run.in_use({"nvmlInit": None, "devices": [{**device, "memv2": {"used": 0}}]}, seen)
    assert not run.in_use({"nvmlInit": None, "devices": [device]}, [{"uuid": "GPU-1"}])


def test_the_probes_start_without_click_and_rich(rig: Rig) -> None:
    code = (
        "import sys; from checks.nccl import look, peer, rank; "
        "print([name for name in ('click', 'rich', 'pynvml') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], env=rig.environment(), capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
    assert shutil.which("gcc")
