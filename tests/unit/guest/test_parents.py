"""What a guest learns of its machine, with pyinfra's own connection code and a machine that does what it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gevent
import pytest
from pyinfra.api.command import StringCommand
from pyinfra.api.config import Config
from pyinfra.api.connect import connect_all
from pyinfra.api.exceptions import ConnectError, PyinfraError
from pyinfra.api.host import Host
from pyinfra.api.inventory import Inventory
from pyinfra.api.state import State

from provision.guest import parents
from provision.spec import Guest, Machine

GUESTS = tuple(Guest(name=name, backend="lxc", id=f"kprotest-{name}") for name in ("a", "b"))


class Run:
    """An inventory of one machine with two guests; ``connects`` counts the machine's attempts."""

    def __init__(
        self, connect: Callable[[], None], *, first: str, limit: list[str] | None, parallel: int
    ) -> None:
        metal, guests = Machine(name="box", guests=GUESTS).pyinfra_groups()
        names = [*metal, *guests] if first == "metal" else [*guests, *metal]
        inventory = Inventory((names, {}))
        self.connects = 0
        self.state = State()
        hosts = None if limit is None else [inventory.get_host(name) for name in limit]
        self.state.init(inventory, Config(PARALLEL=parallel), initial_limit=hosts)
        self.metal = self.host("@local")

        def counted() -> None:
            self.connects += 1
            connect()

        self.metal.connector.connect = counted  # type: ignore[method-assign]

    def host(self, name: str) -> Host:
        return self.state.inventory.get_host(name)

    def failed(self) -> set[str]:
        return {host.name for host in self.state.failed_hosts}


ALL = {"@local", "@guest/@local/a", "@guest/@local/b"}
GUEST_NAMES = ALL - {"@local"}


@pytest.fixture
def run() -> Iterator[Callable[..., Run]]:
    def make(
        connect: Callable[[], None] = lambda: None,
        first: str = "metal",
        limit: list[str] | None = None,
        parallel: int = 5,
    ) -> Run:
        return Run(connect, first=first, limit=limit, parallel=parallel)

    return make


def refuses() -> None:
    gevent.sleep(0.1)
    raise ConnectError("no route to host")


def explodes() -> None:
    gevent.sleep(0.1)
    raise PyinfraError("No such private key file: /none")


def dawdles() -> None:
    gevent.sleep(0.3)


@pytest.mark.parametrize("first", ["metal", "guests"])
@pytest.mark.parametrize("parallel", [1, 2, 5])
def test_a_machine_is_connected_once_whatever_the_order_and_the_width(
    run: Callable[..., Run], first: str, parallel: int
) -> None:
    made = run(dawdles, first, parallel=parallel)
    with gevent.Timeout(10):
        connect_all(made.state)
    assert made.connects == 1
    assert {host.name for host in made.state.active_hosts} == ALL


@pytest.mark.parametrize("first", ["metal", "guests"])
def test_a_machine_that_refuses_takes_its_guests_with_it_and_the_reason_is_kept(
    run: Callable[..., Run], first: str
) -> None:
    made = run(refuses, first)
    with gevent.Timeout(10), pytest.raises(PyinfraError, match="No hosts remaining"):
        connect_all(made.state)
    assert made.failed() == ALL
    reason = parents.of(made.state).why_unusable(made.metal)
    assert reason == "its machine @local failed: no route to host"


def test_with_a_narrow_pool_the_guest_s_first_command_finds_out(run: Callable[..., Run]) -> None:
    made = run(refuses, "guests", parallel=1)
    with gevent.Timeout(10):
        connect_all(made.state)
    assert made.failed() == {"@local"}
    done, output = made.host("@guest/@local/a").run_shell_command(StringCommand("true"))
    assert not done
    assert output.stderr == "@guest/@local/a cannot be reached: its machine @local failed: no route to host"


@pytest.mark.parametrize("limit", [None, ["@guest/@local/a"]])
def test_an_attempt_that_explodes_does_not_leave_the_guests_waiting(
    run: Callable[..., Run], limit: list[str] | None
) -> None:
    made = run(explodes, limit=limit)
    with (
        gevent.Timeout(10),
        pytest.raises(PyinfraError, match=r"No such private key file|No hosts remaining"),
    ):
        connect_all(made.state)
    assert "No such private key file" in (parents.of(made.state).why_unusable(made.metal) or "")


def test_a_machine_left_out_by_the_limit_is_connected_once_and_not_active(run: Callable[..., Run]) -> None:
    made = run(dawdles, limit=sorted(GUEST_NAMES))
    connect_all(made.state)
    assert (made.connects, made.metal.connected) == (1, True)
    assert {host.name for host in made.state.active_hosts} == GUEST_NAMES


def test_a_machine_left_out_by_the_limit_that_refuses_is_asked_once(run: Callable[..., Run]) -> None:
    made = run(refuses, limit=sorted(GUEST_NAMES))
    with pytest.raises(PyinfraError, match="No hosts remaining"):
        connect_all(made.state)
    assert made.connects == 1
    assert made.failed() == GUEST_NAMES


def test_a_machine_that_was_rebooted_is_connected_again_by_the_next_command(run: Callable[..., Run]) -> None:
    made = run()
    connect_all(made.state)
    made.metal.disconnect()
    assert parents.of(made.state).why_unusable(made.metal) is None
    assert made.connects == 2


def test_a_machine_that_does_not_come_back_is_the_reason_and_is_tried_again_later(
    run: Callable[..., Run],
) -> None:
    made = run()
    connect_all(made.state)
    made.metal.disconnect()
    made.metal.connector.connect = refuses  # type: ignore[method-assign]
    seen = parents.of(made.state).why_unusable(made.metal)
    assert seen == "its machine @local cannot be reached: no route to host"
    made.metal.connector.connect = lambda: None  # type: ignore[method-assign]
    assert parents.of(made.state).why_unusable(made.metal) is None


def test_a_guest_of_another_machine_is_not_touched(run: Callable[..., Run]) -> None:
    made = run()
    connect_all(made.state)
    made.state.failed_hosts.add(made.host("@guest/@local/a"))
    assert parents.of(made.state).why_unusable(made.metal) is None


def test_all_guests_of_a_run_share_one_listener(run: Callable[..., Run]) -> None:
    made = run()
    handlers: list[Any] = [h for h in made.state.callback_handlers if isinstance(h, parents.Parents)]
    assert len(handlers) == 1
