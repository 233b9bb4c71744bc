"""Many nodes as several commands on loopback: all meet, a node that never comes is named, strangers are refused."""

from __future__ import annotations

import argparse
import json
import shlex
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from checks.errors import BadInput
from checks.nccl import launch, nodes
from checks.nccl.launch import Place
from checks.nccl.rendezvous import Client, Line, Refused, Server
from tests.unit.nccl.conftest import Rig

TORCHRUN = {"GROUP_RANK": "1", "GROUP_WORLD_SIZE": "2", "LOCAL_RANK": "0"}


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def together(rig: Rig, *commands: tuple[list[str], dict[str, str]]) -> list[dict[str, Any]]:
    """Starts one command per node at once, each with GPUs of its own unless it says otherwise; the report of each."""
    running = [
        subprocess.Popen(
            rig.argv("--size", "64K", "--gpus", "0", "--init-deadline", "5", "--size-deadline", "5", *args),
            env=rig.environment(**{**on_host(number), **variables}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number, (args, variables) in enumerate(commands)
    ]
    ended = [process.communicate(timeout=90) for process in running]
    return [json.loads(out) if out else {"said": err} for out, err in ended]


def on_host(number: int) -> dict[str, str]:
    """What gives the doubles the GPUs of another host."""
    return {f"KPRO_DOUBLE_{library}": f"host={number}" for library in ("CUDA", "NVML")}


def by_hand(nodes: int, *more: str) -> list[list[str]]:
    at = f"127.0.0.1:{free_port()}"
    return [["--rdzv", at, "--nnodes", str(nodes), "--node-rank", str(n), *more] for n in range(nodes)]


def of(report: dict[str, Any], identity: str) -> list[dict[str, Any]]:
    return [finding for finding in report["findings"] if finding["id"] == identity]


def test_two_nodes_started_by_hand_make_one_communicator(rig: Rig) -> None:
    at = f"127.0.0.1:{free_port()}"
    by_hand = (["--rdzv", at, "--nnodes", "2", "--node-rank", str(node)] for node in range(2))
    first, second = together(rig, *((args, {}) for args in by_hand))
    assert of(first, "nccl.node")[0]["message"] == "2 nodes with 2 GPUs came"
    for report in (first, second):
        assert of(report, "nccl.init")[0]["message"].startswith("2 ranks")
        assert of(report, "nccl.sums")[0]["status"] == "pass"
    assert "each of 2 ranks" in of(first, "nccl.sums")[0]["message"]
    assert of(first, "nccl.transport")[0]["message"] == "P2P/CUMEM on 2 hops", (
        "nothing was asked between nodes"
    )


@pytest.mark.parametrize(
    ("zero", "one"),
    [
        ({**TORCHRUN, "GROUP_RANK": "0"}, TORCHRUN),
        (
            {"SLURM_NNODES": "2", "SLURM_NODEID": "0"},
            {"SLURM_NNODES": "2", "SLURM_NODEID": "1", "SLURM_LOCALID": "0"},
        ),
    ],
    ids=["torchrun", "srun"],
)
def test_a_launcher_says_which_node_this_is(rig: Rig, zero: dict[str, str], one: dict[str, str]) -> None:
    at = ["--rdzv", f"127.0.0.1:{free_port()}"]
    first, _ = together(rig, (at, zero), (at, one))
    assert of(first, "nccl.node")[0]["status"] == "pass"


def test_a_node_that_never_comes_is_named(rig: Rig) -> None:
    at = f"127.0.0.1:{free_port()}"
    (report,) = together(
        rig, (["--rdzv", at, "--nnodes", "2", "--node-rank", "0", "--join-deadline", "1"], {})
    )
    (finding,) = of(report, "nccl.node")
    assert (finding["status"], finding["subject"]) == ("fail", "node1")
    assert "never came" in finding["message"]


def test_a_bad_node_is_told_from_its_neighbours_by_pairs(rig: Rig) -> None:
    at = f"127.0.0.1:{free_port()}"
    args = [["--rdzv", at, "--nnodes", "3", "--node-rank", str(node), "--pairwise"] for node in range(3)]
    wrong = {"KPRO_DOUBLE_NCCL": "wrong-sum"}
    first, *_ = together(rig, (args[0], {}), (args[1], wrong), (args[2], {}))
    (finding,) = of(first, "nccl.node")
    assert (finding["status"], finding["subject"]) == ("fail", "node1")
    assert "0-1" in finding["message"]
    assert "1-2" in finding["message"]
    assert of(first, "nccl.sums")[0]["status"] == "fail"


def test_only_the_first_process_of_a_node_acts(rig: Rig) -> None:
    said = rig.run("--rdzv", "127.0.0.1:1", **{**TORCHRUN, "LOCAL_RANK": "3"})
    assert said.code == 0
    assert "first process" in said.stderr


def test_a_stranger_is_refused_and_does_not_count_as_a_node() -> None:
    port = free_port()
    server = Server("127.0.0.1", port, b"ours", 2, join_s=2, id_s=2)
    try:
        with pytest.raises(Refused):
            Client.connect("127.0.0.1", port, b"theirs", 1, 2)
        client = Client.connect("127.0.0.1", port, b"ours", 1, 2)
        assert set(client.join(4, {}, "", 10)) == {1}
        assert server.board.strangers == 1
        client.close()
    finally:
        server.close()


def test_of_two_that_say_they_are_one_node_the_second_is_refused() -> None:
    port = free_port()
    server = Server("127.0.0.1", port, b"ours", 2, join_s=2, id_s=2)
    try:
        first = Client.connect("127.0.0.1", port, b"ours", 1, 2)
        with pytest.raises(Refused, match="there already"):
            Client.connect("127.0.0.1", port, b"ours", 1, 2)
        first.close()
    finally:
        server.close()


def test_a_line_without_end_is_cut_off() -> None:
    here, there = socket.socketpair()
    here.sendall(b"x" * 10000)
    with pytest.raises(Refused, match="longer"):
        Line(there).hear(2, 4096)
    here.close()
    there.close()


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        (TORCHRUN, Place(2, 1, 0, "torchrun")),
        ({"SLURM_NNODES": "4", "SLURM_NODEID": "3", "SLURM_LOCALID": "0"}, Place(4, 3, 0, "srun")),
        (
            {
                "OMPI_COMM_WORLD_SIZE": "16",
                "OMPI_COMM_WORLD_RANK": "9",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "8",
                "OMPI_COMM_WORLD_LOCAL_RANK": "1",
            },
            Place(2, 1, 1, "mpirun"),
        ),
        (
            {"PMI_SIZE": "2", "PMI_RANK": "1", "MPI_LOCALNRANKS": "1", "MPI_LOCALRANKID": "0"},
            Place(2, 1, 0, "mpirun"),
        ),
    ],
)
def test_each_launcher_is_read_in_its_own_words(environ: dict[str, str], place: Place) -> None:
    assert launch.place(None, None, environ) == place


def test_the_torchrun_line_of_the_manual_passes_torchrun_s_own_parser(repo_root: Path) -> None:
    """torch/distributed/run.py takes shortened options, also among the words of the program that it starts."""
    (line,) = [
        text for text in (repo_root / "docs/nccl.md").read_text().splitlines() if " torchrun --" in text
    ]
    parser = argparse.ArgumentParser(exit_on_error=False)
    for option in ("nnodes", "nproc-per-node", "rdzv-endpoint", "rdzv-id", "rdzv-backend"):
        parser.add_argument(f"--{option}")
    parser.add_argument("--no-python", action="store_true")
    parser.add_argument("program")
    parser.add_argument("words", nargs=argparse.REMAINDER)
    told = parser.parse_args(shlex.split(line)[1:])
    assert (told.program, told.words[:2]) == ("provcheck", ["nccl", "--rdzv"])


def test_options_win_over_a_launcher() -> None:
    assert launch.place(3, 2, TORCHRUN) == Place(3, 2, 0, "options")


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {**TORCHRUN, "GROUP_RANK": "7"},
        {**TORCHRUN, "GROUP_RANK": "x"},
        {**TORCHRUN, "GROUP_RANK": "²"},
        {
            "OMPI_COMM_WORLD_SIZE": "3",
            "OMPI_COMM_WORLD_RANK": "0",
            "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
            "OMPI_COMM_WORLD_LOCAL_RANK": "0",
        },
    ],
)
def test_a_place_that_cannot_be_is_refused(environ: dict[str, str]) -> None:
    with pytest.raises(BadInput):
        launch.place(None, None, environ)


@pytest.mark.parametrize("count", range(2, 9))
def test_every_node_is_in_two_pairs_with_different_neighbours(count: int) -> None:
    *pairs, whole = nodes.steps(list(range(count)), pairwise=True)
    assert whole == [list(range(count))]
    for groups in pairs:
        members = [node for group in groups for node in group]
        assert len(members) == len(set(members))
    if count > 2:
        seen = {node: [g for groups in pairs for g in groups if node in g] for node in range(count)}
        assert all(len(found) == 2 for found in seen.values())
        assert len({tuple(sorted(g)) for groups in pairs for g in groups}) == sum(map(len, pairs))


def test_what_a_stranger_must_know_is_the_token_where_there_is_one() -> None:
    one = launch.token({"PROVCHECK_TOKEN": "a"}, "h:1")
    assert one != launch.token({"PROVCHECK_TOKEN": "b"}, "h:1")
    assert launch.token({}, "h:1") != launch.token({}, "h:2")


@pytest.mark.parametrize(
    "text", ["host", "host:", ":1", "host:0", "host:70000", "host:x", "host:²", f"host:{'9' * 5000}"]
)
def test_a_meeting_place_is_a_host_and_a_port(text: str) -> None:
    with pytest.raises(BadInput):
        launch.address(text)
    assert launch.address("[::1]:29400") == ("::1", 29400)
