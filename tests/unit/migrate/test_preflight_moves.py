"""What moves and what does not, what is other there, how long it takes, and how all of it is shown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from provision.data.migrating import GIB, MIB
from provision.migrate.case import Case
from provision.migrate.decide import judge
from provision.migrate.ends import Asked, Reach
from provision.migrate.expected import expected
from provision.migrate.moves import Moves, moves
from provision.migrate.notes import notes
from provision.migrate.seen import Rsync, Sshd
from provision.migrate.shown import Shown
from provision.migrate.translate import settings
from provision.spec import Candidate, Engine, Gpu, Model, Mount
from provision.spec_migration import HAProxy, Hooks
from provision.stack.forecast import Figures
from tests.unit.migrate import preflight_pair as pairs
from tests.unit.migrate.preflight_pair import Given, green

SIZE = sum(pairs.FILES.values())


def case(given: Given) -> Case:
    return Case(given.pair, given.source, given.target, given.plan)


def found(given: Given) -> Moves:
    return moves(case(given))


def by_kind(given: Given) -> dict[str, tuple[str, int | None]]:
    return {one.kind: (one.how, one.size) for one in found(given).moves}


def test_every_kind_of_thing_is_in_the_list_with_its_way() -> None:
    assert by_kind(green()) == {
        "model": ("copied", SIZE),
        "engine environment": ("built anew", None),
        "unit": ("written anew", None),
        "variables": ("written anew", None),
        "baseline": ("compared with", None),
        "container": ("translated", None),
        "extra path": ("copied", 4096),
    }
    assert found(green()).size == SIZE + 4096
    assert found(green()).count == 4


def test_the_key_travels_by_standard_input_and_what_it_is_stands_nowhere(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-secret\n")
    given = green()
    for role in ("source", "target"):
        given = pairs.written(given, role, pairs.with_service(api_key_file=tmp_path / "key"))
    assert by_kind(given)["secret"] == ("by standard input", None)
    assert "sk-secret" not in json.dumps(shown(given).as_dict()) + "\n".join(shown(given).lines())
    assert "secret" not in by_kind(green())


def test_files_that_lie_there_already_are_not_counted() -> None:
    given = green()
    assert given.source is not None
    assert given.source.guest is not None
    there = pairs.on_target(given, incoming=dict(given.source.guest.folders))
    assert by_kind(there)["model"] == ("is there", SIZE)
    assert found(there).size == 4096
    assert any("verified, not copied" in one for one in notes(case(there)))


def test_a_drafter_is_copied_where_the_source_has_the_same_and_else_put_there() -> None:
    drafter = Model(repo="z-lab/D", revision=pairs.OTHER, source="hub")
    only_there = pairs.written(green(), "target", pairs.with_service(drafter=drafter))
    (one,) = [move for move in found(only_there).moves if move.kind == "drafter"]
    assert (one.how, one.source) == ("put by the target", "")
    assert "from the hub" in one.note
    both = pairs.written(only_there, "source", pairs.with_service(drafter=drafter))
    (one,) = [move for move in found(both).moves if move.kind == "drafter"]
    assert (one.how, one.source) == ("copied", drafter.directory)


def test_of_a_dead_source_models_come_from_elsewhere_and_extra_paths_stay() -> None:
    cold = replace(green(), source=None, pair=replace(green().pair, cold=True))
    assert by_kind(cold)["model"] == ("put by the target", None)
    assert by_kind(cold)["baseline"] == ("written anew", None)
    assert "extra path" not in by_kind(cold)
    assert any(one.what.startswith("extra paths: /opt/templates") for one in found(cold).stays)
    assert found(cold).size == 0


def test_what_does_not_move_is_named_with_its_reason() -> None:
    said = {one.what: one.why for one in found(green()).stays}
    assert all(said.values())
    words = " ".join(said)
    for what in (
        "logs",
        "compile caches",
        "measurements",
        "packages, users, cron",
        "driver",
        "firewall",
        "token",
    ):
        assert what in words
    assert "candidate" not in words
    tried = Candidate(engine=Engine(kind="vllm", version="0.20.1"), profile="plain")
    assert any(
        "candidate" in one.what
        for one in found(pairs.written(green(), "source", pairs.with_service(candidate=tried))).stays
    )


def test_other_services_of_the_source_stay() -> None:
    assert not any("other services" in one.what for one in found(green()).stays)
    two = pairs.service(name="second", port=8100, migration=None)
    given = green()
    machine = given.pair.source.machine
    guest = machine.guests[0].model_copy(update={"services": (given.pair.source.service, two)})
    more = replace(
        given,
        pair=replace(given.pair, source=pairs.end("source", machine.model_copy(update={"guests": (guest,)}))),
    )
    assert any("second (in llm)" in one.what for one in found(more).stays)


def test_a_container_is_translated_to_the_target_s_gpus_and_folders() -> None:
    def change(given: pairs.Machine) -> pairs.Machine:
        guest = given.guests[0].model_copy(
            update={
                "gpus": ("61:00.0",),
                "mounts": (Mount(source="/data/m", target="/srv/models"),),
                "id": "llm5",
            }
        )
        return given.model_copy(update={"gpus": (Gpu(bdf="61:00.0", model="RTX A6000"),), "guests": (guest,)})

    rows = {one.what: one for one in settings(pairs.written(green(), "target", change).pair)}
    assert (rows["GPUs"].source, rows["GPUs"].target) == (
        "0000:42:00.0 (RTX A6000)",
        "0000:61:00.0 (RTX A6000)",
    ) or (rows["GPUs"].source.startswith("42:00.0") and rows["GPUs"].target.startswith("61:00.0"))
    assert rows["folders"].target == "/data/m at /srv/models"
    assert rows["container"].target == "lxc llm5"
    assert {what for what, one in rows.items() if not one.same} == {"GPUs", "folders", "container"}
    assert all(one.why for one in rows.values() if not one.same and one.what != "/dev/shm")
    assert all(one.same for one in settings(green().pair))


def test_what_is_other_on_the_target_is_told_and_nothing_where_nothing_is() -> None:
    assert notes(case(green())) == []


@pytest.mark.parametrize(
    ("more", "word"),
    [
        (
            {"engine": Engine(kind="vllm", version="0.33.0")},
            "engine: vllm 0.20.1 on kpro6, vllm 0.33.0 on kpro5",
        ),
        ({"profile": "vllm-ngram"}, "profile: plain on kpro6, vllm-ngram on kpro5"),
        ({"environment": {"NCCL_P2P_DISABLE": "1"}}, "variables only on kpro5: NCCL_P2P_DISABLE"),
        ({"flags": ("--quantization", "fp8")}, "quantisation: none asked for on kpro6, fp8 on kpro5"),
    ],
)
def test_a_profile_that_differs_is_told(more: dict[str, object], word: str) -> None:
    given = pairs.written(green(), "target", pairs.with_service(**more))
    assert any(word in one for one in notes(case(given)))


def test_values_of_variables_are_never_told() -> None:
    given = pairs.written(green(), "source", pairs.with_service(environment={"HF_TOKEN": "hf_secret1"}))
    given = pairs.written(given, "target", pairs.with_service(environment={"HF_TOKEN": "hf_secret2"}))
    said = notes(case(given))
    assert said == ["variable HF_TOKEN has another value on kpro5"]
    assert "hf_secret" not in json.dumps(shown(given).as_dict())


def test_two_keys_of_which_one_is_not_known_are_told(tmp_path: Path) -> None:
    given = green()
    for role in ("source", "target"):
        given = pairs.written(given, role, pairs.with_service(api_key_file=tmp_path / "key"))
    assert notes(case(given)) == []
    unknown = replace(given, pair=replace(given.pair, same_key=None))
    assert any("is not known: clients have to have both" in one for one in notes(case(unknown)))


def test_context_and_ranks_are_read_from_the_commands() -> None:
    here = ("/e/bin/vllm", "serve", "/m", "--max-model-len", "32k", "-tp", "2")
    there = ("/e/bin/vllm", "serve", "/m", "--max-model-len", "16k")
    given = replace(green(), pair=replace(green().pair, commands={"source": here, "target": there}))
    said = notes(case(given))
    assert "context length: 32000 on kpro6, 16000 on kpro5" in said
    assert "tensor parallel size: 2 on kpro6, 1 on kpro5" in said


def test_other_gpus_and_another_driver_are_told() -> None:
    given = pairs.written(
        green(), "target", lambda one: one.model_copy(update={"gpus": (Gpu(bdf="42:00.0", model="H200"),)})
    )
    said = notes(case(pairs.on_target(given, driver=("570.86.15", "open"))))
    assert any("RTX A6000 on kpro6, H200 on kpro5" in one for one in said)
    assert any("driver: 580.159.04 open on kpro6, 570.86.15 open on kpro5" in one for one in said)


def test_what_is_weak_about_the_way_is_told() -> None:
    given = pairs.on_target(green(), rsync=Rsync("3.2.7", "3.2.7-1+deb12u6"), ntp=False)
    given = pairs.on_source(given, sshd=Sshd((22,), "yes", True, (), ("SHA256:9",)))
    weak = replace(given.pair, reach=Reach("controller", "refused"), asked=(Asked("fit", "unknown"),))
    given = replace(given, pair=weak)
    assert judge(given.source, given.target, given.pair, given.plan) == []
    said = " | ".join(notes(case(given)))
    for word in ("rsync#715", "CVE-2026-53783", "no NTP sets the clock of kpro5", "through the controller"):
        assert word in said
    assert said.count("rsync#715") == 1
    sends = notes(case(pairs.on_source(green(), rsync=Rsync("3.2.7", "3.2.7-1+deb12u6"))))
    assert sends == []
    assert "cloned" not in said
    twins = pairs.on_source(given, sshd=given.target.machine.sshd)
    assert any("cloned" in one for one in notes(case(twins)))
    assert "provcheck fit for kpro5: unknown" in said


def forecast(
    given: Given, figures: Figures | None = None, **more: object
) -> tuple[float | None, float | None, str]:
    one = expected(given.pair, found(given), figures or Figures(), **more)  # type: ignore[arg-type]
    return one.copy_seconds, one.down_seconds, f"{one.copy} / {one.down}"


def test_the_time_of_a_copy_comes_from_what_was_measured_or_is_said_to_be_unknown() -> None:
    seconds, _, text = forecast(green())
    assert seconds is None
    assert "not known, the way was not measured" in text
    seconds, _, text = forecast(green(), rate=100 * MIB)
    assert seconds == pytest.approx((SIZE + 4096) / (100 * MIB) * 1.25)
    assert "100 MiB/s, as the way was measured" in text
    seconds, _, text = forecast(green(), rate=100 * MIB, bwlimit=10.0)
    assert seconds == pytest.approx((SIZE + 4096) / (10 * MIB) * 1.25)
    assert "the bandwidth limit" in text
    seconds, _, text = forecast(green(), bwlimit=10.0)
    assert seconds is None
    assert "at least" in text


def test_the_downtime_counts_a_start_only_where_one_is_needed() -> None:
    _, down, text = forecast(green())
    assert down is None
    assert "no start of this service was measured" in text
    _, down, text = forecast(green(), Figures(45.0, "from the start it needed last time"))
    assert down == 30 + 45
    assert "about 45 s (from the start it needed last time)" in text
    bare = pairs.written(green(), "target", pairs.with_service(migration=None))
    _, down, text = forecast(bare)
    assert down == 30
    assert "/ the service does not answer while requests that are under way have 30 s to end" in text
    cold = replace(green(), source=None, pair=replace(green().pair, cold=True))
    assert forecast(cold)[1] is None


def test_what_new_requests_get_between_drain_and_switch_is_what_the_page_on_traffic_says() -> None:
    bare = pairs.written(green(), "target", pairs.with_service(migration=None))
    proxy = HAProxy(socket="/run/h.sock", backend="llm", source="one", target="two")
    _, down, text = forecast(bare, leads=proxy)
    assert down == 30
    assert "/ HAProxy answers 503 from the drain to the switch, while requests" in text
    hooks = Hooks(**dict.fromkeys(("drain", "switch", "back", "check"), ("/bin/true",)))
    _, _, text = forecast(bare, leads=hooks)
    assert "/ no new request is answered by the service, from your drain to your switch, while" in text
    page = Path(__file__).parents[3] / "docs/migration-traffic.md"
    assert "Between drain and switch HAProxy answers 503" in page.read_text()


def shown(given: Given) -> Shown:
    refusals = judge(given.source, given.target, given.pair, given.plan)
    return Shown(
        given.pair,
        given.source,
        given.target,
        given.plan,
        tuple(refusals),
        tuple(notes(case(given))),
        found(given),
        expected(given.pair, found(given), Figures()),
        (("lock", "both machines"), ("copy", "while the source serves")),
    )


def test_a_plan_shows_what_moves_what_stays_the_steps_and_the_times() -> None:
    text = "\n".join(shown(green()).lines())
    for word in (
        "chat: from kpro6 to kpro5",
        "3.0 GiB, 3 files",
        "compile caches",
        "1  lock  both machines",
        "downtime",
    ):
        assert word in text
    assert "REFUSED" not in text
    assert f"{SIZE / GIB:.1f}" in text


def test_the_journal_has_the_plan_as_a_report_reads_it() -> None:
    event = json.loads(json.dumps(shown(green()).event()))
    assert (event["machine"], event["side"]) == ("kpro5", "target")
    (model,) = [one for one in event["moves"] if one["what"].startswith("model:")]
    assert (model["what"], model["how"]) == ("model: Qwen/Qwen3-8B@000000000000", "copied")
    assert all(one["what"] and one["why"] for one in event["stays"])
    refused = shown(pairs.on_target(green(), rsync=None)).event()
    assert [one["where"] for one in refused["refusals"]] == ["machine kpro5"]


def test_a_refused_plan_shows_every_reason_and_nothing_that_will_not_be_done() -> None:
    spoilt = pairs.on_target(pairs.on_source(green(), rsync=None), rsync=None)
    text = "\n".join(shown(spoilt).lines())
    assert "REFUSED for 2 reason(s); nothing is touched" in text
    assert "what moves" not in text
    assert text.count("        next  ") == 2


def test_the_json_of_a_plan_is_json_and_has_every_part() -> None:
    data = json.loads(json.dumps(shown(green()).as_dict()))
    assert {
        "moves",
        "stays",
        "container",
        "bytes",
        "files",
        "refusals",
        "notes",
        "steps",
        "items",
        "expected",
        "looks",
    } <= set(data)
    assert data["bytes"] == SIZE + 4096
    assert data["looks"]["source"]["guest"]["unit"]["name"] == "kpro-chat.service"
    cold = replace(green(), source=None, pair=replace(green().pair, cold=True))
    assert json.loads(json.dumps(shown(cold).as_dict()))["looks"]["source"] is None
