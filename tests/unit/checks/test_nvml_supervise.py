"""The parent of the NVML children, with children that say what the test wants."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from checks.gpus import assemble, getters, nvml
from checks.gpus.assemble import Work, why
from checks.gpus.getters import HANDLE, P2P, SECTIONS
from checks.gpus.supervise import CHILDREN, HANGS_PER_GPU, Reading

HEAD = {"binding": None, "nvmlInit": None, "nvmlDeviceGetCount": 2}
ALL = (HANDLE, *SECTIONS, P2P)


def reading(tmp_path: Path, body: str, deadline: float = 20.0) -> tuple[dict[str, Any], Reading]:
    """What becomes of a child whose program is ``body``: ``say``, ``plan`` (None at first) and ``read`` are there."""
    program = tmp_path / "child.py"
    program.write_text(
        "import json, os, sys, time\n"
        "plan = json.loads(sys.argv[1]) if len(sys.argv) > 1 else None\n"
        f"gpus = plan['gpus'] if plan else {{'0': {list(ALL)!r}, '1': {list(ALL)!r}}}\n"
        "def say(**line): print(json.dumps(line), flush=True)\n"
        "def read(gpu, name): say(begin=[gpu, name]); say(done=[gpu, name], data={})\n"
        "def rest(): [read(int(gpu), name) for gpu, names in gpus.items() for name in names]\n"
        f"def head(): say(head={HEAD!r})\n" + body
    )
    one = Reading(deadline, [sys.executable, str(program)], section=1.0)
    return one.result()[0], one


def missing(dump: dict[str, Any], gpu: int, section: str) -> Any:
    device = dump["devices"][gpu]
    if HANDLE in device:
        return device[HANDLE]["err"]
    value = device.get(getters.keys(section)[0])
    return value["err"] if isinstance(value, dict) and "err" in value else None


def test_a_second_child_that_cannot_start_leaves_nothing_green(tmp_path: Path) -> None:
    body = "if plan: sys.exit(5)\nhead(); say(begin=[0, 'handle']); say(begin=[1, 'handle']); os._exit(4)\n"
    dump, one = reading(tmp_path, body)
    assert one.children == 2
    assert (missing(dump, 0, "ecc"), missing(dump, 1, "ecc")) == ("ChildDied", "ChildDied")


def test_a_crash_among_many_is_looked_for_one_by_one(tmp_path: Path) -> None:
    body = (
        "head()\n"
        "if not plan: say(begin=[0, 'ecc']); say(begin=[1, 'ecc']); os._exit(4)\n"
        "for gpu, name in plan['alone']:\n"
        "    say(begin=[gpu, name])\n"
        "    if gpu == 1: os._exit(4)\n"
        "    say(done=[gpu, name], data={})\n"
        "rest(); say(end=True)\n"
    )
    dump, one = reading(tmp_path, body)
    assert (missing(dump, 0, "ecc"), missing(dump, 1, "ecc")) == (None, "ChildDied")
    assert one.children == 3


def test_the_hanging_one_of_several_is_the_one_that_hangs_alone(tmp_path: Path) -> None:
    body = (
        "head(); read(0, 'handle'); read(1, 'handle')\n"
        "if not plan: say(begin=[0, 'power']); say(begin=[1, 'remap']); time.sleep(60)\n"
        "for gpu, name in plan['alone']:\n"
        "    say(begin=[gpu, name])\n"
        "    if gpu == 1: time.sleep(60)\n"
        "    say(done=[gpu, name], data={})\n"
        "rest(); say(end=True)\n"
    )
    dump, one = reading(tmp_path, body)
    assert (missing(dump, 0, "power"), missing(dump, 1, "remap")) == (None, "Timeout")
    assert one.children == 3


def test_a_gpu_that_hung_twice_is_not_asked_any_more(tmp_path: Path) -> None:
    body = "head(); read(0, gpus['0'][0]) if '0' in gpus else None\nsay(begin=[1, gpus['1'][0]]) if '1' in gpus else "
    body += "(rest(), say(end=True))\ntime.sleep(60)\n"
    dump, one = reading(tmp_path, body)
    assert missing(dump, 1, "ecc") == "Timeout", "its handle hung: nothing else can be asked"
    assert one.children <= 1 + HANGS_PER_GPU

    work = Work()
    work.enumerate(1)
    work.done(0, HANDLE, {})
    for name in ("ecc", "pcie"):
        work.cut((0, name), why("Timeout", "no answer"))
        work.give_up(HANGS_PER_GPU)
    left = assemble.dump(HEAD, work, why("Timeout", "x"))["devices"][0]
    assert left["nvmlDeviceGetEccMode"]["err"] == "Timeout"
    assert left["temp"]["err"] == "NotAsked"
    assert "ecc and pcie" in left["temp"]["msg"]


def test_children_that_die_again_and_again_are_not_started_for_ever(tmp_path: Path) -> None:
    body = "head(); gpu = min(gpus); say(begin=[int(gpu), gpus[gpu][-1]]); os._exit(1)\n"
    dump, one = reading(tmp_path, body)
    assert one.children <= CHILDREN
    assert missing(dump, 0, "ecc") is not None


def test_a_child_that_says_nothing_it_should_is_no_evidence(tmp_path: Path) -> None:
    dump, _ = reading(tmp_path, "print('hello'); print('[1]'); print('{\"head\": 3'); sys.exit('broken')\n")
    assert dump["nvmlInit"]["err"] == "ChildDied"
    assert "broken" in dump["nvmlInit"]["msg"]


def test_a_child_that_ends_too_early_leaves_gaps_and_not_zeros(tmp_path: Path) -> None:
    dump, _ = reading(tmp_path, "head(); read(0, 'handle'); read(0, 'ecc'); say(end=True)\n")
    assert missing(dump, 1, "ecc") == "NotAsked"
    assert missing(dump, 0, "pcie") == "NotAsked"


def test_a_program_that_is_not_there_is_a_reason(tmp_path: Path) -> None:
    dump, _ = Reading(5.0, [str(tmp_path / "nothing")]).result()
    assert dump["nvmlInit"]["err"] == "ChildDied"
    assert "no child could be started" in dump["nvmlInit"]["msg"]


class Lost(Exception):
    value = 15


class Gone:
    """A binding whose GPU has lost its handle since an earlier child."""

    NVMLError = Lost

    @staticmethod
    def nvmlDeviceGetHandleByIndex(index: int) -> int:
        raise Lost


def test_a_gpu_that_went_meanwhile_answers_with_its_handles_error(capsys: pytest.CaptureFixture[str]) -> None:
    said: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nvml, "_say", said.append)
        nvml.Reader(Gone, {"count": 1, "gpus": {"0": ["ecc", "fabric"]}}).run()
    done = [line["data"] for line in said if "done" in line]
    assert done[0]["nvmlDeviceGetEccMode"]["err"] == 15
    assert done[1]["fabricV"]["err"] == 15


def test_the_child_is_started_before_the_command_line_is_imported(repo_root: Path) -> None:
    code = (
        "import sys; from checks import child; real = child.start\n"
        "def start(argv, env=None): print('click' in sys.modules, 'pynvml' in sys.modules); return real(argv, env)\n"
        "child.start = start\n"
        "from checks.cli import main; main(['gpus', '--deadline', '5'])\n"
        "print([name for name in ('rich', 'pynvml', 'prometheus_client') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=repo_root, capture_output=True, text=True, timeout=60
    )
    lines = done.stdout.splitlines()
    assert (lines[0], lines[-1], sum(line == "False False" for line in lines)) == ("False False", "[]", 1)


@pytest.mark.parametrize("args", [("--replay", "x"), ("--replay=x",), ("--host", "h"), ("--help",), ("-h",)])
def test_nothing_is_started_where_this_machine_is_not_asked(
    args: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    from checks.gpus import early

    monkeypatch.setattr(early, "Reading", lambda _: pytest.fail("started"))
    early.start(["--json", *args])


def test_a_plan_that_is_none_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "checks", "_probe", "nvml", json.dumps([1])],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
