"""Which archives a machine's apt uses, from the rows of ``apt-get indextargets``."""

from __future__ import annotations

from provision.debian import archives

ROWS = """\
Packages|Debian|main|bookworm-security|http://s.example/
Packages|Debian|main|bookworm-proposed-updates|http://p.example/
Packages|Debian|main|bookworm-updates|http://u.example/
Packages|Other|main|bookworm|http://o.example/
Packages|Debian|contrib|bookworm|http://c.example/
Translations|Debian|main|bookworm|http://t.example/
Packages|Debian|main|bookworm|http://d.example/debian/
Packages|Debian|main|trixie|http://later.example/
nonsense
"""


def test_the_main_archive_is_told_from_its_side_archives_and_from_other_peoples() -> None:
    assert archives(ROWS) == {
        "main": "http://d.example/debian/",
        "security": "http://s.example/",
        "updates": "http://u.example/",
        "proposed-updates": "http://p.example/",
    }


def test_the_old_name_of_the_security_archive_is_no_main_archive() -> None:
    assert archives("Packages|Debian|main|buster/updates|http://s.example/") == {
        "security": "http://s.example/"
    }


def test_a_machine_that_knows_no_debian_has_none() -> None:
    assert archives("Packages|Ubuntu|main|noble|http://x.example/\n") == {}
