"""What only the machine says goes into the unit before it is staged: configs that lie there, what was measured."""

from __future__ import annotations

import json

import pytest

from provision.acts import stack as stack_acts
from provision.plan import Refusal
from provision.planner import guest_requests, requests, settle
from provision.run.errors import ActFailed
from provision.spec import Candidate, Driver, Engine, Gpu, Guest, Machine, Model, Mount, Service
from provision.stack.chosen import chosen
from provision.stack.desired import DesiredService, desired_service
from tests.unit.plan.seen import Seen
from tests.unit.profiles.test_nccl_variables import NOW, kept

DRAFTER = Model(repo="z-lab/drafter", revision="2" * 40)
SERVICE = Service(
    name="qwen",
    engine=Engine(kind="vllm", version="0.33.0"),
    model=Model(repo="Qwen/Qwen3.6-27B", revision="1" * 40),
    drafter=DRAFTER,
    profile="vllm-dflash",
)
CONFIG = f"{DRAFTER.directory}/config.json"
TARGET = f"{SERVICE.model.directory}/config.json"


def machine(service: Service = SERVICE, gpus: int = 2) -> Machine:
    bdfs = ["42:00.0", "61:00.0", "62:00.0"][:gpus]
    return Machine(
        name="box",
        gpus=[Gpu(bdf=bdf, model="RTX A6000") for bdf in bdfs],
        gpu_count=gpus,
        driver=Driver(version="580.159.04", flavour="open", route="prebuilt"),
        guests=[
            Guest(
                name="llm",
                backend="lxc",
                id="c1",
                gpus=bdfs,
                mounts=[Mount(source="/tank/models", target="/srv/models")],
                services=[service],
            )
        ],
    )


def look(host: Seen, inside: Seen | None, of: Machine | None = None) -> DesiredService:
    of = of or machine()
    guest = of.guests[0]
    wanted = [desired_service(guest, one, of) for one in guest.services]
    seen = inside.snapshot if inside is not None else None
    return settle(of, guest, wanted, host.snapshot, seen)[0]


def on_host(block: int = 8, heads: int = 32) -> Seen:
    config = {"block_size": block, "hidden_size": 512, "num_attention_heads": heads, "num_hidden_layers": 2}
    return Seen().put("file", f"/tank/{CONFIG.removeprefix('/srv/')}", json.dumps(config))


def test_a_drafter_that_lies_on_the_machine_says_its_block_size_there() -> None:
    before = desired_service(machine().guests[0], SERVICE, machine())
    after = look(on_host(8), None)
    assert before.launch.open
    assert after.launch.open == []
    assert r"\"num_speculative_tokens\": 7" in after.unit
    assert after.trial is not None
    assert r"\"num_speculative_tokens\": 7" in after.trial.unit
    assert after.digest not in (before.digest, look(on_host(16), None).digest)


def test_the_guest_is_asked_where_the_machine_does_not_have_it() -> None:
    inside = Seen().put("file", CONFIG, json.dumps({"block_size": 16}))
    assert r"\"num_speculative_tokens\": 15" in look(Seen(), inside).unit


def test_what_is_looked_for_is_asked_for() -> None:
    of = machine()
    guest = of.guests[0]
    wanted = [desired_service(guest, SERVICE, of)]
    assert f"file:/tank/{CONFIG.removeprefix('/srv/')}" in requests(of)
    assert f"file:/tank/{TARGET.removeprefix('/srv/')}" in requests(of)
    asked = guest_requests(of, guest, wanted)
    assert {f"file:{CONFIG}", f"file:{TARGET}", "file:/var/lib/kpro/measured/nccl.json"} <= set(asked)
    single = machine(gpus=1)
    alone = guest_requests(single, single.guests[0], wanted)
    assert f"file:{TARGET}" not in alone
    assert not [request for request in alone if "nccl" in request]


def test_an_unread_config_keeps_the_unit_from_being_staged() -> None:
    made = look(Seen().put("file", CONFIG, None, "cannot be read"), Seen())
    notes, _ = chosen(made, "x")
    assert any("not decided yet" in note for note in notes)
    with pytest.raises(ActFailed, match="is not there to be read yet"):
        stack_acts.stage(None, made, print)  # type: ignore[arg-type]


def test_heads_that_do_not_divide_are_a_refusal_of_the_plan() -> None:
    of = machine(gpus=3)
    found = look(on_host(8, heads=32), None, of)
    _, refusals = chosen(found, "machine.guests[0].services[0]")
    assert [type(refusal) for refusal in refusals] == [Refusal]
    assert refusals[0].where == "machine.guests[0].services[0].profile"
    assert "32 attention heads do not divide by 3" in refusals[0].seen


def test_a_candidate_is_settled_by_its_own_drafter() -> None:
    plain = SERVICE.model_copy(
        update={
            "drafter": None,
            "profile": "plain",
            "candidate": Candidate(engine=SERVICE.engine, profile="vllm-dflash", drafter=DRAFTER),
        }
    )
    of = machine(plain)
    wanted = [desired_service(of.guests[0], plain, of)]
    assert f"file:{CONFIG}" in guest_requests(of, of.guests[0], wanted)
    found = look(Seen(), Seen().put("file", CONFIG, json.dumps({"block_size": 8})), of)
    assert found.candidate is not None
    assert r"\"num_speculative_tokens\": 7" in found.candidate.unit
    assert "speculative" not in found.unit
    notes, _ = chosen(found, "x")
    assert any(note.startswith("candidate of qwen: 7 drafts") for note in notes)


def test_a_measurement_that_holds_goes_into_the_environment_and_another_does_not() -> None:
    inside = Seen().put("file", "/var/lib/kpro/measured/nccl.json", kept()).cmd("nccl-set", NOW)
    inside.put("file", CONFIG, json.dumps({"block_size": 8}))
    assert 'NCCL_P2P_DISABLE="1"' in look(Seen(), inside).environment
    stale = (
        Seen()
        .put("file", "/var/lib/kpro/measured/nccl.json", kept())
        .cmd("nccl-set", NOW.replace("580", "590"))
    )
    stale.put("file", CONFIG, json.dumps({"block_size": 8}))
    found = look(Seen(), stale)
    assert "NCCL_P2P_DISABLE" not in found.environment
    assert any("nothing of it is used" in note for note in chosen(found, "x")[0])


def test_what_the_machine_sets_for_everybody_reaches_the_unit() -> None:
    host = on_host().cmd("multicast", "NCCL_NVLS_ENABLE=0\n")
    assert 'NCCL_NVLS_ENABLE="0"' in look(host, None).environment
    assert "NVLS" not in look(on_host(), None).environment
