"""What every boot does after a cut-over that was cut off, run by a real shell in a folder of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from provision.templates import render

NEW, OLD, OLDER = "a" * 64, "b" * 64, "c" * 64


def unit(digest: str) -> str:
    return f"[Service]\nEnvironment=KPRO_DIGEST={digest}\n"


@pytest.fixture
def guest(tmp_path: Path) -> Path:
    """A guest whose service was cut off while a new profile was put into its place."""
    for folder in (
        "etc/systemd/system/multi-user.target.wants", "etc/kpro", "var/lib/kpro/good",
        "var/lib/kpro/last-good/tiny", "var/lib/kpro/cutover/tiny", "bin",
    ):  # fmt: skip
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "etc/systemd/system/kpro-tiny.service").write_text(unit(NEW))
    (tmp_path / "etc/systemd/system/multi-user.target.wants/kpro-tiny.service").write_text("")
    (tmp_path / "etc/kpro/tiny.env").write_text('KEY="new"\n')
    (tmp_path / "var/lib/kpro/good/tiny").write_text(OLD + "\n")
    (tmp_path / "var/lib/kpro/last-good/tiny/unit").write_text(unit(OLD))
    (tmp_path / "var/lib/kpro/last-good/tiny/env").write_text('KEY="old"\n')
    (tmp_path / "var/lib/kpro/cutover/tiny/phase").write_text(f"publish {NEW}\n")
    (tmp_path / "bin/systemctl").write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\n')
    (tmp_path / "bin/systemctl").chmod(0o755)
    return tmp_path


def boot(guest: Path, *words: str, torn: Sequence[Path] = ()) -> str:
    script = render("kpro-recover.sh.j2")
    for folder in ("/var/lib/kpro", "/etc/systemd", "/etc/kpro"):
        script = script.replace(folder, f"{guest}{folder}")
    done = subprocess.run(
        ["sh", "-s", *words],
        input=script,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": f"{guest}/bin:/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr
    assert list(guest.rglob(".kpro-put*")) == list(torn)
    return done.stdout


def live(guest: Path) -> tuple[str, str]:
    text = (guest / "etc/systemd/system/kpro-tiny.service").read_text()
    return text.rpartition("=")[2].strip(), (guest / "etc/kpro/tiny.env").read_text()


def test_the_last_good_unit_and_its_environment_are_put_back(guest: Path) -> None:
    assert "cut off in phase publish: the last good profile is in place" in boot(guest)
    assert live(guest) == (OLD, 'KEY="old"\n')
    assert (guest / "etc/kpro/tiny.env").stat().st_mode & 0o777 == 0o600
    assert not (guest / "var/lib/kpro/cutover/tiny").exists()
    assert "daemon-reload" in (guest / "asked").read_text()


def test_what_was_being_written_aside_when_the_power_went_is_removed_and_what_comes_in_is_left(
    guest: Path,
) -> None:
    """A torn copy of an environment file holds the key. What the controller writes at that very moment stays."""
    folders = ("etc/kpro", "etc/systemd/system", "var/lib/kpro/good", "var/lib/kpro/last-good/tiny")
    for folder in (*folders, "var/lib/kpro/cutover/tiny"):
        (guest / folder / ".kpro-put.6115KW").write_text('KEY="ne')
    coming = guest / "etc/kpro/.kpro-put.0123456789abcdef"
    coming.write_text("half of it")
    boot(guest, torn=[coming])
    assert live(guest) == (OLD, 'KEY="old"\n')
    assert not (guest / "var/lib/kpro/cutover/tiny").exists()


def test_half_of_it_put_back_is_put_back_whole(guest: Path) -> None:
    """The environment file of the new profile is already there, its unit not yet."""
    (guest / "etc/systemd/system/kpro-tiny.service").write_text(unit(OLD))
    boot(guest)
    assert live(guest) == (OLD, 'KEY="old"\n')


def test_what_was_seen_generating_before_the_cut_stays(guest: Path) -> None:
    (guest / "var/lib/kpro/good/tiny").write_text(NEW + "\n")
    assert "was seen generating" in boot(guest)
    assert live(guest) == (NEW, 'KEY="new"\n')
    assert not (guest / "var/lib/kpro/cutover/tiny").exists()


def test_what_was_kept_of_an_older_one_is_not_taken_for_the_last_good_one(guest: Path) -> None:
    """Cut off before anything was touched: what is kept is still that of the cut-over before."""
    (guest / "var/lib/kpro/last-good/tiny/unit").write_text(unit(OLDER))
    (guest / "etc/systemd/system/kpro-tiny.service").write_text(unit(OLD))
    boot(guest)
    assert live(guest) == (OLD, 'KEY="new"\n')


def test_a_first_one_that_never_generated_does_not_start_at_boot(guest: Path) -> None:
    (guest / "var/lib/kpro/good/tiny").unlink()
    assert "never seen generating" in boot(guest)
    assert not (guest / "etc/systemd/system/multi-user.target.wants/kpro-tiny.service").exists()
    assert "disable --quiet kpro-tiny.service" in (guest / "asked").read_text()


def test_where_no_profile_is_the_last_good_one_nothing_is_touched(guest: Path) -> None:
    (guest / "var/lib/kpro/last-good/tiny/unit").write_text(unit(OLDER))
    assert "left as it is" in boot(guest)
    assert live(guest) == (NEW, 'KEY="new"\n')
    assert (guest / "etc/systemd/system/multi-user.target.wants/kpro-tiny.service").exists()


def test_nothing_happens_where_no_cut_over_is_open_and_another_service_is_left_alone(guest: Path) -> None:
    assert boot(guest, "other") == ""
    assert live(guest) == (NEW, 'KEY="new"\n')
    (guest / "var/lib/kpro/cutover/tiny/phase").unlink()
    assert boot(guest) == ""
    assert live(guest) == (NEW, 'KEY="new"\n')
