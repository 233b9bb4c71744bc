"""Command lines that a shell puts together from variables, and those of systemd-boot's menu."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.host.release import cmdline, expanded
from tests.unit.holders.test_families import GPU, GRUB, TARGET, TWIN, D
from tests.unit.vms.tree import Tree

IDS = "vfio-pci.ids=10de:2230"


@pytest.mark.parametrize(
    "text",
    [
        f'IDS=10de:2230\n{D}="quiet vfio-pci.ids=$IDS"\n',
        f"IDS='10de:1aef,10de:2230'\n{D}=\"vfio-pci.ids=${{IDS}} quiet\"\n",
        f'A=10de\nB=2230\n{D}="vfio-pci.ids=$A:$B"\n',
        f'M=vfio-pci\n{D}="$M.ids=10de:2230"\n',
        f'{D}="${{{D}}}${{{D}:+ }}{IDS}"\n',
        f"{D}=quiet\n{D}=${{{D}:+${D} }}{IDS}\n",
        f": ${{{D}:={IDS}}}\n",
        f'{D}="${{EXTRA:-{IDS}}}"\n',
        f'IDS="10de:2204"\nIDS+=",10de:2230"\n{D}="vfio-pci.ids=$IDS"\n',
    ],
)
def test_what_comes_about_in_a_shell_is_found_and_left_to_the_operator(text: str) -> None:
    (holder,) = [one for one in cmdline.find(GRUB, text) if one.holds(GPU)]
    assert holder.line == text.count("\n")
    assert holder.instead is not None
    assert "out of the variables" in holder.instead
    assert cmdline.clean(GRUB, text, TARGET) == text


@pytest.mark.parametrize("value", ["$IDS", "${IDS}", "$(cat /etc/ids)", "`cat /etc/ids`", "10de:$DEVICE"])
def test_ids_that_only_the_shell_knows_may_be_any(value: str) -> None:
    (holder,) = cmdline.find(GRUB, f'{D}="quiet vfio-pci.ids={value}"\n')
    assert (holder.holds(GPU), holder.holds(TWIN)) == (True, True)
    assert "…" in holder.what


@pytest.mark.parametrize(
    "text",
    [
        f'IDS=10de:2204\n{D}="quiet vfio-pci.ids=$IDS"\n',
        f"IDS=10de:2230\n{D}='vfio-pci.ids=$IDS'\n",
        f'IDS=10de:2230\n{D}="vfio-pci.ids=\\$IDS"\n',
        f'IDS=10de:2230\n{D}="quiet $OTHER"\n',
        f'{D}="${{QUIET:+{IDS}}}"\n',
        f'QUIET=quiet\n{D}="${{QUIET:-{IDS}}}"\n',
        f'{D}="$(uname -r) quiet"\n',
    ],
)
def test_what_does_not_come_about_holds_nothing(text: str) -> None:
    assert not any(holder.holds(GPU) for holder in cmdline.find(GRUB, text))


def test_what_stands_there_as_it_is_is_found_once_and_cleaned_where_it_stands() -> None:
    text = f'EXTRA="{IDS}"\n{D}="quiet $EXTRA"\n'
    (holder,) = cmdline.find(GRUB, text)
    assert (holder.line, holder.instead) == (1, None)
    assert cmdline.clean(GRUB, text, TARGET) == f'EXTRA=""\n{D}="quiet $EXTRA"\n'


@pytest.mark.parametrize("command", [f"$(echo quiet {IDS})", f"`echo quiet {IDS}`"])
def test_nothing_is_taken_out_of_a_command(command: str) -> None:
    text = f'{D}="{command}"\n'
    (holder,) = [one for one in cmdline.find(GRUB, text) if one.holds(GPU)]
    assert holder.instead is not None
    assert cmdline.clean(GRUB, text, TARGET) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("A=1 B=${A}2", "12"),
        ("A=a; A+=b; B=$A", "ab"),
        ("B=${A-x}", "x"),
        ("A=; B=${A-x}${A:-y}", "y"),
        ("A=1; B=${A:+z}${C+w}", "z"),
        ("B=${A:=q}$A", "qq"),
        ("B=$", "$"),
        ("B=${A", "${A"),
        ('B="$(a "b c" $(d))e"', f"{expanded.UNKNOWN}e"),
    ],
)
def test_the_values_that_variables_get(text: str, value: str) -> None:
    assert [made for word, made in expanded.words(text) if word.name == "B"] == [value]


@pytest.mark.parametrize(
    "name", ["vfio-pci.ids", "vfio-pci.ids=", "vfio-pci.ids=0000:42:00.0", "vfio-pci.ids=10de2230"]
)
def test_a_parameter_without_an_id_holds_nothing(name: str) -> None:
    assert cmdline.find("/etc/kernel/cmdline", f"root=x {name}\n") == ()


@pytest.mark.parametrize(
    "folder", ["/boot/loader/entries", "/boot/efi/loader/entries", "/efi/loader/entries"]
)
def test_an_entry_of_systemd_boot_is_left_to_the_operator(folder: str, tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    path = f"{folder}/debian.conf"
    tree.put(path, f"title {IDS}\nlinux /vmlinuz\noptions\troot=x\noptions {IDS} quiet\n#options {IDS}\n")
    assert tree.refused.count(path) == 2  # the place, and the next step
    assert f"{path}:4: gives 10de:2230 to vfio-pci: {IDS}" in tree.refused
    tree.put(path, "title x\noptions root=x quiet\n")
    assert tree.plan.refusals == ()
