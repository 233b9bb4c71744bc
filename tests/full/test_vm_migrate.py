"""A service moves from one virtual host to another: two kernels, two disks, and back again."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from provision.testhost import demo_files
from provision.testhost.vm import image
from provision.testhost.vm.host import VirtualHost
from provision.testhost.vm.pile import PILES
from provision.testhost.vm.recipe import PACKAGES, Recipe
from tests.controller import Operator
from tests.vm.rig import CACHE, WAIT, say

PORT = 18470
CONTAINER = "kpro-vm-move"
CONTROLLER = "10.0.2.2"
"""Where a virtual host sees the loopback of the machine that it runs on (QEMU, user networking)."""
MEMORY = 1024
DEADLINE = 3600
"""Seconds for one command, with both hosts emulated on two busy processors."""

_INVENTORY = """\
from provision.spec import CopySettings, Engine, Guest, Machine, Migration, Model, Service, Ssh

machine = Machine(
    name={name!r},
    ssh=Ssh(host="127.0.0.1", port={ssh_port}, user="root", key={key!r}, known_hosts={known_hosts!r}),
    managed=False,
    guests=[
        Guest(
            name="llm",
            backend="lxc",
            id={container!r},
            network="host",
            services=[
                Service(
                    name="tiny",
                    engine=Engine(kind="standin", version="1.0.0", source="wheel", wheelhouse={wheels!r}),
                    model=Model(repo="kpro/tiny", revision={revision!r}, folder={model!r}),
                    port={port},
                    ready_seconds=600,
                    migration=Migration(
                        watch_seconds=20, transfer=CopySettings(address={address!r}, port={copy_port})
                    ),
                )
            ],
        )
    ],
)
metal, guests = machine.pyinfra_groups()
"""


@dataclass
class Two(Operator):
    """The operator of both hosts: inventories ``a.py`` and ``b.py``."""

    hosts: dict[str, VirtualHost] = field(default_factory=dict)

    def write(self) -> None:
        files = self.folder / "files"
        demo_files.prepare(files)
        for name, host in self.hosts.items():
            text = _INVENTORY.format(
                name=name,
                ssh_port=host.address.port,
                key=str(host.address.key),
                known_hosts=str(host.address.known_hosts),
                container=CONTAINER,
                wheels=str(demo_files.wheel_folder(files)),
                revision=demo_files.DEMO_REVISION,
                model=str(demo_files.model_folder(files)),
                port=PORT,
                address=CONTROLLER,
                copy_port=self.hosts["b"].address.port,
            )
            (self.folder / f"{name}.py").write_text(text)

    def migrate(self, *words: str) -> Any:
        ends = (str(self.folder / "a.py"), str(self.folder / "b.py"))
        started = time.monotonic()
        done = self.provision("migrate", *ends, *words, timeout=DEADLINE)
        say(f"migrate {' '.join(words)}: exit {done.returncode} in {time.monotonic() - started:.0f} s")
        print(done.stderr[-6000:])  # noqa: T201
        return done

    def answer(self, name: str) -> str:
        """What the service generates there, asked from the host without any code of the product."""
        body = json.dumps({"model": "tiny", "prompt": "hello", "max_tokens": 4, "ignore_eos": True})
        script = (
            "import sys,json,urllib.request as u;"
            f"r=u.Request('http://127.0.0.1:{PORT}/v1/completions',sys.stdin.buffer.read(),"
            "{'Content-Type':'application/json'});"
            "print(json.load(u.urlopen(r,timeout=60))['choices'][0]['text'])"
        )
        done = self.hosts[name].ssh(f'python3 -c "{script}"', stdin=body.encode(), check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    def sums(self, name: str) -> str:
        """The model's files on that machine, by content; empty where there are none."""
        folder = f"/srv/models/kpro--tiny@{demo_files.DEMO_REVISION}"
        look = f"cd {folder} 2>/dev/null && find . -type f | sort | xargs sha256sum"
        return self.hosts[name].ssh(look, check=False).stdout

    def left(self, name: str) -> list[str]:
        """What of a migration is on a machine: keys, units, staging, folders of a run."""
        look = (
            "grep -l kpro-migrate /root/.ssh/authorized_keys 2>/dev/null; ls -d /run/kpro-migrate/* 2>/dev/null; "
            "ls /srv/models/.incoming/* 2>/dev/null; systemctl list-units --all --plain --no-legend 'kpro-migrate-*'"
        )
        return self.hosts[name].ssh(look, check=False).stdout.split()


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    """Two hosts, the service on the first one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", CACHE)
        made = image.ready(Recipe(pile=PILES["none"], packages=(*PACKAGES, "rsync")), say)
        first = VirtualHost(
            made, (), say=say, owner="tests/full, a move", wait=WAIT, memory=MEMORY, outbound=True
        )
        with first, VirtualHost(made, (), say=say, memory=MEMORY, outbound=True, beside=first) as second:
            patch.undo()
            found = Two(tmp_path_factory.mktemp("two"), {"a": first, "b": second})
            found.write()
            yield found


@pytest.fixture(autouse=True)
def one_operator(two: Two, own_home: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests of the module are one operator: runs and caches are shared."""
    monkeypatch.setenv("XDG_STATE_HOME", str(two.folder / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(two.folder / "cache"))


def test_two_hosts_run_beside_each_other_with_kernels_of_their_own(two: Two) -> None:
    assert two.hosts["a"].boot_id() != two.hosts["b"].boot_id()
    assert two.hosts["a"].folder != two.hosts["b"].folder


def test_the_service_is_brought_up_on_the_first_one(two: Two) -> None:
    done = two.provision("apply", str(two.folder / "a.py"), "--yes", timeout=DEADLINE)
    assert done.returncode == 0, done.stderr[-5000:]
    assert two.answer("a")
    assert not two.answer("b")


def test_it_moves_and_its_answers_and_files_are_the_same(two: Two) -> None:
    said, files = two.answer("a"), two.sums("a")
    done = two.migrate("--yes")
    assert done.returncode == 0, done.stderr[-5000:]
    assert two.answer("b") == said
    assert not two.answer("a")
    assert two.sums("b") == files != ""
    assert two.left("a") == two.left("b") == []
    for event in two.events():
        if event.get("event") in ("downtime", "copied"):
            print(json.dumps(event))  # noqa: T201


def test_a_boot_of_the_source_does_not_bring_a_second_one_up(two: Two) -> None:
    two.hosts["a"].reboot()
    assert not two.answer("a")
    assert two.answer("b")


def test_it_comes_back_within_seconds_and_leaves_nothing_behind(two: Two) -> None:
    said = two.answer("b")
    done = two.migrate("--rollback", "--yes")
    assert done.returncode == 0, done.stderr[-5000:]
    assert two.answer("a") == said
    assert not two.answer("b")
    assert two.sums("b") == ""
    assert two.left("a") == two.left("b") == []
