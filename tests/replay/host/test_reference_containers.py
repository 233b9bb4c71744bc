"""The reference files of Proxmox containers, each with the conclusion it must give."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from provision.guest.proxmox.edit import Place, Wanted, edit
from provision.guest.proxmox.grammar import parse
from provision.guest.proxmox.judge import findings, stops

REFUSED = "refuse; real parser: "
MAJORS = {"nvidia": 195, "nvidia-uvm": 511}
WANTED = Wanted(
    ("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"),
    (Place("/srv/models", "/models"),),
    raw=(("lxc.prlimit.memlock", "unlimited"),),
)


@pytest.fixture
def host_files(shared: Path) -> Path:
    return shared / "fixtures" / "host"


def rows(host_files: Path) -> dict[str, str]:
    with (host_files / "INDEX.tsv").open() as file:
        return {
            row["file"]: row["what the toolkit must conclude"] for row in csv.DictReader(file, delimiter="\t")
        }


def test_what_the_parser_refuses_is_refused_in_its_words_and_nothing_else(host_files: Path) -> None:
    found = {name: row for name, row in rows(host_files).items() if name.startswith("neg/")}
    assert len(found) >= 16
    for name, row in found.items():
        problems = [line.problem for line in parse((host_files / name).read_text()).lines if line.problem]
        if row.startswith(REFUSED):
            assert problems == [row.removeprefix(REFUSED)], name
        else:
            assert problems == [], name


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("neg/205.conf", "lxc.cgroup.devices.allow is deprecated, this will be a hard error in the future"),
        ("neg/213.conf", "cores: value must have a minimum value of 1"),
        ("neg/216.conf", "a comment stands between the lines"),
        ("neg/218.conf", "nvidia hook"),
        ("neg/225.conf", "swap stands there twice"),
        ("lxc/500_raw_privileged.conf", "major 509 is hard-coded"),
        ("lxc/501_snapshot_trap.conf", "lxc.prlimit.memlock stands in snapshot [clean]"),
    ],
)
def test_what_the_parser_takes_is_said(host_files: Path, name: str, says: str) -> None:
    (finding,) = findings(parse((host_files / name).read_text()), MAJORS)
    assert says in finding.seen
    assert bool(stops((finding,))) == (name in ("neg/213.conf", "neg/225.conf"))


@pytest.mark.parametrize("name", ["100.conf", "neg/214.conf", "neg/221.conf"])
def test_what_is_well_has_no_finding(host_files: Path, name: str) -> None:
    assert findings(parse((host_files / name).read_text()), MAJORS) == ()


@pytest.mark.parametrize("name", ["100.conf", "lxc/500_raw_privileged.conf", "lxc/501_snapshot_trap.conf"])
def test_each_is_completed_before_its_first_section_and_all_its_lines_stay(
    host_files: Path, name: str
) -> None:
    text = (host_files / name).read_text()
    done = edit(text, WANTED).text
    rest = iter(done.splitlines())
    assert all(line in rest for line in text.splitlines()), "a line is gone or moved"
    conf = parse(done)
    assert {line.value.split(",")[0] for key, line in conf.options().items() if key.startswith("dev")} >= set(
        WANTED.nodes
    )
    assert ("lxc.prlimit.memlock", "unlimited") in {(line.key, line.value) for line in conf.of("raw")}
    assert (done == text) == (name == "100.conf")
