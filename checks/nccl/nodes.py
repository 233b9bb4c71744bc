"""A measurement over many nodes: one command per node, which meet at node 0 and do the same steps together.

Steps: with ``pairwise`` first pairs of nodes, each node with both its neighbours, so that a node that is bad with
both is told from them; then all nodes in one communicator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from checks.nccl import own, run, sockets
from checks.nccl.launch import Place
from checks.nccl.rendezvous import Client, Refused, Server
from checks.nccl.run import Bench, Wish

LOG_KEPT = 32 << 10


@dataclass(frozen=True)
class Meeting:
    """Where node 0 listens, what proves a node, and how long to wait for all."""

    host: str
    port: int
    token: bytes
    join_s: float = 120.0


class NoId(Exception):
    """The first node of a step had no id to give: its own report says why."""


def steps(nodes: Sequence[int], pairwise: bool) -> list[list[list[int]]]:
    """Groups of nodes per step, the last step all of them; with ``pairwise`` each node is in two pairs before."""
    found: list[list[list[int]]] = []
    if pairwise and len(nodes) > 2:
        even = [list(nodes[at : at + 2]) for at in range(0, len(nodes) - 1, 2)]
        turned = [*nodes[1:], nodes[0]]
        odd = [list(turned[at : at + 2]) for at in range(0, len(turned) - 1, 2)]
        found += [even, odd]
        if len(nodes) % 2:
            found.append([[nodes[0], nodes[-1]]])  # left over once each
    return [*found, [list(nodes)]]


def measure(bench: Bench, wish: Wish, place: Place, meeting: Meeting, pairwise: bool) -> None:
    """Adds ``nodes`` and ``runs`` to the data. What goes wrong with the meeting is said there."""
    told: dict[str, Any] = {"node": place.node, "nnodes": place.nodes, "at": f"{meeting.host}:{meeting.port}"}
    told |= {"launcher": place.launcher, "joined": {}, "steps": [], "of_rank": {}, "join_s": meeting.join_s}
    bench.data["nodes"] = told
    wait = wish.deadlines.start + wish.deadlines.init
    server = None
    try:
        if place.node == 0:
            server = Server(meeting.host, meeting.port, meeting.token, place.nodes, meeting.join_s, wait)
        client = Client.connect(meeting.host, meeting.port, meeting.token, place.node, meeting.join_s)
        try:
            _together(bench, wish, place, client, server, pairwise, meeting.join_s, wait, meeting.token)
        finally:
            client.close()
    except (OSError, Refused, KeyError, TypeError, ValueError) as error:
        told["error"] = f"{type(error).__name__}: {error}"[:300]
    finally:
        if server is not None:
            told["strangers"] = server.board.strangers
            server.close()


def _together(
    bench: Bench,
    wish: Wish,
    place: Place,
    client: Client,
    server: Server | None,
    pairwise: bool,
    join_s: float,
    wait: float,
    token: bytes,
) -> None:
    told = bench.data["nodes"]
    able = run.usable(bench)
    why = "" if able else "; ".join(bench.data["busy"]) or "no usable library or GPU"
    look = bench.data["look"]
    mine = own.named(look["gpus"], bench.gpus, (look.get("driver") or {}).get("version"))
    joined = client.join(len(bench.gpus) if able else 0, mine, why, join_s + 30)
    told["joined"] = {str(node): entry for node, entry in joined.items()}
    nodes = [node for node, entry in joined.items() if entry["gpus"] > 0]
    if len(nodes) < 2 or own.twice(joined):
        return
    plan = steps(nodes, pairwise)
    for number, groups in enumerate(plan):
        group = next((group for group in groups if place.node in group), None)
        if group is not None and place.node in nodes:
            step = number * 4096 + group[0]
            last = number == len(plan) - 1
            client.result(step, _step(bench, wish, place, client, joined, group, step, wait, last))
    if place.node in nodes:
        told["sockets"] = sockets.measure(
            _log(bench), place.node, nodes, token, partial(_all, client, len(nodes))
        )
    if server is not None:
        _gather(bench, wish, server, plan, joined)


def _all(client: Client, count: int, name: str, word: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    return client.everybody(name, word, count)


def _log(bench: Bench) -> str:
    """What NCCL logged on this node in the run over all nodes."""
    return "\n".join(rank["log"] for run in bench.data["runs"] for rank in run["ranks"])


def _step(
    bench: Bench,
    wish: Wish,
    place: Place,
    client: Client,
    joined: dict[int, dict[str, Any]],
    group: list[int],
    step: int,
    wait: float,
    last: bool,
) -> dict[str, Any]:
    counts = [int(joined[node]["gpus"]) for node in group]
    first = sum(counts[: group.index(place.node)])
    gave = False

    def exchange(own: str | None) -> str:
        nonlocal gave
        if own is not None:
            client.give_id(step, own)
            gave = True
            return own
        identity = client.wait_id(step, wait + 30)
        if identity is None:
            raise NoId
        return identity

    name = f"nodes {', '.join(map(str, group))}"
    try:
        run.run(bench, wish, name, {}, run.Node(sum(counts), first, exchange))
        done = bench.data["runs"].pop()
    except NoId:
        done = {"name": name, "extra": {}, "nranks": sum(counts), "ranks": [], "removed": []}
    if place.node == group[0] and not gave:
        client.give_id(step, None)
    if last:
        of_rank: dict[str, int] = {}
        for node, count in zip(group, counts):  # noqa: B905 - made from each other
            of_rank |= {str(len(of_rank) + at): node for at in range(count)}
        bench.data["nodes"]["of_rank"] = of_rank
        bench.data["runs"] = [done]
    return {**done, "ranks": [{**rank, "log": rank["log"][-LOG_KEPT:]} for rank in done["ranks"]]}


def _gather(
    bench: Bench,
    wish: Wish,
    server: Server,
    plan: list[list[list[int]]],
    joined: dict[int, dict[str, Any]],
) -> None:
    """Waits for every node's results and puts them together, as far as they came."""
    board = server.board
    wanted = {
        (n * 4096 + group[0], node) for n, groups in enumerate(plan) for group in groups for node in group
    }
    board.wait(lambda: wanted <= set(board.results), wish.deadlines.init + 8 * wish.deadlines.size)
    for number, groups in enumerate(plan):
        for group in groups:
            step = number * 4096 + group[0]
            parts = {node: board.results.get((step, node)) for node in group}
            ranks = [rank for part in parts.values() if part is not None for rank in part.get("ranks", ())]
            nranks = sum(int(joined[node]["gpus"]) for node in group)
            name = f"nodes {', '.join(map(str, group))}"
            whole: dict[str, Any] = {"name": name, "extra": {}, "nranks": nranks}
            whole |= {
                "ranks": ranks,
                "group": group,
                "silent": [node for node, part in parts.items() if part is None],
            }
            if number == len(plan) - 1:
                bench.data["runs"] = [whole]
            else:
                bench.data["nodes"]["steps"].append(whole)
