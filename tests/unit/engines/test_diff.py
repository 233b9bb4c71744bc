"""A patch is applied strictly or not at all; what git makes of the same patch is the measure."""

from __future__ import annotations

import difflib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provision.stack.engine.diff import BadPatch, DoesNotApply, apply, read

OLD = "".join(f"line {n}\n" for n in range(1, 31))
NEW = OLD.replace("line 7\n", "line seven\n").replace("line 22\n", "line 22\nadded\n")


def diff(old: str, new: str, path: str = "pkg/mod.py") -> str:
    return "".join(
        difflib.unified_diff(
            old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{path}", f"b/{path}"
        )
    )


def applied(patch: str, text: str | None, path: str = "pkg/mod.py") -> str | None:
    return apply(read(patch), {path: text})[path]


def refused(patch: str, text: str | None) -> DoesNotApply:
    with pytest.raises(DoesNotApply) as caught:
        applied(patch, text)
    return caught.value


def test_every_hunk_is_applied() -> None:
    assert applied(diff(OLD, NEW), OLD) == NEW


def test_a_moved_hunk_is_found_where_its_lines_stand_once() -> None:
    assert applied(diff(OLD, NEW), "# head\n" * 40 + OLD) == "# head\n" * 40 + NEW


def test_a_hunk_that_would_fit_in_two_places_is_no_guess() -> None:
    twice = "# head\n" + OLD + OLD
    assert "which are meant would be a guess" in str(refused(diff(OLD, NEW), twice))


def test_the_line_that_differs_is_told_and_nothing_is_applied() -> None:
    reasons = refused(diff(OLD, NEW), OLD.replace("line 8\n", "line eight\n")).reasons
    assert reasons == (
        "pkg/mod.py, hunk 1 (line 4): at line 8 stands 'line eight' where the patch has 'line 8'",
    )


def test_white_space_counts() -> None:
    assert not refused(diff(OLD, NEW), OLD.replace("line 8\n", "line 8 \n")).applied


def test_what_is_there_already_is_told_apart() -> None:
    error = refused(diff(OLD, NEW), NEW)
    assert error.applied
    assert "stands there already, at line 4" in error.reasons[0]


def test_half_of_it_there_already_is_not_applied() -> None:
    half = OLD.replace("line 7\n", "line seven\n")
    error = refused(diff(OLD, NEW), half)
    assert not error.applied
    assert len(error.reasons) == 1


def test_an_addition_at_the_end_is_not_added_twice() -> None:
    longer = OLD + "the end\n"
    assert applied(diff(OLD, longer), OLD) == longer
    assert refused(diff(OLD, longer), longer).applied


def test_new_and_deleted_files() -> None:
    new = diff("", "a\nb\n").replace("--- a/pkg/mod.py", "--- /dev/null")
    assert applied(new, None) == "a\nb\n"
    assert refused(new, "a\nb\n").applied
    assert not refused(new, "other\n").applied
    gone = diff("a\nb\n", "").replace("+++ b/pkg/mod.py", "+++ /dev/null")
    assert applied(gone, "a\nb\n") is None
    assert refused(gone, None).applied
    assert not refused(gone, "a\nc\n").applied


def test_a_file_that_is_not_there_is_named() -> None:
    assert refused(diff(OLD, NEW), None).reasons == ("pkg/mod.py: is not there",)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "holds no change"),
        ("just words\n", "holds no change"),
        (diff(OLD, NEW)[:-20], "is no whole unified diff"),
        (diff(OLD, NEW) + "+one more\n", "has more lines than its head says"),
        (diff(OLD, NEW, "../../etc/passwd"), "is no path"),
        (diff(OLD, NEW).replace("a/pkg/mod.py", "/etc/passwd"), "is no path"),
        (diff(OLD, NEW).replace("+++ b/pkg/mod.py", "+++ b/pkg/other.py"), "is renamed"),
        (diff(OLD, NEW) + diff(OLD, NEW), "twice"),
        ("diff --git a/x.so b/x.so\nindex 1..2 100644\nBinary files a/x.so and b/x.so differ\n", "is binary"),
    ],
)
def test_what_is_no_patch_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadPatch, match=why):
        read(text)


def test_the_words_around_a_mailed_patch_are_no_part_of_it() -> None:
    mailed = (
        f"From: A\nSubject: [PATCH] x\n\n words\n---\n pkg/mod.py | 3 ++-\n\n{diff(OLD, NEW)}-- \n2.39.5\n\n"
    )
    assert applied(mailed, OLD) == NEW


@pytest.mark.parametrize("end", ["old", "new", "both"])
def test_a_last_line_without_its_end_stays_so(tmp_path: Path, end: str) -> None:
    old = OLD.rstrip("\n") if end in ("old", "both") else OLD
    new = NEW.replace("line 30", "line thirty")
    new = new.rstrip("\n") if end in ("new", "both") else new
    assert applied(_git_diff(tmp_path, old, new), old) == new


LINES = st.lists(st.sampled_from(["a", "b", "c", "", "x\x0cy", "é", "\r"]), max_size=12).map(
    lambda rows: "".join(f"{row}\n" for row in rows)
)


@pytest.mark.skipif(not shutil.which("git"), reason="git is the measure here")
@settings(max_examples=60, deadline=None)
@given(old=LINES, new=LINES)
def test_what_git_makes_as_a_patch_is_applied_as_git_does(
    tmp_path_factory: pytest.TempPathFactory, old: str, new: str
) -> None:
    patch = _git_diff(tmp_path_factory.mktemp("git"), old, new)
    if not patch or not old:
        return
    try:
        made = apply(read(patch), {"pkg/mod.py": old})["pkg/mod.py"]
        why = ""
    except DoesNotApply as error:
        made, why = new, str(error)
    assert made == new
    # Stricter than git is allowed: a hunk without context, or with what it makes there already.
    assert not why or "guess" in why or "stands there already" in why


def _git_diff(folder: Path, old: str, new: str) -> str:
    for side, text in (("a", old), ("b", new)):
        (folder / side / "pkg").mkdir(parents=True)
        (folder / side / "pkg/mod.py").write_bytes(text.encode())
    done = subprocess.run(
        ["git", "diff", "--no-index", "--no-color", "--no-prefix", "a", "b"],
        cwd=folder,
        capture_output=True,
        check=False,
    )
    return done.stdout.decode()


def _upper(text: str) -> str:
    return text.upper()


@pytest.mark.parametrize("spoil", [_upper, lambda text: text[: len(text) // 3], lambda _: ""])
def test_another_file_is_never_patched(spoil: Callable[[str], str]) -> None:
    assert refused(diff(OLD, NEW), spoil(OLD)).reasons
