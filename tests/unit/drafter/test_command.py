"""The command as a user meets it: exit codes, one clear line for bad input, files written whole or not at
all."""

from __future__ import annotations

import json
import os
import resource
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from checks.cli import main
from tests.unit.drafter.makers import Pair, family_pair, incident_pair, toy_pair, write_weights


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any], str]:
    code = main(["drafter", *arguments, "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out) if out else {}, err


def paths(pair: Pair, root: Path, engine: str = "vllm==0.20.1") -> list[str]:
    drafter, target = pair.write(root)
    return [str(drafter), "--target", str(target), "--engine", engine]


def status(report: dict[str, Any], check: str) -> str:
    return next(str(finding["status"]) for finding in report["findings"] if finding["id"] == check)


def test_a_right_drafter_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, report, _ = run(capsys, *paths(toy_pair(), tmp_path), "-k", "7")
    assert (code, report["verdict"], report["schema"]) == (0, "pass", "provcheck/1")


def test_the_guess_of_the_incident_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, report, _ = run(capsys, *paths(incident_pair(), tmp_path))
    assert (code, report["verdict"]) == (1, "fail")
    assert report["facts"]["k"] == 15


def test_a_warning_is_green_unless_strict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = paths(toy_pair(), tmp_path)
    assert run(capsys, *arguments, "-k", "3")[0] == 0
    assert run(capsys, *arguments, "-k", "3", "--strict")[0] == 1


def test_what_could_not_be_looked_at_is_never_green(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = paths(toy_pair(), tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "target" / name).unlink()
    code, report, _ = run(capsys, *arguments)
    assert (code, status(report, "drafter.mask")) == (3, "unknown")


@pytest.mark.parametrize("engine", ["vllm", "vllm==", "tgi==1.0", "", "vllm==x", "vllm==0.20.1; rm"])
def test_an_engine_that_is_none_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    code, report, err = run(capsys, *paths(toy_pair(), tmp_path, engine))
    assert (code, report) == (2, {})
    assert err.startswith("provcheck: ")


@pytest.mark.parametrize("arguments", [[], ["x"], ["x", "--target", "y"], ["x", "--force"]])
def test_an_incomplete_call_is_bad_input(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert run(capsys, *arguments)[0] == 2


NESTED = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
CONFIGS: dict[str, bytes] = {
    "a megabyte of nesting": b"[" * 2**20,
    "half a megabyte of objects": NESTED,
    "thirty levels": b'{"a":' * 30 + b"1" + b"}" * 30,
    "NaN": b'{"rope_theta": NaN}',
    "infinity by exponent": b'{"rope_theta": 1e999}',
    "a number of ten thousand digits": b'{"vocab_size": ' + b"9" * 10_000 + b"}",
    "a key twice": b'{"vocab_size": 1, "vocab_size": 2}',
    "a list": b"[1]",
    "nothing": b"",
    "no text": b"\xff\xfe\x00",
    "five megabytes": b'{"a": "' + b"x" * (5 * 2**20) + b'"}',
}


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("place", ["drafter", "target"])
def test_a_hostile_config_is_one_line_and_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, place: str
) -> None:
    arguments = paths(toy_pair(), tmp_path)
    folder = Path(arguments[0]) if place == "drafter" else tmp_path / "target"
    (folder / "config.json").write_bytes(CONFIGS[kind])
    code, report, err = run(capsys, *arguments)
    assert (code, report) == (2, {})
    assert err.count("\n") == 1
    assert "config.json" in err
    assert len(err) < 600


@pytest.mark.parametrize(
    "content",
    [struct.pack("<Q", 10**9) + b"{}", struct.pack("<Q", 2) + b"{}x", b"abc"],
    ids=["1 GB of header", "data of nobody", "cut off"],
)
def test_hostile_weights_are_one_line_and_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    arguments = paths(toy_pair(), tmp_path)
    (Path(arguments[0]) / "model.safetensors").write_bytes(content)
    code, _, err = run(capsys, *arguments)
    assert (code, err.count("\n")) == (2, 1)


def test_weights_cut_off_in_the_middle_are_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = paths(toy_pair(), tmp_path)
    weights = Path(arguments[0]) / "model.safetensors"
    os.truncate(weights, weights.stat().st_size // 2)
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert "cut off" in err


def test_an_index_that_points_outside_its_folder_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = paths(toy_pair(), tmp_path)
    index = Path(arguments[0]) / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "../../etc/passwd"}}))
    assert run(capsys, *arguments)[0] == 2
    index.write_text(json.dumps({"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}))
    code, report, _ = run(capsys, *arguments)
    assert (code, status(report, "drafter.tensors")) == (1, "fail")


def test_a_target_without_config_or_a_drafter_that_is_not_there_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = paths(toy_pair(), tmp_path)
    assert run(capsys, str(tmp_path / "nowhere"), *arguments[1:])[0] == 2
    (tmp_path / "target" / "config.json").unlink()
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert "has no config.json" in err


def bare(root: Path) -> list[str]:
    """One file without a config, as the incident began."""
    pair = incident_pair()
    pair.config = None
    return paths(pair, root)


def test_a_bare_file_gets_a_config_that_the_command_itself_accepts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = bare(tmp_path)
    assert status(run(capsys, *arguments)[1], "drafter.config") == "fail"
    code, report, _ = run(capsys, *arguments, "--write")
    assert (code, status(report, "drafter.write")) == (0, "pass")
    written = json.loads((Path(arguments[0]) / "config.json").read_text())
    assert written["eagle_aux_hidden_state_layer_ids"] == [2, 17, 32, 47, 62]
    assert written["dflash_config"] == {"mask_token_id": 248070, "target_layer_ids": [1, 16, 31, 46, 61]}
    origins = json.loads((Path(arguments[0]) / "config.origins.json").read_text())
    assert set(origins.values()) == {"weights", "target", "family"}
    code, report, _ = run(capsys, *arguments)
    assert (code, report["verdict"]) == (0, "warn")
    assert status(report, "drafter.ids_convention") == "pass"


def test_a_config_that_is_there_stays_and_with_force_its_original_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = paths(incident_pair(), tmp_path)
    config = Path(arguments[0]) / "config.json"
    before = config.read_bytes()
    code, report, _ = run(capsys, *arguments, "--write")
    assert (code, status(report, "drafter.write"), config.read_bytes()) == (1, "fail", before)
    code, report, _ = run(capsys, *arguments, "--write", "--force")
    assert (code, status(report, "drafter.write")) == (0, "pass")
    assert (Path(arguments[0]) / "config.json.orig").read_bytes() == before
    second = config.read_bytes()
    run(capsys, *arguments, "--write", "--force")
    assert (Path(arguments[0]) / "config.json.orig").read_bytes() == before
    assert (Path(arguments[0]) / "config.json.orig.1").read_bytes() == second


def test_no_mask_known_writes_nothing_and_leaves_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = toy_pair()
    pair.config = None
    arguments = paths(pair, tmp_path)
    code, report, _ = run(capsys, *arguments, "--write")
    assert (code, status(report, "drafter.write")) == (1, "fail")
    assert sorted(path.name for path in Path(arguments[0]).iterdir()) == ["model.safetensors"]


def test_a_folder_that_cannot_be_written_is_bad_input_and_unchanged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = bare(tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    code, _, err = run(capsys, *arguments, "--write")
    assert (code, "No space left" in err) == (2, True)
    assert sorted(path.name for path in Path(arguments[0]).iterdir()) == ["model.safetensors"]


def test_an_interrupt_while_writing_leaves_no_half_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = bare(tmp_path)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    assert run(capsys, *arguments, "--write")[0] == 130
    assert sorted(path.name for path in Path(arguments[0]).iterdir()) == ["model.safetensors"]


def test_one_bare_file_may_be_named_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = paths(toy_pair(), tmp_path)
    (Path(arguments[0]) / "other.safetensors").write_bytes(b"not looked at")
    code, report, _ = run(capsys, str(Path(arguments[0]) / "model.safetensors"), *arguments[1:])
    assert (code, report["verdict"]) == (0, "pass")


def test_the_list_of_what_is_knowable_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drafter", "--knowable"]) == 0
    out = capsys.readouterr().out
    assert "dflash_config.mask_token_id" in out
    assert "weights that were never trained" in out


def test_prediction_layers_of_the_target_itself_are_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {
        "model_type": "qwen3_5_text",
        "num_hidden_layers": 2,
        "mtp_num_hidden_layers": 1,
        "vocab_size": 9,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    write_weights(
        tmp_path / "model.safetensors", {"model.layers.0.w": (2,), "mtp.layers.0.fc.weight": (2, 2)}
    )
    arguments = [str(tmp_path), "--target", str(tmp_path), "--engine", "sglang==0.5.11"]
    code, report, _ = run(capsys, *arguments)
    assert (code, status(report, "drafter.mtp")) == (0, "pass")
    write_weights(tmp_path / "model.safetensors", {"model.layers.0.w": (2,)})
    code, report, _ = run(capsys, *arguments)
    assert (code, status(report, "drafter.mtp")) == (1, "fail")


def test_the_answer_costs_under_half_a_second(tmp_path: Path, repo_root: Path) -> None:
    """Processor time, which a busy machine does not stretch; on an idle one it is the time that a user
    waits."""
    command = [sys.executable, "-m", "checks", "drafter", *paths(family_pair_with_big_tokenizer(), tmp_path)]
    spent = min(_seconds([*command, *form], repo_root) for form in ([], ["--json"], []))
    assert spent < 0.5, f"{spent:.2f} s"


def family_pair_with_big_tokenizer() -> Pair:
    from checks.data.drafter_families import FAMILIES

    pair = family_pair(FAMILIES[0])
    pair.vocab = {f"token{number}": number for number in range(150_000)}
    return pair


def _seconds(command: list[str], where: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=where, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stdout + done.stderr
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
