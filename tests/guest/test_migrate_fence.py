"""The fence of a service that moved away, in a real container: no boot and no hand starts it, and the way back does."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from provision.host.transport import Completed
from provision.migrate import drain, fence, serving, watch
from provision.run.errors import ActFailed
from provision.spec import Engine, Found, Model, Service
from provision.templates import render
from provision.testhost import demo_files
from tests.guest.rig import Container

RUN, OTHER = "20261130T120000Z-a1b2c3", "20261130T130000Z-d4e5f6"
KEY = "a-key-of-42-letters"
_STANDIN = Path(__file__).parents[2] / "provision/testhost/standin/kpro_standin"

_UNIT = """\
[Unit]
Description=an engine
After=network.target
[Service]
Environment=PYTHONPATH=/opt/engine
{environment}
ExecStart=/usr/bin/python3 -m kpro_standin --model /opt/engine/model --port {port} --served-model-name {name} {more}
Restart=on-failure
RestartSec=1
[Install]
WantedBy=multi-user.target
"""


@dataclass(frozen=True)
class End:
    """A side of a migration, as far as a guest goes."""

    container: Container
    service: Service
    name: str = "kpro6"

    def inside(self, script: str, *, stdin: bytes = b"", timeout: float | None = 60) -> Completed:
        words = ["lxc-attach", "-n", self.container.name, "--clear-env", "--", "/bin/sh", "-c", script]
        done = subprocess.run(words, input=stdin, capture_output=True, timeout=timeout, check=False)
        return Completed(done.returncode, done.stdout, done.stderr)

    def sh(self, script: str) -> str:
        return self.inside(script).text.strip()

    @property
    def active(self) -> str:
        return self.sh(f"systemctl is-active {self.service.unit}")

    def install(self, more: str = "", environment: str = "") -> None:
        text = _UNIT.format(
            environment=environment, port=self.service.port, name=served(self.service), more=more
        )
        (self.container.rootfs / f"etc/systemd/system/{self.service.unit}").write_text(text)
        self.sh(f"systemctl daemon-reload; systemctl enable --quiet {self.service.unit}")


def served(service: Service) -> str:
    return "their-model" if service.found else service.name


@pytest.fixture(scope="module")
def box(new_container: Callable[..., Container], tmp_path_factory: pytest.TempPathFactory) -> Container:
    """A container of its own network, with the stand-in engine and a model."""
    made = new_container(network="empty")
    files = tmp_path_factory.mktemp("files")
    demo_files.prepare(files)
    shutil.copytree(_STANDIN, made.rootfs / "opt/engine/kpro_standin")
    shutil.copytree(demo_files.model_folder(files), made.rootfs / "opt/engine/model")
    made.attach("ip", "link", "set", "lo", "up")
    return made


def _service(**more: object) -> Service:
    values: dict[str, object] = {
        "name": "chat",
        "engine": Engine(kind="standin", version="1.0.0"),
        "model": Model(repo="kpro/tiny", revision="1" * 40),
        "port": 8000,
    }
    return Service(**{**values, **more})  # type: ignore[arg-type]


@pytest.fixture
def own(box: Container) -> Iterator[End]:
    """A service that kpro set up."""
    yield from _end(End(box, _service()))


@pytest.fixture
def by_hand(box: Container) -> Iterator[End]:
    """One that somebody set up, whose key stands among its arguments or in its environment."""
    words = ("vllm", "serve", "/opt/engine/model", "--port", "8001", "--served-model-name", "their-model")
    yield from _end(End(box, _service(port=8001, found=Found(unit="their-llm.service", command=words))))


def _end(end: End) -> Iterator[End]:
    end.install()
    end.sh(f"systemctl start {end.service.unit}")
    yield end
    unit = end.service.unit
    end.sh(
        f"systemctl kill -s KILL {unit}; systemctl disable --quiet --now {unit}; cd /etc/systemd/system; "
        f"rm -rf {unit} {unit}.d /var/lib/kpro /run/kpro-migrate; systemctl daemon-reload; systemctl reset-failed"
    )


def reboot(end: End) -> None:
    end.container.stop()
    end.container.start()
    end.container.attach("ip", "link", "set", "lo", "up")


@pytest.mark.parametrize("which", ["own", "by_hand"])
def test_a_fenced_service_starts_neither_at_a_boot_nor_by_hand_and_starts_again_unfenced(
    which: str, request: pytest.FixtureRequest
) -> None:
    end: End = request.getfixturevalue(which)
    unit, file = end.service.unit, f"/etc/systemd/system/{end.service.unit}"
    before = end.sh(f"sha256sum {file}; systemctl is-enabled {unit}")
    assert fence.check(end, RUN) == []
    fence.put(end, RUN, "kpro5")
    assert end.active == "active", "a service that runs goes on behind its fence"
    serving.stop(end)
    assert (
        end.sh(f"systemctl start {unit}; systemctl restart {unit}; systemctl is-active {unit}") == "inactive"
    )
    reboot(end)
    assert end.active == "inactive"
    assert fence.look(end).up
    said = end.sh(f"systemctl start {unit}; systemctl cat {unit}; journalctl -b -u {unit} --output cat")
    assert "was moved to kpro5" in said
    assert "provision migrate SOURCE-INVENTORY TARGET-INVENTORY --rollback" in said
    assert f"/var/lib/kpro/migrated/{end.service.name}" in said.splitlines()[-1]
    fence.take_away(end, RUN)
    assert fence.look(end).away
    took = serving.start(end, RUN, 30, print)
    assert took < 30
    assert end.sh(f"sha256sum {file}; systemctl is-enabled {unit}") == before
    assert end.sh(f"ls -A /etc/systemd/system/{unit}.d /var/lib/kpro/migrated") in (
        "",
        "/var/lib/kpro/migrated:",
    )
    reboot(end)
    assert end.active == "active"


def test_a_fence_is_put_and_taken_away_again_after_a_cut_at_any_of_its_steps(own: End) -> None:
    drop_in, marker = fence.drop_in(own.service), fence.marker(own.service)
    fence.put(own, RUN, "kpro5")
    own.sh(f"rm {marker}")
    assert not fence.look(own).up
    serving.stop(own)
    own.sh(f"systemctl start {own.service.unit}")
    assert own.active == "active", "a drop-in alone keeps nothing from starting"
    fence.put(own, RUN, "kpro5")
    assert fence.look(own).up
    own.sh(f"rm {drop_in}; systemctl daemon-reload")
    assert not fence.look(own).up
    fence.put(own, RUN, "kpro5")
    assert fence.look(own).up
    own.sh(f"rm {marker}")
    fence.take_away(own, RUN)
    assert fence.look(own).away
    fence.take_away(own, RUN)


def test_a_fence_that_a_later_drop_in_undoes_is_no_fence(own: End) -> None:
    folder = fence.drop_in(own.service).rpartition("/")[0]
    own.sh(f"mkdir -p {folder}; printf '[Unit]\\nConditionPathExists=\\n' >{folder}/zz.conf")
    with pytest.raises(ActFailed, match="does not hold to it: another drop-in takes all conditions away"):
        fence.put(own, RUN, "kpro5")
    own.sh(f"rm {folder}/zz.conf; systemctl daemon-reload")
    fence.put(own, RUN, "kpro5")
    assert fence.look(own).up


def test_the_fence_of_another_migration_is_left_alone(own: End) -> None:
    fence.put(own, RUN, "kpro5")
    assert "has fenced it" in fence.check(own, OTHER)[0].seen
    with pytest.raises(ActFailed, match=RUN):
        fence.put(own, OTHER, "kpro4")
    with pytest.raises(ActFailed, match="left as it is"):
        fence.take_away(own, OTHER)
    assert fence.look(own).run == RUN


def test_what_could_not_be_started_again_is_refused_before_anything_is_done(own: End) -> None:
    own.sh(f"systemctl disable --now {own.service.unit}; rm /etc/systemd/system/{own.service.unit}")
    assert "no such unit" in fence.check(own, RUN)[0].seen
    own.sh(f"systemd-run --quiet --unit {own.service.unit} sleep 1000")
    assert "is gone once it stops" in fence.check(own, RUN)[0].why + fence.check(own, RUN)[0].seen
    own.sh(f"systemctl stop {own.service.unit}")
    own.install()
    assert fence.check(own, RUN) == []
    own.sh(f"echo '# changed' >>/etc/systemd/system/{own.service.unit}")
    own.sh("touch -d '+1 min' /etc/systemd/system/*.service")
    assert "was changed since systemd read it" in fence.check(own, RUN)[0].seen


@pytest.mark.parametrize("script", ["recover", "restart", "undo", "isolate"])
def test_nothing_of_kpro_that_starts_units_starts_a_fenced_one(own: End, script: str) -> None:
    unit = own.service.unit
    fence.put(own, RUN, "kpro5")
    serving.stop(own)
    if script == "recover":
        # A cut-over that was cut off and has a last good profile to go back to.
        own.sh(
            "cd /var/lib/kpro; mkdir -p cutover/chat last-good/chat good /opt/kpro/bin /etc/kpro; "
            "echo publish x >cutover/chat/phase; d=$(printf a%.0s $(seq 64)); echo $d >good/chat; "
            f"{{ cat /etc/systemd/system/{unit}; echo Environment=KPRO_DIGEST=$d; }} >last-good/chat/unit; "
            "touch last-good/chat/env"
        )
        path = own.container.rootfs / "opt/kpro/bin/kpro-recover"
        path.write_text(render("kpro-recover.sh.j2"))
        assert "the last good profile is in place" in own.sh("sh /opt/kpro/bin/kpro-recover chat")
        own.sh(f"systemctl start {unit}")
    elif script == "restart":
        own.sh(f"systemctl daemon-reload && {{ systemctl reset-failed {unit}; systemctl restart {unit}; }}")
    elif script == "undo":
        own.sh(f"systemctl reset-failed {unit}; systemctl start --no-block {unit}; sleep 1")
    else:
        own.sh("systemctl start multi-user.target; systemctl isolate --no-block multi-user.target; sleep 1")
    assert own.active == "inactive"
    assert fence.look(own).up


@pytest.mark.parametrize(
    ("environment", "more"), [(f"Environment=VLLM_API_KEY={KEY}", ""), ("", "")], ids=["key", "no key"]
)
def test_a_service_is_asked_with_the_key_of_its_own_process_and_the_key_is_in_no_argument(
    by_hand: End, environment: str, more: str
) -> None:
    by_hand.install(more, environment)
    by_hand.sh(f"systemctl restart {by_hand.service.unit}")
    serving.start(by_hand, RUN, 30, print)
    # The pattern does not find the words of the watcher itself.
    look = f"grep -aqs '[{KEY[0]}]{KEY[1:]}' /proc/[0-9]*/cmdline && echo SEEN"
    words = ["lxc-attach", "-n", by_hand.container.name, "--clear-env", "--", "sh", "-c"]
    watcher = subprocess.Popen(
        [*words, f"for i in $(seq 150); do {look}; sleep 0.02; done"], stdout=subprocess.PIPE, text=True
    )
    assert serving.generates(by_hand, RUN).generates
    seen, _ = watcher.communicate(timeout=60)
    assert "SEEN" not in seen


def test_a_service_that_does_not_come_up_is_noticed_with_its_own_words(own: End) -> None:
    serving.stop(own)
    own.install("--fault crash")
    said: list[str] = []
    with pytest.raises(ActFailed, match="Engine core initialization failed"):
        serving.start(own, RUN, 60, said.append)


def test_the_words_of_one_that_was_just_started_again_are_those_of_the_one_before_it(own: End) -> None:
    serving.stop(own)
    own.install("--fault crash")
    with pytest.raises(ActFailed):
        serving.start(own, RUN, 60, print)
    own.install("--start-seconds 60")
    own.sh(f"systemctl stop {own.service.unit}; systemctl start --no-block {own.service.unit}; sleep 1")
    assert "Engine core initialization failed" not in serving.last_words(own, RUN)
    assert "Engine core initialization failed" in serving.last_words(own, RUN, 60)
    serving.stop(own)


def test_a_fenced_service_is_not_even_tried_to_start(own: End) -> None:
    fence.put(own, RUN, "kpro5")
    serving.stop(own)
    with pytest.raises(ActFailed, match="is fenced and would not start"):
        serving.start(own, RUN, 60, print)


def test_a_stop_is_proven_and_something_else_on_the_port_is_told(own: End) -> None:
    serving.stop(own)
    assert own.active == "inactive"
    own.sh(
        "systemd-run --quiet --unit other /usr/bin/python3 -m http.server "
        f"{own.service.port} --bind 127.0.0.1; sleep 2"
    )
    try:
        with pytest.raises(ActFailed, match="something else listens on its port 8000"):
            serving.stop(own)
    finally:
        own.sh("systemctl stop other")


def test_requests_in_flight_are_waited_for_and_no_longer_than_asked(own: End) -> None:
    own.install("--tok-s 20")
    own.sh(f"systemctl restart {own.service.unit}")
    serving.start(own, RUN, 30, print)
    assert drain.wait(own, RUN, 10).idle
    body = json.dumps({"model": "chat", "prompt": "hello", "max_tokens": 80, "ignore_eos": True})
    ask = (
        "import urllib.request as u; u.urlopen(u.Request('http://127.0.0.1:8000/v1/completions', "
        f"'{body}'.encode(), {{'Content-Type': 'application/json'}})).read()"
    )
    words = ["lxc-attach", "-n", own.container.name, "--clear-env", "--", "python3", "-c", ask]
    with subprocess.Popen(words) as client:
        own.sh("sleep 0.5")
        assert not drain.wait(own, RUN, 1).idle
        drained = drain.wait(own, RUN, 20)
        assert drained.idle, drained.said
        assert client.wait(10) == 0, "the request came to its end"


def test_a_target_that_is_well_is_watched_to_the_end(own: End) -> None:
    serving.start(own, RUN, 30, print)
    said: list[str] = []
    seen = watch.watch(own, RUN, 6, None, said.append)
    assert seen.well, seen.why
    assert seen.tries >= 2
    assert seen.report is not None
    assert seen.report["verdict"] == "pass"


def test_a_target_that_dies_under_watch_is_red_at_once_with_its_cause(own: End) -> None:
    own.install("--fault dies")
    own.sh(f"systemctl restart {own.service.unit}; sleep 1")
    seen = watch.watch(own, RUN, 600, None, print)
    assert not seen.well
    assert "did not generate any more" in seen.why
