"""Between nodes NCCL is held against what TCP itself carries there; and the rate at every size, if it is asked for."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import pytest

from checks.nccl import limits, measured, rates, run, sockets
from checks.nccl.judge import judge
from checks.nccl.limits import Limit, NoLimit
from checks.nccl.scene import Scene
from tests.unit.nccl.conftest import Rig
from tests.unit.nccl.test_judge import GIB, pair, rank
from tests.unit.nccl.test_nodes import free_port, of, together

LOG = (
    "vm:1:2 [0] NCCL INFO NET/Socket : Using [0]lo:127.0.0.1<0>\n"
    "vm:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0\n"
)


class Two:
    """Two nodes that hear each other's words."""

    def __init__(self) -> None:
        self.words: dict[str, dict[int, dict[str, Any]]] = {}
        self.changed = threading.Condition()

    def of(self, node: int) -> Callable[[str, Mapping[str, Any]], dict[int, dict[str, Any]]]:
        def everybody(name: str, word: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
            with self.changed:
                self.words.setdefault(name, {})[node] = dict(word)
                self.changed.notify_all()
                self.changed.wait_for(lambda: len(self.words[name]) == 2, 5)
                return dict(self.words[name])

        return everybody


def measured_by_both(
    logs: tuple[str, str], tokens: tuple[bytes, bytes] = (b"t", b"t")
) -> list[dict[str, Any]]:
    two, found = Two(), [{}, {}]

    def act(node: int) -> None:
        found[node] = sockets.measure(logs[node], node, [0, 1], tokens[node], two.of(node))

    threads = [threading.Thread(target=act, args=(node,)) for node in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found


def test_both_nodes_know_what_one_and_several_connections_carry_both_ways(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sockets, "SECONDS", 0.2)
    first, second = measured_by_both((LOG, LOG))
    assert first["of_node"] == second["of_node"]
    assert set(first["of_node"]) == {"0", "1"}
    assert all(set(row) == {"1", "4"} and min(row.values()) > 0.05 for row in first["of_node"].values())
    assert (first["interface"], first["address"]) == ("lo", "127.0.0.1")


def test_a_node_whose_data_did_not_go_over_sockets_is_named_and_nobody_waits() -> None:
    began = time.monotonic()
    for told in measured_by_both((LOG, LOG.replace("Socket/0", "IB/0"))):
        assert "node 1 did not use sockets" in told["error"]
    assert time.monotonic() - began < 5


def test_a_stranger_s_connection_carries_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "SECONDS", 0.2)
    monkeypatch.setattr(sockets, "GREET_S", 0.5)
    for told in measured_by_both((LOG, LOG), (b"ours", b"theirs")):
        assert "error" in told
        assert "of_node" not in told


def test_nothing_listens_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "SECONDS", 0.1)
    ports = []
    listener = sockets._listener

    def kept(address: str, backlog: int) -> socket.socket | None:
        ports.append(listener(address, backlog))
        return ports[-1]

    monkeypatch.setattr(sockets, "_listener", kept)
    measured_by_both((LOG, LOG))
    assert [sock.fileno() for sock in ports if sock is not None] == [-1, -1]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (LOG, ("lo", "127.0.0.1")),
        (LOG.replace("lo:127.0.0.1<0>", "eth0:fe80::1%eth0<0>"), ("eth0", "fe80::1")),
        (LOG.replace("NET/Socket/0", "NET/IB/0"), None),
        (LOG.replace("via NET/Socket/0", "via P2P/CUMEM"), None),
        ("", None),
    ],
)
def test_the_address_is_the_one_that_nccl_used(text: str, found: tuple[str, str] | None) -> None:
    assert sockets.used(text) == found


def told(**rows: float) -> dict[str, Any]:
    row = {name.removeprefix("s"): value for name, value in rows.items()}
    return {"interface": "eth0", "of_node": {"0": row, "1": {**row, "1": row["1"] / 2}}}


def test_the_slowest_node_s_one_connection_is_the_limit_and_several_are_the_most() -> None:
    limit = limits.of_sockets(told(s1=4.0, s4=9.0))
    assert isinstance(limit, Limit)
    assert (limit.gbytes, limit.most, limit.kind) == (2.0, 9.0, "socket")


@pytest.mark.parametrize(
    "seen",
    [
        None,
        {},
        {"error": "no"},
        {"of_node": {"0": None}},
        {"of_node": {"0": {"1": 0.0}, "1": {"1": 1.0}}},
    ],
)
def test_without_a_rate_of_every_node_there_is_no_limit(seen: object) -> None:
    assert isinstance(limits.of_sockets(seen), NoLimit)


def between(busbw: float, size: int = GIB, **sockets_: Any) -> Any:
    seconds = size / busbw / 1e9
    nodes = {
        "node": 0,
        "nnodes": 2,
        "joined": {"0": {"gpus": 1}, "1": {"gpus": 1}},
        "of_rank": {"0": 0, "1": 1},
    }
    ranks = [rank(0, seconds, size), rank(1, seconds, size)]
    data = pair(
        size=size,
        nodes={**nodes, "sockets": sockets_ or told(s1=8.0, s4=9.0)},
        runs=[{"name": "nodes 0, 1", "nranks": 2, "extra": {}, "ranks": ranks}],
    )
    (finding,) = [f for f in judge(Scene(measured.of(data))) if f.id == "nccl.busbw"]
    return finding


@pytest.mark.parametrize(
    ("busbw", "status"), [(2.1, "pass"), (1.9, "warn"), (0.9, "fail"), (5.0, "pass"), (10.5, "warn")]
)
def test_two_nodes_are_judged_by_what_their_sockets_carry(busbw: float, status: str) -> None:
    finding = between(busbw)
    assert finding.status.value == status
    assert "one TCP connection each way on eth0" in finding.message


def test_a_small_message_between_nodes_is_judged_too() -> None:
    assert between(0.9, 64 << 20).status.value == "fail"


def test_without_a_limit_two_nodes_are_not_judged() -> None:
    finding = between(2.0, error="node 1 did not use sockets")
    assert finding.status.value == "skip"
    assert "node 1 did not use sockets" in finding.message


def test_two_commands_over_sockets_measure_them_and_both_say_the_ratio(rig: Rig) -> None:
    at = f"127.0.0.1:{free_port()}"
    by_hand = (["--rdzv", at, "--nnodes", "2", "--node-rank", str(node)] for node in range(2))
    for report in together(rig, *((args, {"KPRO_DOUBLE_NCCL": "via=net"}) for args in by_hand)):
        (finding,) = of(report, "nccl.busbw")
        assert "one TCP connection each way on lo" in finding["message"], finding
        assert of(report, "nccl.transport")[0]["message"].startswith("NET/Socket on ")


def test_the_rate_at_every_size_is_told_when_it_is_asked_for(rig: Rig) -> None:
    said = rig.run("--size", "1M", "--curve")
    sizes = [row["bytes"] for row in said.report["facts"]["rates"]]
    assert sizes == [8 << power for power in range(18)]
    assert all(row["us"] >= 0 and row["busbw"] > 0 for row in said.report["facts"]["rates"])
    assert "8 B in" in said.of("nccl.busbw")["message"]
    assert rig.run("--size", "1M").report["facts"]["rates"] == []


def test_a_size_that_a_rank_did_not_time_is_not_in_the_curve() -> None:
    ranks = [rank(0), rank(1)]
    for number, one in enumerate(ranks):
        one["told"] += [{"curve": 8, "curve_s": [2e-5, 1e-5 + number * 1e-5, 3e-5]}]
    ranks[0]["told"].append({"curve": 16, "curve_s": [1e-5]})
    whole = measured.run_of({"name": "x", "nranks": 2, "ranks": ranks})
    assert rates.curve(whole) == {8: 2e-5, GIB: 0.0033}


def test_from_8_bytes_to_4_gib_each_size_is_twice_the_one_before() -> None:
    sizes = run.steps(4 << 30)
    assert (sizes[0], sizes[-1]) == (8, 2 << 30)
    assert all(b == 2 * a for a, b in pairwise(sizes))


def test_a_socket_that_is_cut_gives_no_rate() -> None:
    here, there = socket.socketpair()
    there.close()
    with pytest.raises(OSError, match="nothing came"):
        sockets._together([], [here])
