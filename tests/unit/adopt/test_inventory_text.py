"""What is written is a file that is read back as the same machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from provision import inventory as inventories
from provision.init.describe import Description, name_of
from provision.init.write import WIDTH, inventory_text
from provision.spec import Baseline, Driver, Engine, Found, Gpu, Guest, Machine, Model, Mount, Service, Ssh

WORDS = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=40)


def service(words: tuple[str, ...] = ("vllm", "serve", "m")) -> Service:
    return Service(
        name="qwen",
        engine=Engine(kind="vllm", version="0.20.1", python="3.12"),
        model=Model(repo="Qwen/Qwen3.6-27B", revision="a" * 40),
        flags=words,
        listen="0.0.0.0",
        environment={"VLLM_USE_V1": "1"},
        baseline=Baseline(decode_tok_s=73.5, source="measured"),
        found=Found(
            unit="llm.service", command=words, environment=("HF_TOKEN",), engine="/opt/v", model="/srv/q"
        ),
    )


def machine(words: tuple[str, ...] = ("vllm", "serve", "m")) -> Machine:
    return Machine(
        name="kpro6",
        ssh=Ssh(host="kpro6", user="root"),
        managed=False,
        gpus=(Gpu(bdf="42:00.0", model="RTX A6000"),),
        gpu_count=1,
        driver=Driver(version="580.159.04", route="run"),
        guests=(
            Guest(
                name="llm",
                backend="pct",
                id="106",
                managed=False,
                gpus=("42:00.0",),
                network="bridge:vmbr0",
                mounts=(Mount(source="/tank/models", target="/srv/models"),),
                services=(service(words),),
            ),
        ),
    )


def read_back(text: str, folder: Path) -> Machine:
    path = folder / "box.py"
    path.write_text(text, encoding="utf-8")
    (found,) = inventories.load(str(path), (), names=False).selected(()).machines
    return found


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20, deadline=None)
@given(words=st.lists(WORDS, max_size=8), remark=WORDS, docstring=st.just("A machine."))
def test_it_is_read_back_as_the_same_machine(
    words: list[str], remark: str, docstring: str, tmp_path: Path
) -> None:
    made = machine(tuple(words))
    described = Description(made, [remark])
    described.remark(made.guests[0].services[0], remark)
    assert read_back(inventory_text(described, docstring), tmp_path) == made


def test_it_needs_no_formatting(tmp_path: Path) -> None:
    ruff = shutil.which("ruff")
    if ruff is None:
        pytest.fail("ruff is not installed")
    made = machine(
        ("vllm", "serve", "/srv/models/somewhere-far-away", "--served-model-name", "a-long-name", "--x", "y")
    )
    described = Description(made, ["something " * 30])
    described.remark(made.guests[0], "a remark " * 20)
    path = tmp_path / "box.py"
    path.write_text(inventory_text(described, "A machine."))
    done = subprocess.run(
        [ruff, "format", "--isolated", "--line-length", str(WIDTH), "--diff", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert all(len(line) <= WIDTH for line in path.read_text().splitlines())


def test_a_remark_stands_in_what_it_is_about(tmp_path: Path) -> None:
    made = machine()
    described = Description(made)
    described.remark(made.guests[0].services[0], "no commit is recorded")
    text = inventory_text(described, "A machine.")
    lines = [line.strip() for line in text.splitlines()]
    at = lines.index("# no commit is recorded")
    assert lines[at - 1].endswith("Service(")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("kpro6", "kpro6"),
        ("KPRO6.example.org", "kpro6"),
        ("10.0.0.7", "10-0-0-7"),
        ("my_box", "my-box"),
        ("--", "host"),
        ("x" * 80, "x" * 63),
    ],
)
def test_a_host_gets_a_name_that_an_inventory_takes(text: str, name: str) -> None:
    assert name_of(text) == name
