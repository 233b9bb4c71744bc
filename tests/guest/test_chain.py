"""The chain on a real container: from nothing to an answering service, again, and what must not happen."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path

import pytest

from provision.testhost import demo_files
from provision.testhost.index import serve_index
from tests.controller import BIN
from tests.guest.place import Place
from tests.guest.rig import LXC, Container, Sshd, eventually

REMOTE_COMMANDS = 40


pytestmark = pytest.mark.usefixtures("one_operator")


@pytest.fixture(scope="module")
def made(alone: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """An undisturbed run from nothing, over the local connector."""
    place = Place(tmp_path_factory.mktemp("place"), Container(f"kprotest-{os.getpid()}-chain"))
    place.write()
    yield place
    place.remove()


@pytest.fixture
def place(made: Place) -> Place:
    """The place in sync with its inventory."""
    made.write()
    done = made.apply()
    assert done.returncode == 0, done.stderr[-3000:]
    return made


def test_one_command_takes_nothing_to_an_answering_service(made: Place) -> None:
    assert not (LXC / made.container.name).exists()
    before = made.plan()
    assert before["exit"] == 10
    done = made.apply()
    assert done.returncode == 0, done.stderr[-3000:]
    assert made.answer().strip()
    kinds = [item["kind"] for item in before["machines"][0]["items"]]
    assert kinds[0] == "container.create"
    assert kinds[-1] == "service.cutover"
    ended = [event for event in made.events() if event["event"] == "end"]
    assert ended[-1]["exit"] == 0
    assert len(ended[-1]["changed"]) == len(kinds)


def test_a_second_run_changes_nothing_and_restarts_nothing(place: Place) -> None:
    pid, digests = place.main_pid(), place.digests()
    done = place.provision("apply", str(place.inventory), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["changed"] == []
    assert (place.main_pid(), place.digests()) == (pid, digests)


def test_a_container_has_its_guest_s_name_and_not_that_of_the_machine_where_its_root_was_built(
    place: Place,
) -> None:
    assert place.container.attach("hostname").strip() == "llm"


def test_plain_pyinfra_agrees_that_nothing_is_to_do(place: Place) -> None:
    done = place.pyinfra("-y", "--json", str(place.inventory), "deploy.py")
    assert done.returncode == 0, done.stderr[-3000:]
    operations = json.loads(done.stdout)["results"]["operations"]
    assert operations
    assert all(host["no_change"] for operation in operations for host in _hosts(operation))


def _hosts(operation: dict[str, object]) -> list[dict[str, object]]:
    hosts = operation["hosts"]
    return list(hosts.values()) if isinstance(hosts, dict) else [operation]


def test_a_plan_in_sync_needs_few_remote_commands(place: Place) -> None:
    document = place.plan()
    assert document["exit"] == 0
    assert 0 < document["remote_commands"] <= REMOTE_COMMANDS


def test_a_stopped_service_is_drift_and_comes_back(place: Place) -> None:
    place.container.attach("systemctl", "stop", "kpro-tiny.service")
    assert place.plan()["exit"] == 10
    assert place.apply().returncode == 0
    assert place.answer().strip()


def test_a_unit_changed_by_hand_is_drift_and_is_put_back(place: Place) -> None:
    unit = place.container.rootfs / "etc/systemd/system/kpro-tiny.service"
    wanted = unit.read_text()
    unit.write_text(wanted.replace("RestartSec=30", "RestartSec=1"))
    assert place.plan()["exit"] == 10
    assert place.apply().returncode == 0
    assert unit.read_text() == wanted


@pytest.mark.parametrize("how", ["provision plan", "pyinfra --dry"])
def test_looking_changes_nothing(place: Place, how: str) -> None:
    """Minus what an idle moment changes by itself. The plan that is looked at has changes pending."""
    place.write(flags=("--tok-s", "40"))
    first = _everything(place)
    time.sleep(4)
    idle = _everything(place)
    noise = {path for path in first.keys() | idle.keys() if first.get(path) != idle.get(path)}
    if how == "provision plan":
        assert place.plan()["exit"] == 10
    else:
        done = place.pyinfra("--dry", str(place.inventory), "deploy.py")
        assert done.returncode == 0, done.stderr[-3000:]
    after = _everything(place)
    changed = {path for path in idle.keys() | after.keys() if idle.get(path) != after.get(path)}
    assert not {path for path in changed - noise if "/var/log/journal" not in path}


_LOOK = """
find /etc /var/lib/kpro /run/kpro "$1" -xdev -printf '%p\\t%s %m %U:%G %T@\\n' 2>/dev/null
find /etc "$1/config" -xdev -type f -exec sha256sum {} + 2>/dev/null
"""


def _everything(place: Place) -> dict[str, str]:
    """Content of /etc and the container's configuration; size, mode and times of all files of the container and of
    kpro's own folders; the state of every unit."""
    listed = subprocess.run(
        ["sh", "-c", _LOOK, "sh", str(LXC / place.container.name)],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    found: dict[str, str] = {}
    for line in listed.stdout.splitlines():
        name, tab, rest = line.partition("\t")
        if tab:
            found[name] = rest
        else:
            found[f"content of {line[66:]}"] = line[:64]
    units = place.container.attach("systemctl", "list-units", "--all", "--plain", "--no-legend")
    found |= {
        f"unit {line.split()[0]}": " ".join(line.split()[1:4]) for line in units.splitlines() if line.split()
    }
    return found


def test_two_applies_at_once_the_second_ends_with_4_and_names_the_owner(place: Place) -> None:
    place.write(flags=("--start-seconds", "12"))
    first = place.start_apply()
    try:
        runs = sum(event["event"] == "locked" for event in place.events())
        assert place.wait_for(lambda event: event["event"] == "locked", first, runs + 1)
        second = place.apply()
        assert second.returncode == 4, second.stderr
        assert f"pid {first.pid}" in second.stderr
        assert "root@" in second.stderr
        plan = place.plan()
        assert plan["exit"] in (0, 10)
    finally:
        assert first.wait(120) == 0, (place.folder / "apply.log").read_text()
    assert place.apply().returncode == 0


def test_a_new_run_waits_for_a_command_that_outlived_its_controller(place: Place) -> None:
    Path("/run/kpro").mkdir(mode=0o700, exist_ok=True)
    with Path("/run/kpro/busy").open("a") as left:
        fcntl.flock(left, fcntl.LOCK_SH)
        run = place.start_apply()
        said = place.folder / "apply.log"
        waits = "a command of an earlier run still works there"
        eventually(lambda: waits in said.read_text() or run.poll() is not None, "it says that it waits", 120)
        assert waits in said.read_text()
        time.sleep(2)
        assert run.poll() is None, said.read_text()
    assert run.wait(120) == 0, said.read_text()


def test_a_service_that_does_not_generate_never_replaces_one_that_does(place: Place) -> None:
    before = (place.container.rootfs / "etc/systemd/system/kpro-tiny.service").read_text()
    for fault, ready in (("crash", 60), ("health-only", 8), ("empty", 8)):
        place.write(flags=("--fault", fault), ready=ready)
        done = place.apply()
        assert done.returncode == 1, done.stderr
        assert "kpro-tiny.service was not touched and generates" in done.stderr, done.stderr
        assert place.answer().strip()
        assert (place.container.rootfs / "etc/systemd/system/kpro-tiny.service").read_text() == before
    place.write()
    assert place.apply().returncode == 0


def test_the_last_good_profile_is_asked_at_its_own_port(place: Place) -> None:
    old = place.port
    started = time.monotonic()
    try:
        place.port = old + 50
        place.write(flags=("--fault", "crash"))
        done = place.apply()
    finally:
        place.port = old
    assert done.returncode == 1, done.stderr
    assert "kpro-tiny.service was not touched and generates" in done.stderr, done.stderr
    assert place.answer().strip()
    assert time.monotonic() - started < 60
    place.write()
    assert place.apply().returncode == 0


def test_a_replayed_gate_counts_on_a_marked_test_host_and_nowhere_else(place: Place, tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    made = place.run(str(BIN / "provcheck"), "gpus", "--expect", "0", "--record", str(record))
    assert made.returncode == 0, made.stdout
    place.write(replay=str(record))
    refused = place.apply()
    assert refused.returncode == 1
    assert "node.test_host" in refused.stderr
    # What the builder of a test container writes; no run ever does.
    marker = place.container.rootfs / "etc/kpro/test-host"
    marker.write_text("kpro-test-host 6f1d7a52-8a3c-4b5e-9f20-0d2f8f3b1c11\n")
    marker.chmod(0o444)
    try:
        done = place.apply()
    finally:
        marker.unlink()
    assert done.returncode == 0, done.stderr[-3000:]
    assert "REPLAYED (pass)" in done.stderr
    assert place.answer().strip()
    place.write()
    assert place.apply().returncode == 0


def test_a_red_gate_leaves_what_runs_untouched(place: Place, tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    record.write_text(
        json.dumps(
            {"binding": "13.0", "nvmlInit": {"err": 9, "cls": "NVMLError", "msg": "Driver Not Loaded"}}
        )
    )
    pid, digests = place.main_pid(), place.digests()
    place.write(replay=str(record))
    done = place.apply()
    assert done.returncode == 1, done.stderr
    assert "the gate of tiny is red" in done.stderr
    assert "node.test_host" in done.stderr
    assert "fix" in done.stderr
    assert place.main_pid() == pid
    assert place.answer().strip()
    live = {
        path: digest
        for path, digest in place.digests().items()
        if "/staged/" not in path and "/records" not in path
    }
    assert live == {
        path: digests[path] for path in digests if "/staged/" not in path and "/records" not in path
    }


def test_a_guest_alone_can_be_named(place: Place) -> None:
    place.container.attach("systemctl", "stop", "kpro-tiny.service")
    done = place.apply("--limit", "llm")
    assert done.returncode == 0, done.stderr
    assert place.answer().strip()
    hosts = {
        event["host"]
        for event in place.events()
        if event["event"] == "operation" and event["run"] in done.stderr
    }
    assert hosts == {place.guest_host}


def test_activate_is_refused_while_configure_has_work_left(place: Place) -> None:
    place.write(flags=("--tok-s", "210"))
    done = place.apply("--phases", "activate")
    assert done.returncode == 3, done.stderr
    assert "come first" in done.stderr
    assert place.apply("--phases", "configure").returncode == 0
    assert place.apply("--phases", "activate").returncode == 0
    assert place.answer().strip()


def test_a_container_that_somebody_else_made_is_refused(place: Place) -> None:
    config = LXC / place.container.name / "config"
    ours = config.read_text()
    try:
        config.write_text("# mine\n" + ours)
        done = place.apply()
        assert done.returncode == 3
        assert "somebody else configured" in done.stderr
        assert place.answer().strip()
    finally:
        config.write_text(ours)


def test_without_a_terminal_and_without_yes_nothing_is_done(place: Place) -> None:
    place.write(flags=("--tok-s", "60"))
    digests = place.digests()
    done = place.provision("apply", str(place.inventory))
    assert done.returncode == 2
    assert done.stderr.strip().splitlines()[-1].startswith("error: ")
    assert "--yes" in done.stderr
    assert place.digests() == digests


def test_an_engine_is_built_from_the_index_that_the_guest_itself_is_set_to(place: Place) -> None:
    """The index is a loopback one; its address is in the guest's own configuration and nowhere in an inventory."""
    settings = place.container.rootfs / "etc/uv/uv.toml"
    settings.parent.mkdir(exist_ok=True)
    with serve_index(demo_files.wheel_folder(place.folder / "files")) as index:
        settings.write_text(f'[[index]]\nurl = "{index.url}"\ndefault = true\n')
        place.write(engine={"source": "index"})
        done = place.apply()
        asked = list(index.requests)
    settings.unlink()
    assert done.returncode == 0, done.stderr[-3000:]
    assert "from the guest's Python index" in done.stderr
    assert any("kpro-standin" in path for path in asked)
    assert place.answer().strip()


def test_an_engine_that_cannot_be_built_leaves_what_runs_alone(place: Place) -> None:
    settings = place.container.rootfs / "etc/uv/uv.toml"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text('[[index]]\nurl = "http://127.0.0.1:9/simple"\ndefault = true\n')
    pid = place.main_pid()
    try:
        shutil.rmtree(place.container.rootfs / "var/cache/kpro/uv", ignore_errors=True)
        for left in place.container.rootfs.glob("opt/kpro/envs/*"):
            if (left / "kpro-env.json").is_file() and left.name not in place.container.attach(
                "cat", "/etc/systemd/system/kpro-tiny.service"
            ):
                shutil.rmtree(left)
        place.write(engine={"source": "index"})
        done = place.apply()
        assert done.returncode == 1, done.stderr
        assert "could not be installed" in done.stderr
        assert place.main_pid() == pid
        assert place.answer().strip()
    finally:
        settings.unlink()


def test_a_key_reaches_the_service_and_nothing_else(place: Place, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("key-that-must-not-be-seen\n")
    key.chmod(0o600)
    place.write(api_key_file=str(key))
    done = place.apply()
    assert done.returncode == 0, done.stderr[-3000:]
    with pytest.raises(urllib.error.HTTPError, match="401"):
        place.answer()
    inside = place.container.attach("sh", "-c", "cat /proc/[0-9]*/cmdline; journalctl --no-pager -q | cat")
    journals = [path.read_text() for path in Path(os.environ["XDG_STATE_HOME"]).rglob("*.jsonl")]
    journals += [path.read_text() for path in Path("/var/lib/kpro/journal").glob("*.jsonl")]
    assert "must-not-be-seen" not in "".join([done.stdout, done.stderr, inside, *journals])
    secret = place.container.rootfs / "etc/kpro"
    for name in ("tiny.env", "tiny.key", "staged/tiny.env"):
        assert (secret / name).stat().st_mode & 0o777 == 0o600
        assert "must-not-be-seen" in (secret / name).read_text()
    # Another key with a profile that does not come up: the one before must come back with its own key.
    other = tmp_path / "other"
    other.write_text("another-key\n")
    other.chmod(0o600)
    place.write(api_key_file=str(other), flags=("--fault", "crash"))
    done = place.apply()
    assert done.returncode == 1
    assert "kpro-tiny.service was not touched and generates" in done.stderr, done.stderr
    place.write()
    assert place.apply().returncode == 0


def test_an_empty_marker_is_what_an_interrupted_build_left(place: Place) -> None:
    (marker,) = [
        path
        for path in place.container.rootfs.glob("opt/kpro/envs/*/kpro-env.json")
        if path.parent.name in (place.container.rootfs / "etc/systemd/system/kpro-tiny.service").read_text()
    ]
    place.container.attach("systemctl", "stop", "kpro-tiny.service")
    marker.write_text("")
    assert place.apply().returncode == 0
    assert json.loads(marker.read_text())["digest"]
    assert place.plan()["exit"] == 0
    assert place.answer().strip()


def test_a_damaged_environment_is_named_and_a_service_that_was_good_stays_enabled(place: Place) -> None:
    unit = (place.container.rootfs / "etc/systemd/system/kpro-tiny.service").read_text()
    (environment,) = [
        env for env in place.container.rootfs.glob("opt/kpro/envs/*") if f"{env.name}/bin/" in unit
    ]
    for module in environment.glob("lib/python3*/site-packages/kpro_standin/__main__.py"):
        module.write_text("raise SystemExit('damaged')\n")
    for program in environment.glob("bin/kpro-standin"):
        program.write_text("#!/bin/sh\nexit 1\n")
    place.container.attach("systemctl", "stop", "kpro-tiny.service")
    done = place.apply()
    assert done.returncode == 1, done.stderr
    assert f"remove /opt/kpro/envs/{environment.name}" in done.stderr
    assert place.container.attach("systemctl", "is-enabled", "kpro-tiny.service").strip() == "enabled"
    place.container.attach("systemctl", "stop", "kpro-tiny.service")
    shutil.rmtree(environment)
    done = place.apply()
    assert done.returncode == 0, done.stderr[-2000:]
    assert place.answer().strip()


def test_a_model_file_that_is_gone_is_put_again_under_the_running_service(place: Place) -> None:
    (weights,) = place.models.glob("kpro--tiny@*/model.safetensors")
    whole = weights.read_bytes()
    for damage in (None, whole[:100]):
        weights.unlink()
        if damage is not None:
            weights.write_bytes(damage)
        assert place.plan()["exit"] == 10
        assert place.apply().returncode == 0
        assert weights.read_bytes() == whole
    assert place.plan()["exit"] == 0


def test_what_is_undone_without_a_controller_keeps_all_data(place: Place) -> None:
    # Only the run that made this container: undo.sh alone would stop every container of kpro on the machine.
    run = [event["run"] for event in place.events() if event.get("kind") == "container.create"][-1]
    command = ["/var/lib/kpro/undo.sh", run]
    undone = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        assert f"container {place.container.name} is stopped" in undone.stdout
        state = subprocess.run(
            ["lxc-info", "-n", place.container.name, "-sH"], capture_output=True, text=True, check=True
        )
        assert state.stdout.strip() == "STOPPED"
        assert "lxc.start.auto = 0" in (LXC / place.container.name / "config").read_text()
        assert list(place.models.glob("kpro--tiny@*/model.safetensors"))
        again = subprocess.run(command, capture_output=True, check=False)
        assert again.returncode == undone.returncode
    finally:
        done = place.apply()
    assert done.returncode == 0, done.stderr[-3000:]
    assert place.answer().strip()


def test_interrupted_it_says_so_and_the_next_run_goes_on(place: Place) -> None:
    place.write(flags=("--start-seconds", "6"))
    seen = sum(event["event"] == "begin" for event in place.events())
    process = place.start_apply()
    assert place.wait_for(lambda event: event["event"] == "begin", process, seen + 2)
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(60) == 130
    log = (place.folder / "apply.log").read_text()
    assert "interrupted" in log
    assert "Traceback" not in log
    done = place.apply()
    assert done.returncode == 0, done.stderr[-3000:]
    assert place.leftovers() == []
    place.write()
    assert place.apply().returncode == 0


def test_a_reached_over_ssh_machine_goes_the_same_way(made: Place, sshd: Sshd, tmp_path: Path) -> None:
    ssh = sshd.ssh()
    over = Place(tmp_path, made.container, port=made.port, ssh=f"Ssh(**{ssh.model_dump()!r})")
    made.remove()
    over.write()
    done = over.apply()
    assert done.returncode == 0, done.stderr[-3000:]
    assert over.answer().strip()
    again = over.provision("apply", str(over.inventory), "--json")
    assert (again.returncode, json.loads(again.stdout)["changed"]) == (0, [])
