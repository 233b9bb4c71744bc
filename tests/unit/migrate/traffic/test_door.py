"""What answers where clients are led to is the very service or it is refused, whatever its health check says."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from provision.host.transport import Completed
from provision.migrate.traffic import door as doors
from provision.migrate.traffic import ways
from provision.migrate.traffic.asking import ask
from provision.migrate.traffic.door import foreign, leads_to, of_url
from provision.migrate.traffic.messages import Address, Request
from provision.migrate.traffic.port import TrafficError
from tests.unit.migrate.traffic.engines import KEY, Serving, Side, door, serving, side


def proven(own: Serving, there: Serving | None = None) -> str:
    """``there`` None: the door leads to the service itself."""
    with ExitStack() as stack:
        port = stack.enter_context(serving(own))
        to = port if there is None else stack.enter_context(serving(there))
        return leads_to(door(to), side(port), KEY, lambda seconds: None)


def test_the_service_itself_is_proven_by_its_own_counters() -> None:
    assert "it generates there, by its own counters" in proven(Serving())


def test_a_service_that_clients_ask_meanwhile_is_still_itself() -> None:
    assert "by its own counters" in proven(Serving(busy=17))


def test_one_without_counters_is_held_against_its_own_answers_and_that_is_said() -> None:
    own = Serving(page=False)
    assert "a twin of it could not be told from it" in proven(own)


def test_a_proxy_in_between_that_keeps_the_counters_back_is_no_other_service() -> None:
    own = Serving()
    with serving(own) as port:
        between = replace(own, page=False)
        between.completion = own.completion  # type: ignore[method-assign]
        with serving(between) as to:
            assert "generates what door-test" in leads_to(door(to), side(port), KEY, lambda seconds: None)


def test_counters_that_each_worker_has_for_itself_prove_nothing_and_refuse_nothing() -> None:
    assert "generates what" in proven(Serving(down=True, counts=False, made=20))


STRANGERS = {
    "a health check and nothing else": (Serving(page=False, status=501), "it answers 501"),
    "fewer tokens": (Serving(made=3), "its vllm:generation_tokens_total"),
    "more tokens": (Serving(made=4000), "its vllm:generation_tokens_total"),
    "other seconds": (Serving(seconds=1.5), "e2e_request_latency_seconds_sum"),
    "a twin, number for number": (Serving(), "has not counted them"),
    "a twin without counters": (Serving(page=False), "has not counted them"),
    "another key": (Serving(page=False, key="another"), "it answers 401"),
}


@pytest.mark.parametrize("case", STRANGERS)
def test_whoever_else_answers_there_is_refused(case: str) -> None:
    there, seen = STRANGERS[case]
    with pytest.raises(TrafficError) as error:
        proven(Serving(), replace(there, keys=[]))
    assert seen in str(error.value), str(error.value)
    assert "is not door-test on kpro5" in str(error.value)
    assert str(error.value).endswith("Next: correct it")


def test_another_answer_is_another_service_where_nobody_counts() -> None:
    with pytest.raises(TrafficError, match=r"it goes on with ' else', and the service with ' 5 6 7 8'"):
        proven(Serving(page=False), Serving(page=False, text=" else"))


@pytest.mark.parametrize(
    "there",
    [Serving(made=3), Serving(page=False, status=501), Serving(page=False, key="")],
    ids=["other counters", "no engine", "an engine without a key"],
)
def test_whoever_shows_that_he_is_somebody_else_never_sees_the_key(there: Serving) -> None:
    with pytest.raises(TrafficError, match="is not door-test"):
        proven(Serving(), there)
    assert set(there.keys) <= {""}


def test_the_key_is_in_no_script_and_no_message() -> None:
    own, there = Serving(), Serving(page=False, key="another")
    with serving(own) as port, serving(there) as to:
        guest, scripts = side(port), []

        def way(script: str, stdin: bytes, seconds: float) -> Completed:
            scripts.append(script)
            return ways.here(script, stdin, seconds)

        with pytest.raises(TrafficError) as error:
            leads_to(replace(door(to), way=way), guest, KEY, lambda seconds: None)
    assert KEY not in "".join([*scripts, *guest.scripts, str(error.value), repr(Request("/", key=KEY))])
    assert there.keys == ["", f"Bearer {KEY}"], "else it was not asked at all"


@contextmanager
def answering(said: bytes | None) -> Iterator[int]:
    """A port that says this to whoever comes; None: it takes the connection and ends it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(10)

        def serve() -> None:
            with listening.accept()[0] as peer:
                peer.recv(65536)
                peer.sendall(said or b"")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        thread.join(10)


def nobody() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    return port


@pytest.mark.parametrize(
    ("said", "seen"),
    [(None, "closes it without an answer"), (b"SSH-2.0-OpenSSH_9.2\r\n", "is not understood")],
    ids=["mute", "another protocol"],
)
def test_what_speaks_no_http_is_no_service(said: bytes | None, seen: str) -> None:
    with serving(Serving()) as port, answering(said) as to, pytest.raises(TrafficError, match=seen):
        leads_to(door(to), side(port), KEY)


def test_an_address_where_nobody_listens_is_told_before_a_health_check_would_wait_for_it() -> None:
    with serving(Serving()) as port, pytest.raises(TrafficError, match=r"takes no connection \(.*refused\)"):
        leads_to(door(nobody()), side(port), KEY)


def test_a_host_that_cannot_ask_proves_nothing() -> None:
    def lost(script: str, stdin: bytes, seconds: float) -> Completed:
        return Completed(255, b"", b"ssh: No route to host")

    with serving(Serving()) as port, pytest.raises(TrafficError, match="could not be asked from proxy1"):
        leads_to(replace(door(port), way=lost), side(port), KEY)


@pytest.mark.parametrize("without", ["perl", "python3"])
def test_perl_and_python_hear_the_same(without: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in {"perl", "python3"} - {without}:
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(tmp_path))
    with serving(Serving()) as port, answering(None) as mute:
        for to, kind in ((port, "answered"), (nobody(), "closed"), (mute, "mute")):
            found = ask(ways.here, Address("127.0.0.1", to), [Request("/health")])
            assert [one.kind for one in found] == [kind]
        two = ask(
            ways.here, Address("127.0.0.1", port), [Request("/metrics"), Request("/v1/completions", {}, KEY)]
        )
        assert [one.status for one in two] == [200, 200]
        assert "generation_tokens_total" in two[0].text


def test_before_the_service_is_there_whoever_answers_at_its_address_is_somebody_else() -> None:
    with serving(Serving()) as port:
        seen, note = foreign(door(port), "chat")
    assert "it answers 404" in seen
    assert "chat does not run there yet" in seen
    assert note == ""


def test_before_the_service_is_there_nobody_need_answer_and_a_forward_may_stand_there() -> None:
    assert foreign(door(nobody()), "chat") == ("", "")
    for said in (None, b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"):
        with answering(said) as port:
            seen, note = foreign(door(port), "chat")
        assert seen == ""
        assert "is proven before the drain" in note


@pytest.mark.parametrize(
    ("url", "at"),
    [
        ("http://lb:8080", Address("lb", 8080)),
        ("http://192.0.2.1/", Address("192.0.2.1", 80)),
        ("https://chat.example/llm/", Address("chat.example", 443, "name", "/llm")),
        ("http://[2001:db8::1]:8000", Address("2001:db8::1", 8000)),
    ],
)
def test_an_address_is_read_with_all_that_it_says(url: str, at: Address) -> None:
    assert of_url(url) == at


def test_what_the_last_good_start_used_is_the_service_s_own_address() -> None:
    class Kept(Side):
        def inside(self, script: str, *, stdin: bytes = b"", timeout: float | None = 60) -> Completed:
            return Completed(0, b"http://127.0.0.1:8123\n" if "/var/lib/kpro/good/" in script else b"", b"")

    assert doors.address(Kept(side(8000).service)) == Address("127.0.0.1", 8123)
