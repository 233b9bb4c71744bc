"""Which units of systemd are started, by what, and for which GPU (systemd.unit(5), systemd.timer(5))."""

from __future__ import annotations

import pytest

from tests.unit.vms.test_starters import PATH, SCRIPT, UNIT, WANTS
from tests.unit.vms.tree import GPU, Tree

SYSTEM = "/etc/systemd/system/"
BIND = f"/bin/sh -c 'echo vfio-pci > /sys/bus/pci/devices/{GPU}/driver_override'"
OF_INSTANCE = "/bin/sh -c 'echo vfio-pci > /sys/bus/pci/devices/{}/driver_override'"


@pytest.mark.parametrize("word", ["%i", "%I"])
@pytest.mark.parametrize(
    ("instance", "refused"),
    [("0000:42:00.0", True), ("0000:61:00.0", False), (r"0000\x3a42\x3a00.0", True)],
)
def test_a_template_holds_the_gpus_of_its_instances(
    tree: Tree, instance: str, refused: bool, word: str
) -> None:
    tree.put(f"{SYSTEM}give@.service", UNIT.format(OF_INSTANCE.format(word)))
    tree.link(f"{SYSTEM}basic.target.wants/give@{instance}.service", "../give@.service")
    assert bool(tree.refused) is refused


def test_a_template_without_a_name_in_its_instance_may_mean_any(tree: Tree) -> None:
    tree.put(f"{SYSTEM}give@.service", UNIT.format(OF_INSTANCE.format("$(lookup %i)")))
    tree.link(f"{SYSTEM}basic.target.wants/give@first.service", "../give@.service")
    assert "give@.service:6" in tree.refused


@pytest.mark.parametrize(("link", "refused"), [("vfio-gpu.timer", True), ("other.timer", False)])
def test_a_timer_starts_its_service(tree: Tree, link: str, refused: bool) -> None:
    tree.put(PATH, UNIT.format(BIND)).link(f"{SYSTEM}timers.target.wants/{link}", f"../{link}")
    assert bool(tree.refused) is refused


def test_a_unit_of_a_package_counts_until_the_operator_s_takes_its_place(tree: Tree) -> None:
    tree.put("/usr/lib/systemd/system/vfio-gpu.service", UNIT.format(BIND))
    tree.link(WANTS, "/usr/lib/systemd/system/vfio-gpu.service")
    assert "/usr/lib/systemd/system/vfio-gpu.service:6" in tree.refused
    tree.put(PATH, UNIT.format("/usr/bin/true"))
    assert tree.plan.refusals == ()


def test_a_unit_of_a_package_that_is_masked_holds_nothing(tree: Tree) -> None:
    tree.put("/usr/lib/systemd/system/vfio-gpu.service", UNIT.format(BIND))
    tree.link(WANTS, "/usr/lib/systemd/system/vfio-gpu.service").link(PATH, "/dev/null")
    assert tree.plan.refusals == ()


def test_a_script_that_a_udev_rule_runs_is_looked_into(tree: Tree) -> None:
    path = "/etc/udev/rules.d/90-gpu.rules"
    rule = f'ACTION=="add", SUBSYSTEM=="pci", KERNEL=="{GPU}", RUN+="{SCRIPT} %k"\n'
    tree.put(path, rule)
    assert [item.kind for item in tree.plan.items if item.kind == "release.files"] == []
    tree.put(SCRIPT, "#!/bin/sh\necho vfio-pci > /sys/bus/pci/devices/$1/driver_override\n")
    (edit,) = [
        one for item in tree.plan.items for one in getattr(item.payload, "files", ()) if one.path == path
    ]
    assert edit.data.decode() == f"# kpro: {rule}"
