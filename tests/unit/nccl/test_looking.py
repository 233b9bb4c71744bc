"""Where libraries and variables are found, what is never taken over, and what is ours in /dev/shm."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from checks import child
from checks.errors import BadInput
from checks.nccl import environment, library, pairs, run, segments
from checks.nccl.command import parse_gpus, parse_size
from checks.nccl.crew import Deadlines
from checks.nccl.device import mixed
from checks.nccl.rank import room_of
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


def test_a_busy_gpu_is_left_alone_and_one_that_nvml_does_not_show_is_no_idle_one() -> None:
    device = {"nvmlDeviceGetUUID": "GPU-0", "memv2": {"used": 100 << 30, "free": 40 << 30}}
    seen = [{"uuid": "GPU-0", "ordinal": 0}]
    assert run.in_use({"nvmlInit": None, "devices": [device]}, seen)
    assert not run.in_use({"nvmlInit": None, "devices": [{**device, "memv2": {"used": 0}}]}, seen)
    for nvml in (None, {"nvmlInit": {"err": 9}}, {"nvmlInit": None, "devices": [device]}):
        (reason,) = run.in_use(nvml, [{"uuid": "MIG-1", "ordinal": 0}])
        assert reason == "gpu0 (MIG-1): NVML does not tell whether anybody uses it"


def test_force_spares_a_gpu_whose_user_may_need_what_is_free() -> None:
    seen = [{"uuid": "GPU-0", "ordinal": 0}]

    def at(free: int, used: int = 100 << 30) -> list[str]:
        device = {"nvmlDeviceGetUUID": "GPU-0", "memv2": {"used": used, "free": free}}
        return run.cramped({"nvmlInit": None, "devices": [device]}, seen)

    assert at(2 << 30) == []
    assert "only 2047 MiB free" in at((2 << 30) - 1)[0]
    assert at(1 << 30, used=0) == [], "small, but nobody's"


def test_a_test_beside_others_takes_a_quarter_and_leaves_a_reserve() -> None:
    for free in (0, 1 << 30, 2 << 30, 40 << 30, 140 << 30):
        taken = 2 * room_of(free, shared=True)
        assert taken <= free // 4
        assert free - taken >= min(free, 1 << 30)
    assert room_of(8 << 30, shared=False) == 2 << 30


def test_no_variable_of_a_service_has_files_written_or_loses_its_end() -> None:
    own = {"NCCL_DEBUG_FILE": "/var/log/x", "CUDA_COREDUMP_FILE": "/x", "HOME": "/root", "NCCL_ALGO": "Ring"}
    long = ":".join(f"/opt/{number}/lib" for number in range(400))
    told = environment.ranks({**own, "NCCL_TOPO_DUMP_FILE": "/t", "LD_LIBRARY_PATH": long}, None, {})
    assert told["LD_LIBRARY_PATH"] == long
    whole = environment.of_child(told, own)
    assert (whole["HOME"], whole["NCCL_ALGO"]) == ("/root", "Ring")
    assert not [name for name in (*told, *whole) if name.endswith("_FILE")]


def test_a_file_of_variables_is_read_as_systemd_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "env"
    file.write_text(
        "NCCL_IB_HCA=mlx5_0, mlx5_1 \n NCCL_ALGO = Ring\n; NCCL_PROTO=LL\nNCCL_NET_PLUGIN=it's\n"
        'NCCL_SOCKET_IFNAME="eth0 \\"x\\""\nNCCL_TOPO_FILE=/a\\\n/b\nnonsense\n'
    )
    assert environment.parse_unit("x.service", UNIT.format(file=file)).variables == {
        "NCCL_P2P_LEVEL": "SYS",
        "NCCL_DEBUG": "WARN",
        "NCCL_IB_HCA": "mlx5_0, mlx5_1",
        "NCCL_ALGO": "Ring",
        "NCCL_NET_PLUGIN": "it's",
        "NCCL_SOCKET_IFNAME": 'eth0 "x"',
        "NCCL_TOPO_FILE": "/a/b",
    }


def test_the_longest_run_holds_every_deadline_of_its_parts() -> None:
    deadlines = Deadlines(init=10, size=5)
    assert run.longest(deadlines) > 7 * 15 + 3 * (60 + 10 + 6 * 5)
    assert run.longest(deadlines, 4 << 30) >= run.longest(deadlines) + 3 * 3 * 3 * 5
    assert (deadlines.of("sum 8 1"), deadlines.of(f"bench {4 << 30}"), deadlines.of("init")) == (5, 20, 10)


def test_the_keeper_removes_what_killed_ranks_left_and_only_that(tmp_path: Path) -> None:
    names = [f"nccl-kpro-keeper-{os.getpid()}-{word}" for word in ("ours", "old", "foreign")]
    try:
        for name in names:
            Path("/dev/shm", name).touch()
        told = {"pids": [], "held": names[:2], "before": names[1:2]}
        ended = child.run(child.self_command("_probe", "nccl-keeper"), 10, json.dumps(told).encode())
        assert ended.code == 0
        assert [Path("/dev/shm", name).exists() for name in names] == [False, True, True]
    finally:
        for name in names:
            Path("/dev/shm", name).unlink(missing_ok=True)


def test_the_probes_start_without_click_and_rich(rig: Rig) -> None:
    code = (
        "import sys; from checks.nccl import look, peer, rank; "
        "print([name for name in ('click', 'rich', 'pynvml') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], env=rig.environment(), capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
    assert shutil.which("gcc")
