"""Steps 8-10: what a service lacks, one spoilt thing at a time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from provision.plan import Plan
from provision.run import wanted
from provision.spec import Machine
from provision.stack.decide import Shipped, stack_plan
from provision.stack.desired import PYZ, DesiredService, desired_service, sha256
from tests.unit.plan.seen import Seen

Decide = Callable[[Seen | None], Plan]


@pytest.fixture
def decide(machine: Machine, desired: DesiredService, host: Seen, shipped: tuple[Shipped, Shipped]) -> Decide:
    def plan(inside: Seen | None) -> Plan:
        seen = inside.snapshot if inside is not None else None
        return stack_plan(machine, machine.guests[0], [desired], host.snapshot, seen, *shipped)

    return plan


def kinds(plan: Plan) -> list[str]:
    return [item.kind for item in plan.items]


def test_a_bare_guest_gets_everything_in_the_order_of_the_steps(
    decide: Decide, host: Seen, desired: DesiredService
) -> None:
    host.model(desired.models[0].directory, None)
    assert kinds(decide(None)) == [
        "stack.base",
        "stack.provcheck",
        "stack.uv",
        "stack.engine",
        "stack.model",
        "stack.stage",
        "service.cutover",
    ]


def test_a_guest_with_all_in_place_gets_nothing(decide: Decide, inside: Seen) -> None:
    assert decide(inside) == Plan("box")


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (lambda seen, want: seen.put("sha", PYZ, "c" * 64), ["stack.provcheck"]),
        (lambda seen, want: seen.put("file", want.engine.marker, None), ["stack.engine"]),
        (lambda seen, want: seen.put("file", want.engine.marker, "{cut"), ["stack.engine"]),
        (lambda seen, want: seen.put("stat", "/var/lib/kpro/good", None), ["stack.base"]),
        (lambda seen, want: seen.put("sha", want.staged_unit, "d" * 64), ["stack.stage"]),
        (lambda seen, want: seen.put("sha", want.unit_path, "d" * 64), ["service.cutover"]),
        (lambda seen, want: seen.put("sha", want.environment_path, None), ["service.cutover"]),
        (lambda seen, want: seen.put("file", want.good_path, None), ["service.cutover"]),
        (lambda seen, want: seen.cmd("running-tiny", "0" * 64), ["service.cutover"]),
        (lambda seen, want: seen.cmd("started-tiny", "older\n"), ["service.cutover"]),
        (
            lambda seen, want: seen.cmd("unit-tiny", "ActiveState=failed\nUnitFileState=enabled\n"),
            ["service.cutover"],
        ),
        (
            lambda seen, want: seen.cmd("unit-tiny", "ActiveState=active\nUnitFileState=disabled\n"),
            ["service.cutover"],
        ),
    ],
)
def test_one_thing_amiss_is_one_thing_to_do(
    decide: Decide,
    inside: Seen,
    desired: DesiredService,
    spoil: Callable[[Seen, DesiredService], Seen],
    expected: list[str],
) -> None:
    assert kinds(decide(spoil(inside, desired))) == expected


def test_a_model_that_is_not_there_is_put_on_the_machine(
    decide: Decide, inside: Seen, host: Seen, desired: DesiredService
) -> None:
    host.model(desired.models[0].directory, None)
    plan = decide(inside)
    assert kinds(plan) == ["stack.model"]
    assert plan.items[0].host == "@local"


@pytest.mark.parametrize("spoilt", ["", "1 model.safetensors\n"])
def test_a_model_file_that_is_gone_or_cut_off_is_put_again(
    decide: Decide, inside: Seen, host: Seen, desired: DesiredService, spoilt: str
) -> None:
    name = f"sizes-{desired.models[0].directory}"
    _, sizes = host.snapshot.command(name)
    kept = "".join(line for line in sizes.splitlines(keepends=True) if "safetensors" not in line)
    host.cmd(name, kept + spoilt)
    assert kinds(decide(inside)) == ["stack.model"]


def test_a_drop_in_made_by_hand_is_refused_and_named(
    decide: Decide, inside: Seen, desired: DesiredService
) -> None:
    plan = decide(inside.put("dir", f"{desired.unit_path}.d", "override.conf\n"))
    assert "override.conf" in plan.refusals[0].seen
    assert "systemctl revert kpro-tiny.service" in plan.refusals[0].next_step


def test_the_fence_of_a_migration_is_never_told_as_something_to_be_reverted(
    decide: Decide, inside: Seen, desired: DesiredService
) -> None:
    plan = decide(inside.put("dir", f"{desired.unit_path}.d", "kpro-migrated.conf\n"))
    assert plan.refusals == ()
    both = decide(inside.put("dir", f"{desired.unit_path}.d", "kpro-migrated.conf\noverride.conf\n"))
    assert any("by hand" in refusal.seen and "kpro-migrated" not in refusal.seen for refusal in both.refusals)


def test_other_contents_under_the_same_revision_are_refused(
    decide: Decide, inside: Seen, host: Seen, desired: DesiredService
) -> None:
    host.model(desired.models[0].directory, "{}\n")
    plan = decide(inside)
    assert plan.items == ()
    assert plan.refusals[0].where == "machine.guests[0].services[0].model"


def test_a_taken_uid_is_refused(decide: Decide, inside: Seen) -> None:
    plan = decide(
        inside.cmd("uid-kpro", "id: no such user\n", 1).cmd("uid-8100", "bob:x:8100:8100::/:/bin/sh\n")
    )
    assert "uid 8100 is bob" in plan.refusals[0].seen


def test_a_guest_without_python_is_refused_with_the_command(decide: Decide, inside: Seen) -> None:
    plan = decide(inside.tools("python3", there=False))
    assert plan.refusals[0].next_step.endswith("apt-get install python3")


LISTEN = "  sl  local_address rem_address   st\n   0: 0100007F:4A37 00000000:0000 0A\n"
"""0x4A37 is 18999."""


def test_a_port_that_something_else_listens_on_is_refused(decide: Decide, inside: Seen, host: Seen) -> None:
    stopped = "ActiveState=inactive\nUnitFileState=enabled\n"
    inside.cmd("unit-tiny", stopped).put("file", "/proc/net/tcp", LISTEN)
    assert decide(inside).refusals[0].where.endswith(".port")
    host.put("file", "/proc/net/tcp", LISTEN)
    assert decide(None).refusals[0].where.endswith(".port")


def test_the_port_that_the_service_itself_listens_on_is_fine(decide: Decide, inside: Seen) -> None:
    assert decide(inside.put("file", "/proc/net/tcp", LISTEN)) == Plan("box")


def test_an_unreadable_guest_is_refused(decide: Decide, inside: Seen) -> None:
    plan = decide(inside.put("sha", PYZ, None, "cannot be read"))
    assert "never taken for absent" in plan.refusals[0].why


def test_whatever_makes_the_service_another_one_changes_its_digest(machine: Machine, tmp_path: Path) -> None:
    guest = machine.guests[0]
    service = guest.services[0]
    key = tmp_path / "key"
    key.write_text("s3cret\n")
    key.chmod(0o600)
    variants = [
        service,
        service.model_copy(update={"flags": ("--tok-s", "5")}),
        service.model_copy(update={"port": 18998}),
        service.model_copy(update={"environment": {"A": "b"}}),
        service.model_copy(update={"api_key_file": key}),
    ]
    digests = {desired_service(guest, variant).digest for variant in variants}
    assert len(digests) == len(variants)


def test_a_key_is_nowhere_but_in_the_environment_file(machine: Machine, tmp_path: Path) -> None:
    guest = machine.guests[0]
    key = tmp_path / "key"
    key.write_text("s3cret-of-the-service\n")
    key.chmod(0o600)
    made = desired_service(guest, guest.services[0].model_copy(update={"api_key_file": key}))
    assert "s3cret" in made.environment
    assert "s3cret" not in made.unit
    assert "s3cret" not in repr(made)
    assert "s3cret" not in " ".join(made.gate)


def test_words_of_the_unit_survive_systemd(machine: Machine) -> None:
    guest = machine.guests[0]
    service = guest.services[0].model_copy(update={"flags": ("--x", '{"a": "100 %", "b": "$HOME"}')})
    assert r'"{\"a\": \"100 %%\", \"b\": \"$$HOME\"}"' in desired_service(guest, service).unit


def test_the_digest_stands_in_the_unit(desired: DesiredService) -> None:
    assert f"Environment=KPRO_DIGEST={desired.digest}" in desired.unit
    assert sha256(desired.unit) != desired.digest


def test_a_guest_with_gpus_and_no_service_gets_the_gate_alone(
    machine: Machine, host: Seen, inside: Seen, shipped: tuple[Shipped, Shipped]
) -> None:
    def plan(seen: Seen | None, gpus: tuple[str, ...] = ("42:00.0",)) -> Plan:
        bare = machine.guests[0].model_copy(update={"services": (), "gpus": gpus})
        its = machine.model_copy(update={"guests": (bare,)})
        return stack_plan(its, bare, [], host.snapshot, seen.snapshot if seen else None, shipped[0], None)

    assert kinds(plan(None)) == ["stack.provcheck"]
    assert kinds(plan(None, gpus=())) == []
    assert kinds(plan(inside)) == []
    assert kinds(plan(inside.put("sha", PYZ, "c" * 64))) == ["stack.provcheck"]
    assert "has no python3" in plan(inside.tools("python3", there=False)).refusals[0].seen


def test_a_service_is_never_planned_without_the_program_that_builds_its_environment(
    machine: Machine, desired: DesiredService, host: Seen, shipped: tuple[Shipped, Shipped]
) -> None:
    with pytest.raises(ValueError, match="uv was not brought along"):
        stack_plan(machine, machine.guests[0], [desired], host.snapshot, None, shipped[0], None)


def test_a_machine_without_a_service_is_planned_where_uv_is_not_installed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uv", None)
    wanted._uv.cache_clear()
    bare = machine.model_copy(update={"guests": (machine.guests[0].model_copy(update={"services": ()}),)})
    assert wanted.wanted_for(bare).uv is None
    with pytest.raises(ImportError):
        wanted.wanted_for(machine)
