"""Debian's HAProxy leads requests over and back while a client asks all the time."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from provision.host.transport import Completed
from provision.migrate.traffic.haproxy import Proxy
from provision.migrate.traffic.port import Seen, TrafficError
from provision.spec import HAProxy
from provision.testhost import demo_files
from tests.migrate.rig import Host, Pair

ASKING = Path(__file__).with_name("asking.py")
STANDIN = Path(__file__).parents[2] / "provision/testhost/standin/kpro_standin"
PORT, FRONT = 8090, 8080
SPEC = HAProxy(backend="chat", source="a", target="b", on="source", deadline_seconds=20)

CONFIG = """\
global
    stats socket /run/haproxy/admin.sock mode 660 level {level}
    user haproxy
    group haproxy
    daemon
defaults
    mode {mode}
    timeout connect 2s
    timeout client 60s
    timeout server 60s
    timeout queue 1s
frontend front
    bind :{front}
    http-response set-header X-Server %s
    default_backend chat
backend chat
    option httpchk GET /health
    http-check expect status 200
    default-server inter 200ms fall 2 rise 2
    {more}
    server a 10.87.0.2:{port} {a}
    server b 10.87.0.3:{port} {b}
"""


@dataclass
class Place:
    """HAProxy on host a, the same engine on both hosts."""

    pair: Pair
    folder: Path
    config: str = ""
    at: dict[str, float] = field(default_factory=dict)

    @property
    def proxy(self) -> Proxy:
        return Proxy(SPEC, self.way, "a")

    def way(self, script: str, stdin: bytes, seconds: float) -> Completed:
        words = ["lxc-attach", "-n", self.pair.a.container, "--clear-env", "--", "/bin/sh", "-c", script]
        done = subprocess.run(
            self.pair.net.words(*words), input=stdin, capture_output=True, timeout=seconds, check=False
        )
        return Completed(done.returncode, done.stdout, done.stderr)

    def configure(self, **values: str) -> None:
        usual = {"level": "admin", "mode": "http", "more": "", "a": "check", "b": "check backup"}
        text = CONFIG.format(**{**usual, **values}, port=PORT, front=FRONT)
        self.pair.a.sh("cat >/etc/haproxy/haproxy.cfg", stdin=text.encode())
        self.restart()

    def restart(self, how: str = "restart") -> None:
        # systemd gives up on a unit that is started often.
        self.pair.a.sh(
            f"haproxy -c -q -f /etc/haproxy/haproxy.cfg && systemctl reset-failed haproxy; systemctl {how} haproxy"
        )

    def engine(self, host: Host, verb: str) -> None:
        # Connections that an HAProxy keeps open would be waited for at a stop.
        host.sh(
            f"systemctl kill -s KILL engine; systemctl {verb} engine"
            if verb == "stop"
            else f"systemctl {verb} engine"
        )
        if verb == "start":
            self.until(
                lambda: (
                    '"choices"'
                    in host.sh(f"curl -s -m 5 {_body()} http://127.0.0.1:{PORT}/v1/completions", check=False)
                )
            )

    def until(self, there: Callable[[], bool], seconds: float = 30) -> None:
        end = time.monotonic() + seconds
        while not there():
            assert time.monotonic() < end, "that did not come"
            time.sleep(0.1)

    def who(self, who: str) -> Seen:
        return self.proxy.settled(who, 20)  # type: ignore[arg-type]

    def do(self, verb: str) -> Seen:
        """A verb of the proxy; when it began and ended is kept."""
        self.at[f"{verb} begins"] = time.monotonic()
        seen: Seen = getattr(self.proxy, verb)()
        self.at[f"{verb} ends"] = time.monotonic()
        return seen

    @contextmanager
    def client(self, workers: int = 3, tokens: int = 4) -> Iterator[list[dict[str, object]]]:
        """The list is filled when the client has ended."""
        log = self.folder / f"asked-{time.monotonic_ns()}"
        log.touch()
        words = [
            sys.executable,
            str(ASKING),
            f"http://10.87.0.2:{FRONT}",
            str(log),
            str(workers),
            str(tokens),
        ]
        asked: list[dict[str, object]] = []
        with subprocess.Popen(self.pair.net.words(*words), stdin=subprocess.PIPE) as child:
            try:
                self.until(lambda: log.stat().st_size > 0)
                yield asked
            finally:
                assert child.stdin is not None
                child.stdin.close()
                child.wait(90)
        asked += [json.loads(line) for line in log.read_text().splitlines()]


def _body() -> str:
    body = json.dumps({"model": "tiny", "prompt": "hello", "max_tokens": 4, "ignore_eos": True})
    return f"-H 'Content-Type: application/json' -d '{body}'"


@pytest.fixture(scope="module")
def built(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("haproxy")
    demo_files.prepare(folder)
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        archive.add(STANDIN, "engine/kpro_standin")
        archive.add(demo_files.model_folder(folder), "engine/model")
    unit = (
        "[Service]\nEnvironment=PYTHONPATH=/opt/engine\nExecStart=/usr/bin/python3 -m kpro_standin --model "
        f"/opt/engine/model --host 0.0.0.0 --port {PORT} --served-model-name tiny --tok-s 40\nTimeoutStopSec=40\n"
    )
    for host in (pair.a, pair.b):
        host.sh("tar -C /opt -xf -", stdin=data.getvalue())
        host.sh("cat >/etc/systemd/system/engine.service; systemctl daemon-reload", stdin=unit.encode())
    yield Place(pair, folder)
    pair.a.sh("systemctl disable --quiet --now haproxy", check=False)
    for host in (pair.a, pair.b):
        host.sh("systemctl stop engine; rm -rf /opt/engine /etc/systemd/system/engine.service", check=False)


@pytest.fixture
def place(built: Place) -> Place:
    """The engine serves on a alone, and HAProxy sends it all requests."""
    built.engine(built.pair.b, "stop")
    built.engine(built.pair.a, "start")
    built.configure()
    built.who("source")
    return built


def failed(asked: list[dict[str, object]]) -> list[dict[str, object]]:
    return [one for one in asked if one["status"] != 200]


def test_no_request_fails_outside_the_window_and_those_in_flight_come_to_their_end(place: Place) -> None:
    assert place.proxy.check() == []
    with place.client() as asked, place.client(2, 120) as long:
        place.do("hold")
        place.engine(place.pair.b, "start")
        time.sleep(1)
        place.do("drain")
        time.sleep(0.5)
        place.do("switch")
        time.sleep(1.5)
    window = (place.at["drain begins"], place.at["switch ends"])
    outside = [one for one in failed(asked) if not (one["ended"] > window[0] and one["began"] < window[1])]
    assert outside == []
    assert {one["status"] for one in failed(asked)} == {503}, "in the window there is nobody to send them to"
    assert len({one["text"] for one in asked if one["status"] == 200}) == 1, "none is answered otherwise"
    before = [one for one in asked if one["ended"] < window[0]]
    after = [one for one in asked if one["began"] > window[1]]
    assert {one["server"] for one in before} == {"a"}
    assert {one["server"] for one in after} == {"b"}
    under_way = [one for one in long if one["began"] < window[0] < one["ended"]]
    assert under_way, "there was none to lose"
    assert {(one["status"], one["server"]) for one in under_way} == {(200, "a")}
    first = min(one["ended"] for one in asked if one["server"] == "b" and one["status"] == 200)
    print(f"{first - window[0]:.1f} s from the start of the drain to the first answer of the target")  # noqa: T201


def test_the_way_back_takes_seconds_while_the_source_is_warm(place: Place) -> None:
    place.engine(place.pair.b, "start")
    place.do("drain")
    place.do("switch")
    place.who("target")
    with place.client() as asked:
        time.sleep(0.5)
        began = time.monotonic()
        place.do("back")
        took = time.monotonic() - began
        time.sleep(1)
    assert failed(asked) == []
    assert {one["server"] for one in asked if one["began"] > place.at["back ends"]} == {"a"}
    assert took < 8
    place.engine(place.pair.b, "stop")
    assert place.do("release").who == "source"


@pytest.mark.parametrize("how", ["restart", "reload"])
def test_a_restart_of_haproxy_sends_requests_to_the_one_that_serves(place: Place, how: str) -> None:
    place.do("hold")
    place.engine(place.pair.b, "start")
    place.restart(how)
    place.who("source")
    place.do("drain")
    place.do("switch")
    place.engine(place.pair.a, "stop")
    place.restart(how)
    time.sleep(1)
    assert place.who("target").who == "target"
    with place.client() as asked:
        time.sleep(1)
    assert failed(asked) == []
    assert {one["server"] for one in asked} == {"b"}
    assert "remove the line of server a" in place.proxy.afterwards()[0]
    place.configure(a="check disabled")
    assert place.who("target").who == "target", "the line of the source is not needed any more"


def test_a_target_without_backup_would_get_requests_after_a_restart_and_is_refused(place: Place) -> None:
    place.configure(b="check")
    place.engine(place.pair.b, "start")
    assert any("not written as 'backup'" in one.seen for one in place.proxy.check())
    place.until(lambda: place.proxy.state().who == "unknown")
    assert "both would get requests" in place.proxy.state().said


@pytest.mark.parametrize(
    ("values", "seen"),
    [
        ({"level": "operator"}, "has the level operator"),
        ({"mode": "tcp"}, "has mode tcp"),
        ({"more": "cookie SRV insert"}, "by the cookie SRV"),
        ({"a": ""}, "server a of backend chat has no health check"),
        ({"b": "check backup disabled"}, "is written with the word 'disabled'"),
        ({"more": "server c 10.87.0.3:8091 check"}, "other servers too: c"),
    ],
    ids=["operator", "tcp", "cookie", "no check", "disabled", "third"],
)
def test_what_would_lead_requests_astray_is_refused_of_the_real_one_too(
    place: Place, values: dict[str, str], seen: str
) -> None:
    place.configure(**values)
    time.sleep(0.6)
    found = [one.seen for one in place.proxy.check()]
    assert any(seen in one for one in found), found


def test_maintenance_that_somebody_set_is_left_and_refused(place: Place) -> None:
    place.pair.a.sh("echo 'set server chat/b state maint' | socat - /run/haproxy/admin.sock || perl -e "
                    "'use IO::Socket::UNIX; my $s = IO::Socket::UNIX->new(Peer => \"/run/haproxy/admin.sock\"); "
                    "print $s \"set server chat/b state maint\\n\"; print <$s>'")  # fmt: skip
    assert any("in maintenance" in one.seen for one in place.proxy.check())
    with pytest.raises(TrafficError, match="somebody else did that"):
        place.do("hold")
    assert "maintenance" in place.proxy.state().said


def test_clients_that_stick_to_the_source_are_noticed_before_the_window_is_long(place: Place) -> None:
    place.configure(more="stick-table type ip size 1k expire 1m\n    stick on src")
    place.engine(place.pair.b, "start")
    place.who("source")
    with place.client():
        time.sleep(0.5)
        with pytest.raises(TrafficError, match="something keeps clients at it"):
            Proxy(SPEC.model_copy(update={"deadline_seconds": 3}), place.way, "a").drain()
        assert place.do("back").who == "source"


def test_a_proxy_that_is_down_is_told_and_proves_nothing(place: Place) -> None:
    place.pair.a.sh("systemctl stop haproxy")
    (found,) = place.proxy.check()
    assert "migration.traffic.socket" in found.where
    assert place.proxy.state().who == "unknown"
    with pytest.raises(TrafficError, match="bring HAProxy and its socket up"):
        place.do("drain")


def test_a_host_of_its_own_is_led_over_ssh(place: Place) -> None:
    ssh = place.pair.a.ssh()
    code = (
        "from provision.spec import HAProxy, Ssh; from provision.migrate.traffic import ways; "
        "from provision.migrate.traffic.haproxy import Proxy; "
        f"spec = HAProxy(backend='chat', source='a', target='b', on='ssh', ssh=Ssh(**{ssh.model_dump()!r})); "
        "led = Proxy(spec, ways.by_ssh(spec.ssh), spec.ssh.host); print(led.check(), led.hold().who)"
    )
    done = place.pair.run(sys.executable, "-c", code)
    assert done.stdout == "[] source\n", done.stdout + done.stderr


def test_the_configuration_that_the_page_shows_is_one_that_haproxy_takes_and_no_check_refuses(
    place: Place,
) -> None:
    page = (Path(__file__).parents[2] / "docs/migration-traffic.md").read_text()
    (shown,) = [block for block in page.split("```")[1::2] if block.startswith("\nglobal")]
    front = (
        "defaults\n timeout connect 2s\n timeout client 9s\n timeout server 9s\n"
        f"frontend f\n mode http\n bind :{FRONT}\n default_backend chat\n"
    )
    text = shown.replace("10.0.0.6:8000", f"10.87.0.2:{PORT}").replace("10.0.0.5:8000", f"10.87.0.3:{PORT}")
    place.pair.a.sh("cat >/etc/haproxy/haproxy.cfg", stdin=f"{text}\n{front}".encode())
    place.restart()
    proxy = Proxy(SPEC.model_copy(update={"source": "kpro6", "target": "kpro5"}), place.way, "a")
    assert proxy.settled("source", 20).who == "source"
    assert proxy.check() == []
