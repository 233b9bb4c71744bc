"""What an engine's files on the controller must satisfy, told by field before anything is begun."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from provision.inventory.engine_rules import of_engine
from provision.spec import Engine, Patch
from provision.stack.engine.desired import desired_engine
from tests.doubles.wheels import ENGINE, engine_wheels, patch, wheel

STANDIN = {"kind": "standin", "version": "1.0.0"}


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    return engine_wheels(tmp_path / "wheels")


def patched(folder: Path, *texts: str, **more: Any) -> tuple[Patch, ...]:
    made = []
    for number, text in enumerate(texts):
        (folder / f"{number}.patch").write_text(text)
        made.append(Patch(file=folder / f"{number}.patch", why="a reason", **more))
    return tuple(made)


def wrong(engine: Engine, glibc: tuple[int, int] | None = (2, 36)) -> list[str]:
    return [f"{'.'.join(map(str, where))}: {text}" for where, text in of_engine(engine, glibc)]


def offline(wheels: Path, **more: Any) -> Engine:
    return Engine(**STANDIN, source="wheel", wheelhouse=wheels, **more)


def test_whole_wheels_and_a_patch_that_applies_are_taken(wheels: Path, tmp_path: Path) -> None:
    assert wrong(offline(wheels, patches=patched(tmp_path, patch()))) == []


def test_patches_are_applied_one_after_the_other(wheels: Path, tmp_path: Path) -> None:
    second = patch("second = 2", "second = 4").replace("-    second = 2", "-    second = 3")
    assert wrong(offline(wheels, patches=patched(tmp_path, patch(), second))) == []
    (reason,) = wrong(offline(wheels, patches=patched(tmp_path, second, patch())))
    assert "0.patch does not apply" in reason


def test_every_patch_that_does_not_apply_is_told(wheels: Path, tmp_path: Path) -> None:
    bad = patch().replace("first = 1", "first = one")
    said = wrong(offline(wheels, patches=patched(tmp_path, bad, bad)))
    assert ["0.patch" in said[0], "1.patch" in said[1]] == [True, True]


def test_files_that_are_not_installed_have_to_be_left_out_by_name(wheels: Path, tmp_path: Path) -> None:
    both = patch() + patch(path="tests/test_core.py")
    (reason,) = wrong(offline(wheels, patches=patched(tmp_path, both)))
    assert "tests/test_core.py: is not there" in reason
    assert "without=['tests/']" in reason
    assert wrong(offline(wheels, patches=patched(tmp_path, both, without=("tests/",)))) == []
    (reason,) = wrong(offline(wheels, patches=patched(tmp_path, patch(), without=("docs/",))))
    assert "changes nothing below docs/" in reason


def test_a_patch_of_a_compiled_file_is_refused(tmp_path: Path) -> None:
    wheel(tmp_path / "wheels", "kpro_standin", "1.0.0", {"kpro_standin/core.py": ENGINE})
    made = next((tmp_path / "wheels").iterdir())
    with zipfile.ZipFile(made, "a") as archive:
        archive.writestr("kpro_standin/_C.so", b"\x7fELF\xff\xfe")
    text = patch(path="kpro_standin/_C.so")
    (reason,) = wrong(offline(tmp_path / "wheels", patches=patched(tmp_path, text)))
    assert "_C.so is no text" in reason


def test_a_patch_that_cannot_be_read_is_told_by_its_number(wheels: Path, tmp_path: Path) -> None:
    gone = Patch(file=tmp_path / "gone.patch", why="x")
    said = wrong(offline(wheels, patches=(*patched(tmp_path, patch(), "words\n"), gone)))
    assert said[0].startswith("patches.1: 1.patch holds no change")
    assert said[1].startswith("patches.2: ")
    assert "gone.patch cannot be read: No such file" in said[1]


def test_a_wheelhouse_without_the_engine_is_told_how_to_fill_it(tmp_path: Path) -> None:
    wheel(tmp_path / "wheels", "kpro_dep", "1.0", {"kpro_dep.py": ""})
    assert "no wheel of kpro-standin==1.0.0" in wrong(offline(tmp_path / "wheels"))[0]


@pytest.mark.parametrize(
    ("tag", "why"),
    [
        ("cp313-cp313-manylinux_2_28_x86_64", "is for cp313-cp313, not for Python 3.11"),
        ("cp38-abi3-manylinux_2_41_x86_64", "needs glibc 2.41, and the guest has 2.36"),
        ("cp311-cp311-macosx_11_0_arm64", "not for Linux with glibc"),
        ("cp312-abi3-manylinux2014_x86_64", "not for Python 3.11"),
    ],
)
def test_a_wheel_for_another_place_is_refused(tmp_path: Path, tag: str, why: str) -> None:
    wheel(tmp_path / "wheels", "kpro_standin", "1.0.0", {"kpro_standin/core.py": ENGINE}, tag=tag)
    (reason,) = wrong(offline(tmp_path / "wheels"))
    assert why in reason


@pytest.mark.parametrize("tag", ["cp38-abi3-manylinux_2_28_x86_64", "cp311-cp311-manylinux1_x86_64"])
def test_a_wheel_for_this_place_is_taken(tmp_path: Path, tag: str) -> None:
    wheel(tmp_path / "wheels", "kpro_standin", "1.0.0", {"kpro_standin/core.py": ENGINE}, tag=tag)
    assert wrong(offline(tmp_path / "wheels")) == []


def test_a_lock_is_read_before_anything_is_begun(wheels: Path, tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("kpro-standin==1.0.0\n")
    assert wrong(offline(wheels, lock=tmp_path / "lock")) == [
        "lock: lock: kpro-standin without --hash=sha256:"
    ]
    (wheels / "engine.lock").write_text("kpro-standin==1.0.0\nkpro-missing==1\n")
    (reason,) = wrong(offline(wheels))
    assert reason.startswith("wheelhouse: engine.lock: kpro-missing without --hash")


def test_a_patch_of_sglang_has_the_paths_of_its_repository(tmp_path: Path) -> None:
    spec = Engine(
        kind="sglang", version="0.5.11", patches=patched(tmp_path, patch(path="python/sglang/srt/a.py"))
    )
    (installed,) = desired_engine(spec).patches
    assert [change.path for change in installed.changes] == ["sglang/srt/a.py"]
    built = spec.model_copy(
        update={"source": "git", "repository": "https://example.org/sglang", "commit": "0" * 40}
    )
    (checked_out,) = desired_engine(built).patches
    assert [change.path for change in checked_out.changes] == ["python/sglang/srt/a.py"]


def test_what_a_patch_says_is_part_of_what_names_the_environment(tmp_path: Path) -> None:
    def name() -> str:
        return desired_engine(Engine(**STANDIN, patches=(Patch(file=tmp_path / "0.patch", why="x"),))).path

    patched(tmp_path, patch())
    first = name()
    patched(tmp_path, patch("second = 2", "second = 9"))
    assert name() != first


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"source": "git"}, "source='git' needs repository"),
        ({"source": "git", "repository": "https://a.example/x", "commit": "main"}, "no commit of 40 hex"),
        ({"source": "git", "repository": "https://u:p@a.example/x", "commit": "0" * 40}, "holds a password"),
        ({"source": "git", "repository": "/local/folder", "commit": "0" * 40}, "no address of a repository"),
        ({"commit": "0" * 40}, "only source='git' takes one"),
        ({"source": "tree"}, "source='tree' needs interpreter"),
        ({"source": "tree", "interpreter": "python3", "folders": ["/a"]}, "must be absolute"),
        (
            {"source": "tree", "interpreter": "/p", "folders": ["/a"], "lock": "/l"},
            "a tree is used as it lies in the guest",
        ),
        (
            {
                "source": "tree",
                "interpreter": "/p",
                "folders": ["/a"],
                "patches": [{"file": "/f", "why": "x"}],
            },
            "a tree is used as it lies in the guest",
        ),
        ({"patches": [{"file": "/f", "why": ""}]}, "at least 1 character"),
    ],
)
def test_fields_that_do_not_go_with_the_source_are_refused(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Engine(kind="vllm", version="0.20.1", **fields)
    assert why in str(refused.value)
