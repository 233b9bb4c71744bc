"""The gate inside a real container of LXC with systemd: whose mark it believes, which GPUs it takes for its own."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from checks import pack
from provision.data import demo
from tests.guest.rig import Container

PYZ = "/opt/kpro-test/provcheck.pyz"
RECORD = "/opt/kpro-test/two-a6000.json"
MARK = "etc/kpro/test-host"
LINE = "kpro-test-host 6f1d7a52-8a3c-4b5e-9f20-0d2f8f3b1c11\n"


@pytest.fixture(scope="module")
def marked(new_container: Callable[..., Container], tmp_path_factory: pytest.TempPathFactory) -> Container:
    """A container into which a mark is bound, read-only, as a marked machine does for its guests."""
    mark = tmp_path_factory.mktemp("machine") / "test-host"
    mark.write_text(LINE)
    mark.chmod(0o444)
    return new_container(lines=(f"lxc.mount.entry = {mark} {MARK} none bind,ro,create=file 0 0",))


@pytest.fixture(scope="module")
def unmarked(container: Container) -> Container:
    return container


def gate(container: Container, *words: str) -> tuple[int, dict[str, Any]]:
    """The gate's command as the unit has it, in the container."""
    folder = container.rootfs / "opt/kpro-test"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "provcheck.pyz").write_bytes(pack.contents())
    (folder / "two-a6000.json").write_bytes(demo.record().read_bytes())
    line = " ".join(("/usr/bin/python3", PYZ, "gpus", "--json", "--gate", *words))
    said = container.attach("sh", "-c", f"{line}; echo $?", check=False).rstrip()
    report, _, code = said.rpartition("\n")
    return int(code), json.loads(report)


def test_systemd_in_a_container_of_lxc_says_that_it_is_one(unmarked: Container) -> None:
    assert unmarked.attach("cat", "/run/systemd/container").strip() == "lxc"


def test_a_guest_of_a_marked_machine_takes_the_composed_record(marked: Container) -> None:
    code, report = gate(marked, "--expect", "2", "--replay", RECORD)
    assert (code, report["verdict"], report["evidence"]) == (0, "pass", "replayed")
    marked.attach("sh", "-c", f"! echo x >/{MARK} 2>/dev/null")
    assert marked.attach("cat", f"/{MARK}") == LINE


def test_a_guest_without_a_mark_does_not(unmarked: Container) -> None:
    code, report = gate(unmarked, "--expect", "2", "--replay", RECORD)
    assert (code, report["verdict"]) == (3, "unknown")


def test_without_a_record_a_marked_guest_is_judged_as_it_is(marked: Container) -> None:
    code, report = gate(marked, "--expect", "2")
    assert code in (1, 3)
    assert report["evidence"] == "live"


@pytest.fixture
def given(unmarked: Container) -> Iterator[Container]:
    unmarked.attach("mknod", "/dev/nvidia7", "c", "195", "7")
    yield unmarked
    unmarked.attach("rm", "/dev/nvidia7")


def test_what_was_given_to_a_container_and_the_kernel_log_are_in_its_record(given: Container) -> None:
    gate(given)
    given.attach("sh", "-c", f"python3 {PYZ} gpus --expect 0 --record /opt/kpro-test/r.json >/dev/null")
    record = json.loads(Path(given.rootfs, "opt/kpro-test/r.json").read_text())
    by = {(section["kind"], section["path"]): section for section in record["sections"]}
    assert base64.b64decode(by["nodes", "/dev"]["b64"]) == b"nvidia7 7\n"
    log = by["log", "kernel"]
    assert log["b64"] is not None or log["err"]
