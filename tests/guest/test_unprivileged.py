"""An unprivileged container, through the whole chain: its ids are its own, inside nothing differs, all can go back.

The tests are one story and run in this order.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.controller import BIN
from tests.guest.place import Place
from tests.guest.rig import LXC, Container, sh

pytestmark = pytest.mark.usefixtures("one_operator")

SUBIDS = (Path("/etc/subuid"), Path("/etc/subgid"))
MARK = "kpro-test-host 6f1d7a52-8a3c-4b5e-9f20-0d2f8f3b1c11\n"


@pytest.fixture(scope="module")
def before() -> Iterator[dict[Path, bytes]]:
    """The files of ids as they were, which they are again afterwards."""
    found = {path: path.read_bytes() for path in SUBIDS}
    yield found
    for path, data in found.items():
        path.write_bytes(data)


@pytest.fixture(scope="module")
def made(alone: None, before: dict[Path, bytes], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """An undisturbed run from nothing."""
    place = Place(
        tmp_path_factory.mktemp("place"), Container(f"kprotest-{os.getpid()}-own"), unprivileged=True
    )
    place.write()
    yield place
    place.remove()


@pytest.fixture
def shared(made: Place) -> Iterator[Path]:
    """A folder of the machine that any container can be given."""
    folder = Path("/srv", f"{made.container.name}-shared")
    folder.mkdir(mode=0o755)
    yield folder
    shutil.rmtree(folder)


def first_id(container: Container) -> int:
    lines = (LXC / container.name / "config").read_text().splitlines()
    return next(int(line.split()[4]) for line in lines if line.startswith("lxc.idmap = u 0 "))


def test_one_command_takes_nothing_to_a_service_in_an_unprivileged_container(
    made: Place, before: dict[Path, bytes]
) -> None:
    kinds = [item["kind"] for item in made.plan()["machines"][0]["items"]]
    assert kinds[:3] == ["container.ids", "container.create", "container.start"]
    assert {path: path.read_bytes() for path in SUBIDS} == before
    done = made.apply()
    assert done.returncode == 0, done.stderr[-3000:]
    assert made.answer().strip()
    first = first_id(made.container)
    assert made.container.attach("cat", "/proc/self/uid_map").split() == ["0", str(first), "65536"]
    for path, was in before.items():
        assert path.read_bytes() == was + f"root:{first}:65536\n".encode()


def test_a_second_run_changes_nothing_and_restarts_nothing(made: Place) -> None:
    pid = made.main_pid()
    done = made.provision("apply", str(made.inventory), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["changed"] == []
    assert made.main_pid() == pid


def test_every_file_belongs_to_its_own_ids_and_what_the_service_writes_to_kpro(made: Place) -> None:
    first = first_id(made.container)
    outside = ["(", "-uid", f"-{first}", "-o", "-uid", f"+{first + 65535}", "-o", "-gid", f"-{first}", ")"]
    assert sh("find", str(made.container.rootfs), "-xdev", *outside, "-print").stdout == ""
    assert (made.container.rootfs / "var/cache/kpro").stat().st_uid == first + 8100
    assert (made.container.rootfs / "etc/resolv.conf").stat().st_uid == first
    assert made.container.attach("stat", "-c", "%a %U", "/usr/bin/su").strip() == "4755 root"


def test_its_model_lies_on_the_machine_and_cannot_be_changed_inside(made: Place) -> None:
    (model,) = made.models.glob("kpro--tiny@*")
    inside = f"/srv/models/{model.name}/model.safetensors"
    assert (
        made.container.attach("sha256sum", inside).split()[0]
        in sh("sha256sum", str(model / "model.safetensors")).stdout
    )
    assert not list(made.container.rootfs.glob("srv/models/*"))
    for user in ("root", "kpro"):
        tried = made.container.attach(
            "setpriv", f"--reuid={user}", "sh", "-c", f"echo x >>{inside} && echo written || :", check=False
        )
        assert "written" not in tried


def test_the_machines_mark_is_believed_inside_where_its_root_is_nobody(made: Place, tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    recorded = made.run(str(BIN / "provcheck"), "gpus", "--expect", "0", "--record", str(record))
    assert recorded.returncode == 0, recorded.stdout
    marker = made.container.rootfs / "etc/kpro/test-host"
    marker.write_text(MARK)
    marker.chmod(0o444)
    made.write(replay=str(record))
    try:
        assert made.container.attach("stat", "-c", "%U", "/etc/kpro/test-host").strip() == "nobody"
        done = made.apply()
        os.chown(marker, first_id(made.container) + 8100, 0)
        refused = made.container.attach(
            "python3", "/opt/kpro/provcheck.pyz", "gpus", "--expect", "0", "--gate", "--replay",
            made.container.attach("sh", "-c", "ls /etc/kpro/records/*").split()[-1],
            check=False,
        )  # fmt: skip
    finally:
        marker.unlink()
    assert done.returncode == 0, done.stderr[-3000:]
    assert "REPLAYED (pass)" in done.stderr
    assert "node.test_host" in refused
    made.write()
    assert made.apply().returncode == 0


_BARE = """\
from provision.spec import Guest, Machine, Mount

machine = Machine(
    name="box",
    managed=False,
    guests=[
        Guest(name="bare", backend="lxc", id={id!r}, unprivileged=True, network="isolated", shm_mib=96,
              mounts=[Mount(source={source!r}, target="/data", read_only=False)]),
    ],
)
metal, guests = machine.pyinfra_groups()
"""


def test_another_one_has_other_ids_its_own_network_and_shared_memory_and_a_folder_to_write(
    made: Place, shared: Path
) -> None:
    other = Place(made.folder, Container(f"{made.container.name}2"))
    made.inventory.write_text(_BARE.format(id=other.container.name, source=str(shared)))
    try:
        refused = other.apply()
        assert refused.returncode == 3, refused.stderr
        first = first_id(made.container) + 65536
        assert f"chown {first + 8100}:{first + 8100} {shared}" in refused.stderr
        assert not (LXC / other.container.name).exists()
        os.chown(shared, first + 8100, first + 8100)
        done = other.apply()
        assert done.returncode == 0, done.stderr[-3000:]
        assert first_id(other.container) == first
        attach = other.container.attach
        assert attach("df", "-m", "--output=size", "/dev/shm").split()[-1] == "96"
        assert "rw" not in attach("findmnt", "-no", "OPTIONS", "/sys").split(",")
        attach("setpriv", "--reuid=8100", "--regid=8100", "--clear-groups", "touch", "/data/written")
        assert (shared / "written").stat().st_uid == first + 8100
        assert json.loads(other.provision("apply", str(other.inventory), "--json").stdout)["changed"] == []
    finally:
        other.remove()
        made.write()


def test_what_is_undone_takes_the_ids_back_and_keeps_all_data_and_all_comes_again(
    made: Place, before: dict[Path, bytes]
) -> None:
    # The other test's container, whose ids were appended behind, is gone: what is left is this one's.
    first = first_id(made.container)
    for path, was in before.items():
        path.write_bytes(was + f"root:{first}:65536\n".encode())
    run = next(event["run"] for event in made.events() if event.get("kind") == "container.create")
    undone = subprocess.run(["/var/lib/kpro/undo.sh", run], capture_output=True, text=True, check=False)
    try:
        assert f"container {made.container.name} is stopped" in undone.stdout
        assert {path: path.read_bytes() for path in SUBIDS} == before, undone.stdout
        assert (made.container.rootfs / "opt/kpro/provcheck.pyz").exists()
    finally:
        done = made.apply()
    assert done.returncode == 0, done.stderr[-3000:]
    assert first_id(made.container) == first
    assert made.answer().strip()


def test_only_the_line_for_this_machines_hierarchy_keeps_a_container_to_a_processor(
    new_container: Callable[..., Container],
) -> None:
    unified = Path("/sys/fs/cgroup/cgroup.controllers")
    version_2 = unified.exists() and "cpuset" in unified.read_text().split()
    keys = ("cgroup2", "cgroup") if version_2 else ("cgroup", "cgroup2")
    allowed = []
    for key in keys:
        lines = (f"lxc.{key}.cpuset.cpus = 0", f"lxc.{key}.cpuset.mems = 0")
        status = new_container(lines=lines).attach("cat", "/proc/self/status")
        allowed.append(re.search(r"^Cpus_allowed_list:\t(.+)$", status, re.MULTILINE)[1])  # type: ignore[index]
    assert allowed[0] == "0"
    assert allowed[1] != "0" or os.cpu_count() == 1
