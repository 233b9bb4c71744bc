"""What hooks are told, which sides there are, and which words are secrets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from provision.host.transport import Completed
from provision.migrate.traffic.choose import traffic
from provision.migrate.traffic.haproxy import Proxy
from provision.migrate.traffic.hooks import Programs
from provision.migrate.traffic.told import secrets, shown, url
from provision.spec import Engine, HAProxy, Hooks, Machine, Migration, Model, Service, Ssh


def service(**more: object) -> Service:
    values: dict[str, object] = {
        "name": "chat",
        "engine": Engine(kind="standin", version="1.0.0"),
        "model": Model(repo="kpro/tiny", revision="1" * 40),
    }
    return Service(**{**values, **more})  # type: ignore[arg-type]


@dataclass
class Side:
    name: str
    service: Service
    machine: Machine

    def host(self, script: str, *, stdin: bytes = b"", timeout: float | None = 60) -> Completed:
        return Completed(0, f"{self.name}".encode(), b"")


def sides(spec: HAProxy | Hooks | None, **more: object) -> tuple[Side, Side]:
    source = Side("kpro6", service(**more), Machine(name="kpro6", ssh=Ssh(host="six.example")))
    target = Side("kpro5", service(migration=Migration(traffic=spec)), Machine(name="kpro5"))
    return source, target


@pytest.mark.parametrize(
    ("listen", "ssh", "expected"),
    [
        ("127.0.0.1", "six.example", "http://six.example:8000"),
        ("0.0.0.0", "six.example", "http://six.example:8000"),
        ("192.0.2.6", "six.example", "http://192.0.2.6:8000"),
        ("2001:db8::6", "six.example", "http://[2001:db8::6]:8000"),
        ("127.0.0.1", None, "http://127.0.0.1:8000"),
    ],
)
def test_clients_reach_a_service_at_its_own_address_or_at_that_of_its_machine(
    listen: str, ssh: str | None, expected: str, tmp_path: Path
) -> None:
    machine = Machine(name="six", ssh=Ssh(host=ssh) if ssh else None)
    assert url(machine, service(listen=listen, api_key_file=tmp_path / "key")) == expected


def test_a_target_without_traffic_leads_nobody() -> None:
    source, target = sides(None)
    assert traffic("run", source, target) is None
    target.service = service()
    assert traffic("run", source, target) is None


def test_the_key_of_the_service_is_a_secret_of_its_hooks(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("a-key-that-is-secret\n")
    commands = dict.fromkeys(("drain", "switch", "back", "check"), ("/bin/true",))
    source, target = sides(Hooks(**commands), api_key_file=key)  # type: ignore[arg-type]
    led = traffic("run-1", source, target)
    assert isinstance(led, Programs)
    assert led.variables["KPRO_SOURCE_URL"] == "http://six.example:8000"
    assert "a-key-that-is-secret" in secrets({}, led.hidden)


@pytest.mark.parametrize(
    ("on", "host"), [("controller", "this controller"), ("source", "kpro6"), ("target", "kpro5")]
)
def test_the_socket_is_asked_on_the_host_that_was_named(on: str, host: str) -> None:
    source, target = sides(HAProxy(backend="chat", source="a", target="b", on=on))  # type: ignore[arg-type]
    led = traffic("run", source, target)
    assert isinstance(led, Proxy)
    assert led.host == host
    if on != "controller":
        assert led.way("true", b"", 5).text == host


def test_a_host_of_its_own_is_reached_without_a_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    there = Ssh(host="lb", port=2222, user="ops", key="~/k", known_hosts="/kh")
    led = traffic("r", *sides(HAProxy(backend="c", source="a", target="b", on="ssh", ssh=there)))
    assert isinstance(led, Proxy)
    words = led.way("a script", b"", 10).text.splitlines()
    assert words[:2] == ["-o", "BatchMode=yes"]
    assert words[-3:] == ["--", "lb", "a script"]
    assert {"StrictHostKeyChecking=yes", "UserKnownHostsFile=/kh", "2222", "ops"} <= set(words)
    assert str(Path("~/k").expanduser()) in words


def test_values_of_variables_that_are_named_like_secrets_are_hidden_the_longest_first() -> None:
    found = secrets(
        {
            "CLOUD_TOKEN": "abcdefgh",
            "DB_PASSWORD": "abcdefgh-longer",
            "PATH": "/usr/bin:/bin",
            "KPRO_RUN": "a-run-id",
            "A_KEY": "short",
            "SSH_AUTH_SOCK": "/tmp/agent.1",
        }
    )
    assert found == ("abcdefgh-longer", "abcdefgh")
    assert shown("x abcdefgh-longer y", found) == "x *** y"


@pytest.mark.parametrize(
    "text",
    [
        "hf_abcdefghijklmnopqrstuv",
        "sk-abcdefghijklmnopqrstuv",
        "--api-key abcdefghij",
        "token Bearer abcdefghij",
    ],
)
def test_what_looks_like_a_secret_is_hidden_whatever_it_is_of(text: str) -> None:
    assert "***" in shown(text, ())
    assert text.split()[-1] not in shown(text, ())


def test_what_would_move_a_terminal_s_cursor_is_taken_out() -> None:
    assert "\x1b" not in shown("\x1b[2Jgone", ())
