"""What an inventory says of moving a service: refused whole, at its place, in an operator's words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from provision.spec import CopySettings, ExtraPath, HAProxy, Hooks, Migration, Ssh
from provision.spec_migration import disagreement

PORT = "port=8000,"
COMMANDS = 'drain=["/bin/true"], switch=["/bin/true"], back=["/bin/true"], check=["/bin/true"]'


def migration(text: str) -> tuple[str, str]:
    return (PORT, f"port=8000, migration=Migration({text}),")


def reasons(desk: Any, text: str, **how: bool) -> list[str]:
    found: list[str] = desk.reasons(migration(text), **how)
    return found


def test_a_migration_is_read_with_all_that_it_says(desk: Any) -> None:
    text = (
        'extra_paths=[ExtraPath(path="/srv/adapters", why="LoRA")], watch_seconds=90, '
        'traffic=HAProxy(backend="chat", source="kpro6", target="kpro5", on="ssh", ssh=Ssh(host="lb")), '
        'transfer=CopySettings(address="10.0.0.5", port=2222, bwlimit_mib=100, streams=2)'
    )
    found = desk.load(migration(text)).machines[0].guests[0].services[0].migration
    assert found is not None
    assert isinstance(found.traffic, HAProxy)
    assert found.transfer == CopySettings(address="10.0.0.5", port=2222, bwlimit_mib=100, streams=2)
    assert (found.extra_paths[0].path, found.watch_seconds) == ("/srv/adapters", 90)


def test_hooks_are_told_from_an_haproxy_by_what_they_say(desk: Any) -> None:
    found = desk.load(migration(f"traffic=Hooks({COMMANDS})")).machines[0].guests[0].services[0].migration
    assert found is not None
    assert isinstance(found.traffic, Hooks)


@pytest.mark.parametrize(
    ("text", "field", "said"),
    [
        ('traffic=Hooks(drain="/bin/true")', "traffic.drain", "must be a list in square brackets"),
        ('traffic=Hooks(drain=["/bin/true"])', "traffic.switch", "is missing"),
        (f"traffic=Hooks({COMMANDS}, swich=[])", "traffic.swich", "did you mean 'switch'?"),
        ('traffic=Hooks(drain=[], check=[""])', "traffic.check", "is no program"),
        (f'traffic=Hooks({COMMANDS}, probe="lb:8080")', "traffic.probe", "is no address of HTTP"),
        (f'traffic=Hooks({COMMANDS}, probe="http://lb:99999")', "traffic.probe", "is no address of HTTP"),
        (f'traffic=Hooks({COMMANDS}, probe="http://me:pw@lb")', "traffic.probe", "without a password"),
        (f'traffic=Hooks({COMMANDS}, probe="http://lb/v1/")', "traffic.probe", "leave out /v1"),
        ('traffic=HAProxy(backend="a b", source="x", target="y")', "traffic.backend", "no name that HAProxy"),
        ('traffic=HAProxy(backend="b", source="x", target="x")', "traffic.target", "is the source too"),
        ('traffic=HAProxy(backend="b", source="x", target="y", on="ssh")', "traffic.ssh", "is missing"),
        (
            'traffic=HAProxy(backend="b", source="x", target="y", ssh=Ssh(host="l"))',
            "traffic.ssh",
            "never used",
        ),
        ('traffic=HAProxy(backend="b", source="x", target="y", sockt="/x")', "traffic.sockt", "'socket'?"),
        ('traffic="haproxy"', "traffic", "must be HAProxy(…) or Hooks(…)"),
        ('extra_paths=[ExtraPath(path="/srv/x", why="")]', "extra_paths[0].why", "is empty"),
        ('extra_paths=[ExtraPath(path="/", why="x")]', "extra_paths[0].path", "the whole guest"),
        ('extra_paths=[ExtraPath(path="/etc", why="x")]', "extra_paths[0].path", "holds /etc/kpro"),
        ('extra_paths=[ExtraPath(path="/srv/models/a", why="x")]', "extra_paths[0].path", "moves as a model"),
        ("watch_seconds=0", "watch_seconds", "too small"),
        ("transfer=CopySettings(streams=99)", "transfer.streams", "too large"),
        ("transfer=CopySettings(bwlimit_mib=0)", "transfer.bwlimit_mib", "too small"),
    ],
)
def test_a_mistake_is_told_at_its_field(desk: Any, text: str, field: str, said: str) -> None:
    found = reasons(desk, text)
    assert any(f"services[0].migration.{field}" in one and said in one for one in found), found


def test_all_mistakes_are_told_in_one_round(desk: Any) -> None:
    text = (
        'extra_paths=[ExtraPath(path="/proc/x", why="x"), ExtraPath(path="/srv/a/b", why="x"), '
        'ExtraPath(path="/srv/a", why="x")], watch_seconds=0, '
        'traffic=HAProxy(backend="b", source="x", target="x", on="ssh")'
    )
    found = "\n".join(reasons(desk, text))
    for said in ("watch_seconds", "is the source too", "ssh=Ssh(host=…)"):
        assert said in found
    with pytest.raises(ValueError, match="the kernel's") as error:
        Migration(
            extra_paths=tuple(ExtraPath(path=p, why="x") for p in ("/proc/x", "/srv/a/b", "/srv/a", "/srv/a"))
        )
    assert "lie in one another" in str(error.value)
    assert "is already extra_paths[2]" in str(error.value)


def test_a_hook_that_is_not_on_this_controller_is_refused(desk: Any, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("no program")
    text = f"traffic=Hooks({COMMANDS.replace('/bin/true', str(tmp_path / 'plain'), 1)})"
    (reason,) = reasons(desk, text, files="all")
    assert "traffic.drain[0]: there is no program" in reason


def test_the_key_of_the_proxy_s_host_must_lie_on_this_controller(desk: Any) -> None:
    text = 'traffic=HAProxy(backend="b", source="x", target="y", on="ssh", ssh=Ssh(host="l", key="/nope"))'
    (reason,) = reasons(desk, text, files="all")
    assert "traffic.ssh.key: there is no file /nope" in reason


def test_the_source_may_repeat_what_the_target_says_and_not_contradict_it() -> None:
    ours = Migration(watch_seconds=60, transfer=CopySettings(streams=2))
    assert list(disagreement(ours, None)) == []
    assert list(disagreement(ours, Migration(watch_seconds=60))) == []
    ((where, text),) = disagreement(ours, Migration(watch_seconds=61))
    assert where == ("migration", "watch_seconds")
    assert "the target's is what counts" in text


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        (
            HAProxy(backend="llm", source="two", target="one"),
            {"source": ("'two'", "'one'"), "target": ("'one'", "'two'")},
        ),
        (
            HAProxy(backend="llm", source="one", target="two", on="ssh", ssh=Ssh(host="lb")),
            {"on": ("'ssh'", "'controller'"), "ssh": ("Ssh(host='lb')", "left out")},
        ),
        (None, {"": ("left out", "HAProxy(backend='llm', source='one', target='two')")}),
        (
            Hooks(**dict.fromkeys(("drain", "switch", "back", "check"), ("/bin/true",))),  # type: ignore[arg-type]
            {"": ("Hooks(drain=['/bin/true'], ", "HAProxy(backend=")},
        ),
    ],
)
def test_a_dissent_is_told_by_the_fields_that_differ_and_as_an_inventory_writes_them(
    theirs: HAProxy | Hooks | None, said: dict[str, tuple[str, str]]
) -> None:
    ours = Migration(traffic=HAProxy(backend="llm", source="one", target="two"))
    found = dict(disagreement(ours, Migration(traffic=theirs)))
    assert set(found) == {("migration", "traffic", *([name] if name else [])) for name in said}
    for name, (one, two) in said.items():
        text = found["migration", "traffic", *([name] if name else [])]
        assert one in text.partition(" than in ")[0], text
        assert two in text.partition(" than in ")[2], text
        assert "backend='llm' source=" not in text
