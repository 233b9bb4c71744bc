"""apt's configuration as apt reads it: where apt is at hand, it is the judge."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from provision.host.driver_checks.apt_conf import of, read
from tests.unit.plan.seen import Seen

NESTED = """
// a comment { "x"; };
# another { };
APT::Periodic { Unattended-Upgrade "1"; Verbose "2" ; };
/* long
   comment " { */
Unattended-Upgrade::Origins-Pattern {
  "origin=Debian,codename=${distro_codename},label=Debian";   // kept
  "origin=NVIDIA";
};
Unattended-Upgrade { Package-Blacklist { "nvidia-"; }; Mail "root"; };
Dir::Etc "etc/apt/";
Empty {};
"""
OVERRIDE = 'APT::Periodic::Unattended-Upgrade "0";\nunattended-upgrade::origins-pattern:: "origin=*";\n'
CLEAR = "#clear Unattended-Upgrade::Origins-Pattern;\n"


def test_nested_and_flat_forms_are_one() -> None:
    found = read([NESTED])
    assert found["apt::periodic::unattended-upgrade"] == ("1",)
    assert found["unattended-upgrade::origins-pattern"] == (
        "origin=Debian,codename=${distro_codename},label=Debian",
        "origin=NVIDIA",
    )
    assert found["unattended-upgrade::package-blacklist"] == ("nvidia-",)
    assert found["unattended-upgrade::mail"] == ("root",)


def test_later_files_add_to_lists_win_for_values_and_clear() -> None:
    found = read([NESTED, OVERRIDE])
    assert found["apt::periodic::unattended-upgrade"][-1] == "0"
    assert found["unattended-upgrade::origins-pattern"][-1] == "origin=*"
    assert "unattended-upgrade::origins-pattern" not in read([NESTED, CLEAR])


@pytest.mark.parametrize("text", ["", "}", "{{{", 'A "unfinished', "A::B", ";;;", "#clear;", "A { B { C"])
def test_a_torn_file_ends_in_no_error(text: str) -> None:
    read([text])


def test_only_files_that_apt_reads_count() -> None:
    seen = Seen()
    for name, value in (
        ("20auto", "1"),
        ("30auto.conf", "2"),
        ("40auto.bak", "3"),
        ("50auto.dpkg-dist", "4"),
    ):
        seen.put("file", f"/etc/apt/apt.conf.d/{name}", f'A::B "{value}";\n')
    assert of(seen.snapshot) == {"a::b": ("1", "2")}


def test_apt_itself_reads_it_so(tmp_path: Path) -> None:
    if shutil.which("apt-config") is None:
        pytest.skip("no apt here")
    for name, text in (("10", NESTED), ("20", OVERRIDE)):
        (tmp_path / name).write_text(text)
    (tmp_path / "config").write_text(f'Dir::Etc::parts "{tmp_path}/parts";\nDir::Etc::main "";\n')
    (tmp_path / "parts").mkdir()
    for name in ("10", "20"):
        shutil.move(tmp_path / name, tmp_path / "parts" / name)
    done = subprocess.run(
        ["apt-config", "dump"],
        env={"APT_CONFIG": str(tmp_path / "config"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    lines = done.stdout.splitlines()
    assert 'APT::Periodic::Unattended-Upgrade "0";' in lines
    ours = read([NESTED, OVERRIDE])
    theirs = [
        line.split('"')[1] for line in lines if line.startswith("Unattended-Upgrade::Origins-Pattern:: ")
    ]
    assert tuple(theirs) == ours["unattended-upgrade::origins-pattern"]
