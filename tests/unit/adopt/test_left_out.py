"""What an inventory has no place for is said: containers that are left out, engines that are no service."""

from __future__ import annotations

import shlex

import pytest

from checks.snapshot import script
from provision.adopt import process
from provision.init import describe
from provision.init.write import inventory_text
from tests.unit.adopt.test_described import CONF, WORDS, described, engine_block, inside, metal

WEB = "hostname: web\nnet0: name=eth0,bridge=vmbr0\n"


def test_a_container_without_gpu_and_engine_is_left_out_and_that_is_said() -> None:
    found = described(WEB, inside(["/bin/sleep", "1"]))
    assert found.machine.guests == ()
    (said,) = found.general
    assert "pct 106 (web) is left out" in said


@pytest.mark.parametrize(
    "block",
    [
        engine_block(WORDS).replace("dist=", "nothing="),
        engine_block(WORDS, unit="a.scope"),
        engine_block(["/bin/sh", "/srv/run-vllm.sh"]),
        engine_block(["/opt/v/bin/vllm", "serve", "--port", "8001"]),
    ],
)
def test_an_engine_without_gpu_that_cannot_be_described_is_written_with_the_reason(block: str) -> None:
    found = described(WEB, inside().cmd(process.NAME, block))
    (guest,) = found.machine.guests
    (remark,) = found.at[id(guest)]
    assert guest.services == ()
    assert "serves" in remark or "names an engine" in remark
    assert remark[:40] in inventory_text(found, "A machine.")


def test_a_second_server_of_one_unit_is_said_and_its_workers_are_not() -> None:
    worker = engine_block(["VLLM::EngineCore"]).replace("pid=77", "pid=78")
    twin = engine_block(WORDS).replace("pid=77", "pid=79")
    other = engine_block([*WORDS[:-3], "8002"]).replace("pid=77", "pid=80")
    calm = described(seen=inside().cmd(process.NAME, engine_block(WORDS) + worker + twin))
    assert calm.at[id(calm.machine.guests[0])] == []
    both = described(seen=inside().cmd(process.NAME, engine_block(WORDS) + other))
    assert any("process 80" in remark for remark in both.at[id(both.machine.guests[0])])


def test_a_stopped_container_is_said_with_and_without_a_gpu() -> None:
    for conf in (CONF, WEB):
        host_seen = metal(conf)
        found = describe.describe("kpro6", None, host_seen, {}, {})
        said = [*found.general, *(found.at[id(guest)][0] for guest in found.machine.guests)]
        assert ["not running: not looked into" in line for line in said] == [True]


@pytest.mark.parametrize(
    "words",
    [
        ["sh", "-c", script(), "sh", *process.REQUESTS],
        ["sh", "-c", process.REQUESTS[0].split(":", 2)[2]],
        ["/bin/sh", "-c", f"sh -c {shlex.join(process.REQUESTS)}"],
    ],
)
def test_the_look_does_not_see_itself(words: list[str]) -> None:
    found = described(WEB, inside().cmd(process.NAME, engine_block(words, unit="session-1.scope")))
    assert found.machine.guests == ()
    assert "no engine runs in it" in found.general[0]
