"""What speaks against a pair of inventories, before any machine is asked. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from provision.migrate.case import Case, Rule
from provision.migrate.ends import one_address
from provision.plan import Refusal
from provision.spec import Migration
from provision.spec_migration import disagreement


def _same_machine(case: Case) -> Iterator[Refusal]:
    source, target = case.pair.ends
    if source.name == target.name:
        yield Refusal(
            f"{target.inventory}: machine.name",
            f"both inventories describe {source.name}",
            "a service moves from one machine to another one",
            "name two inventories",
        )
        return
    at = one_address(source, target)
    if at is not None:
        yield Refusal(
            f"{target.inventory}: machine.ssh",
            f"{source.name} and {target.name} are both reached at {at}",
            "it would be copied onto itself",
            "correct the address of one of them",
        )
        return
    if case.source is None:
        return
    one, two = case.source.machine, case.target.machine
    if isinstance(one.boot, str) and (one.boot, one.namespace) == (two.boot, two.namespace):
        yield Refusal(
            f"{target.inventory}: machine.ssh",
            f"{source.name} and {target.name} are one machine: both have boot {one.boot}",
            "it would be copied onto itself",
            "correct the address of one of them",
        )


def _service(case: Case) -> Iterator[Refusal]:
    source, target = case.pair.ends
    if source.service.name != target.service.name:
        yield Refusal(
            f"{target.where}.name",
            f"the source's service is called {source.service.name!r}, the target's {target.service.name!r}",
            "clients ask for it by that name, and every record of it has it",
            "give both the same name",
        )


def _model(case: Case) -> Iterator[Refusal]:
    source, target = (end.service.model for end in case.pair.ends)
    if source.repo != target.repo and not source.repo.startswith("local/"):
        yield Refusal(
            f"{case.pair.target.where}.model.repo",
            f"{target.repo}, and {source.repo} in {case.pair.source.inventory}",
            "another model is another service",
            "write the same model into both inventories",
        )
    if source.revision != target.revision:
        yield Refusal(
            f"{case.pair.target.where}.model.revision",
            f"{target.revision}, and {source.revision} in {case.pair.source.inventory}",
            "other weights give other answers, and only what the source serves can be copied",
            "pin the revision that the source serves in both inventories",
        )


def _key(case: Case) -> Iterator[Refusal]:
    source, target = case.pair.ends
    where = f"{target.where}.api_key_file"
    if source.has_key and not target.has_key:
        yield Refusal(
            where,
            "is missing, and the source asks its clients for a key",
            "whoever reaches the target could use it",
            "name the file with the key",
        )
    elif target.has_key and not source.has_key:
        yield Refusal(
            where,
            "is given, and the source asks for no key",
            "every client would be turned away after the switch",
            "give the clients the key first and the source one too, or leave it out",
        )
    elif target.has_key and case.pair.same_key is False:
        yield Refusal(
            where,
            "holds another key than the source's",
            "every client would be turned away after the switch",
            "use the same key on both, and change it after the move",
        )


def _settings(case: Case) -> Iterator[Refusal]:
    source, target = case.pair.ends
    for where, said in disagreement(target.service.migration or Migration(), source.service.migration):
        yield Refusal(
            f"{target.where}.{'.'.join(map(str, where))}",
            said,
            "what the source's inventory asks for would silently not be done",
            "write it into the target's inventory, whose word holds, or take it out of the source's",
        )


def _also(case: Case) -> Iterator[Refusal]:
    yield from case.pair.also


RULES = (
    Rule(
        "same machine",
        "both inventories mean one machine",
        _same_machine,
        "pct migrate: a node is no target of itself",
    ),
    Rule("service name", "the two services have two names", _service),
    Rule("model", "the inventories name another model or revision", _model),
    Rule("key", "only one side asks for an API key, or both for different ones", _key),
    Rule("settings", "the source's inventory says otherwise how the service moves", _settings),
    Rule("traffic", "what leads the clients is not set up for two servers", _also),
)
