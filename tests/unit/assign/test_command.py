"""``provision assign`` before anything is connected to: which machine is meant, and what cannot be meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.bdf import Bdf
from provision.assign.handover import To
from provision.run.assign import inventory_lines, meant
from provision.spec import Machine, Ssh
from tests.controller import Operator
from tests.unit.assign.place import FIRST, SECOND, machine

INVENTORY = """
from provision.spec import Gpu, Guest, Machine
machine = Machine(name="box", managed={managed}, gpus=[Gpu(bdf="02:00.0", model="A6000")], guests=[])
metal, guests = machine.pyinfra_groups()
"""


def called(tmp_path: Path, *words: str, managed: bool = True) -> tuple[int, str]:
    (tmp_path / "box.py").write_text(INVENTORY.format(managed=managed))
    # A process of its own: pyinfra's command changes what it runs in for gevent.
    done = Operator(tmp_path).provision("assign", str(tmp_path / "box.py"), *words)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("99", "vm"), "is not a PCI address"),
        (("02:00.0", "docker"), "is not one of"),
        (("02:00.0", "lxc", "--vmid", "130"), "it goes with vm"),
        (("02:00.0", "vm", "--vmid", "7"), "a Proxmox vmid is a number"),
        (("03:00.0", "lxc"), "does not name 03:00.0"),
        (("03:00.0", "vm"), "does not name 03:00.0"),
        (("02:00.0", "vm", "--limit", "nobody"), "matches nothing"),
    ],
)
def test_what_cannot_be_meant_ends_with_2_before_anything_is_looked_at(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    code, output = called(tmp_path, *words)
    assert (code, said in output) == (2, True), output
    assert "Traceback" not in output


def test_a_machine_that_somebody_else_looks_after_hands_over_nothing(tmp_path: Path) -> None:
    code, output = called(tmp_path, "02:00.0", "vm", managed=False)
    assert (code, "managed=False" in output) == (2, True)


def other(name: str, *gpus: str) -> Machine:
    whole = machine().model_copy(update={"name": name, "ssh": Ssh(host=name)})
    return whole.model_copy(
        update={"gpus": tuple(gpu for gpu in whole.gpus if gpu.bdf in gpus), "guests": ()}
    )


def test_of_several_machines_the_one_that_names_the_gpu_is_meant() -> None:
    names = [gpu.bdf for gpu in machine().gpus]
    one, two = other("one", names[0]), other("two", names[1])
    assert meant([one, two], Bdf.parse(SECOND), "vm") == two
    assert meant([one, two], Bdf.parse(FIRST), "lxc") == one
    with pytest.raises(ValueError, match=r"several machines name a GPU .* --limit \(one, twin\)"):
        meant([one, other("twin", names[0])], Bdf.parse(FIRST), "vm")
    with pytest.raises(ValueError, match=r"no machine names a GPU at 09:00.0"):
        meant([one, two], Bdf.parse("09:00.0"), "vm")


@pytest.mark.parametrize("to", ["vm", "lxc"])
def test_a_gpu_that_the_inventory_does_not_name_is_nobody_s_to_hand_over(to: To) -> None:
    assert meant([machine()], Bdf.parse(FIRST), to) == machine()
    with pytest.raises(ValueError, match=r"does not name 09:00\.0 \(it names .*\): .*Correct the address"):
        meant([machine()], Bdf.parse("09:00.0"), to)


def test_the_lines_of_the_inventory_to_change_are_told_and_none_where_it_agrees() -> None:
    lines = "\n".join(inventory_lines(machine(), Bdf.parse(SECOND), "vm"))
    assert 'machine.gpus: take out Gpu(bdf="' in lines
    assert "machine.guests[1] (two): gpus=[]" in lines
    assert "guests[0]" not in lines
    assert inventory_lines(machine(), Bdf.parse(SECOND), "lxc") == []
    assert inventory_lines(machine(), Bdf.parse("09:00.0"), "vm") == []
