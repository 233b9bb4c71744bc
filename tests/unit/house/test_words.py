"""What must not stand in any file: addresses of package sources, unfinished work, talk of anything but kpro.

A letter in brackets keeps a pattern from finding itself.
"""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest

PACKAGE_SOURCES = re.compile(
    r"https?://(?!127\.0\.0\.1\b)[^\s\"']+/[s]imple\b|[p]ythonhosted\.org|[d]eb\.debian\.org|[s]ecurity\.debian\.org"
    r"|[s]napshot\.debian\.org|(?:--|[a-z]-)[i]ndex-url[ =]+\S*//|--[f]ind-links[ =]\S*://"
)
UNFINISHED = re.compile(r"\b(?:[T]ODO|[F]IXME|[X]XX)\b")
NOT_THE_PROJECT = re.compile(
    r"\b(?:[c]laude|[a]nthropic|[c]hatgpt|[c]opilot|[c]o-authored-by|[s]ub-?agent|this [b]rief)\b"
    r"|\b(?:as an [a]i|[g]enerated (?:by|with) (?:an? )?(?:ai|llm))\b"
    r"|(?<!\w)/[w]ork/(?:main|tmp|wt|shared|\.library)\b",
    re.IGNORECASE,
)
NO_NUMBER_FOR_INT = re.compile(r"\.[i]sdigit\(\)")
"""True of '²', which int() refuses with a traceback; isdecimal() is what int() reads."""
BESIDE_THE_CHECKOUT = re.compile(r"\.\./[s]hared\b")


def found(pattern: re.Pattern[str], texts: dict[Path, str]) -> list[str]:
    return [
        f"{name}:{text.count(chr(10), 0, hit.start()) + 1}: {hit.group()}"
        for name, text in texts.items()
        for hit in pattern.finditer(text)
    ]


@pytest.mark.parametrize(
    ("pattern", "bad", "good"),
    [
        (PACKAGE_SOURCES, "index = 'https://host.example/pypi/" + "simple/'", "https://host.example/simpler"),
        (PACKAGE_SOURCES, "http://10.0.0.1:80/" + "simple", "http://127.0.0.1:{port}/" + "simple"),
        (PACKAGE_SOURCES, "http://deb." + "debian.org/debian", "debian.org"),
        (PACKAGE_SOURCES, "pip install --extra-index-" + "url https://x", "--no-emit-index-url"),
        (UNFINISHED, "# TO" + "DO: later", "mktemp file.XXXXXX"),
        (NOT_THE_PROJECT, "Co-Authored-" + "By: someone", '{"role": "assistant"}'),
        (NOT_THE_PROJECT, "cd /wo" + "rk/main", "the work tree, /var/work/main"),
        (NO_NUMBER_FOR_INT, "if port.is" + "digit():", "if port.isdecimal():"),
        (BESIDE_THE_CHECKOUT, "../sha" + "red/fixtures", "../shared_mount"),
    ],
)
def test_each_rule_finds_what_it_forbids_and_nothing_else(
    pattern: re.Pattern[str], bad: str, good: str
) -> None:
    assert found(pattern, {Path("x"): "first\n" + bad}) != []
    assert found(pattern, {Path("x"): good}) == []


def test_what_int_is_to_read_is_asked_for_by_the_word_that_means_it(texts: dict[Path, str]) -> None:
    ours = {name: text for name, text in texts.items() if name.parts[0] in ("checks", "provision")}
    assert ours
    assert found(NO_NUMBER_FOR_INT, ours) == []


def test_no_file_names_the_address_of_a_package_source(texts: dict[Path, str]) -> None:
    assert found(PACKAGE_SOURCES, texts) == []


def test_no_file_names_a_package_source_that_this_machine_is_set_up_with(texts: dict[Path, str]) -> None:
    hosts: set[str] = set()
    for sources in [*Path("/etc/apt/sources.list.d").glob("*.sources"), *Path("/etc/apt").glob("*.list")]:
        hosts.update(
            re.findall(r"^(?:URIs:|deb\b[^\n]*?)\s*https?://([^/\s:]+)", sources.read_text(), re.MULTILINE)
        )
    for pip in [Path("/etc/pip.conf"), Path.home() / ".config/pip/pip.conf"]:
        parser = configparser.RawConfigParser(strict=False)
        parser.read(pip)
        for section in parser.sections():
            for _, value in parser.items(section):
                hosts.update(re.findall(r"https?://(?:[^/@\s]*@)?([^/\s:]+)", value))
    pattern = re.compile("|".join(re.escape(host) for host in sorted(hosts)) or r"(?!)")
    assert found(pattern, texts) == []


def test_nothing_unfinished_is_left_in_a_file(texts: dict[Path, str]) -> None:
    assert found(UNFINISHED, texts) == []


def test_files_and_commit_messages_speak_of_the_project_alone(texts: dict[Path, str], messages: str) -> None:
    # The flag tables hold the option names of other projects as they are.
    ours = {name: text for name, text in texts.items() if not name.match("checks/data/flags-*.json")}
    assert found(NOT_THE_PROJECT, ours | {Path("commit messages"): messages}) == []


def test_only_tests_look_beside_the_checkout(texts: dict[Path, str]) -> None:
    assert found(BESIDE_THE_CHECKOUT, {n: t for n, t in texts.items() if n.parts[0] != "tests"}) == []
