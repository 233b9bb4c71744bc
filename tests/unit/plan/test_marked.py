"""Which machine counts as a test host, so that its guests are marked as well."""

from __future__ import annotations

import pytest

from checks.snapshot import CouldNotLook
from checks.testhost import CONTAINERS, MARKER
from provision.host import marked
from tests.unit.plan.seen import Seen

LINE = "kpro-test-host 6f1d7a52-8a3c-4b5e-9f20-0d2f8f3b1c11\n"
STATUS = "444 0 0 50 regular file"
DMI = "/sys/class/dmi/id"


def machine(
    status: str | None = STATUS,
    text: str | None = LINE,
    *,
    hypervisor: bool = True,
    vendor: str | None = "QEMU",
    product: str | None = "kpro-test-host",
    container: str | None = None,
) -> Seen:
    seen = Seen().put("stat", MARKER, status).put("file", MARKER, text)
    for path in CONTAINERS:
        seen.put("file", path, "" if path == container else None)
    seen.cmd("hypervisor", "", 0 if hypervisor else 1)
    vendor, product = (word and f"{word}\n" for word in (vendor, product))
    return seen.put("file", f"{DMI}/sys_vendor", vendor).put("file", f"{DMI}/product_name", product)


def test_a_virtual_machine_of_the_right_product_with_a_well_made_mark_is_one() -> None:
    assert marked.is_test_host(machine().snapshot)


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ("644 0 0 50 regular file", LINE),
        ("444 1000 0 50 regular file", LINE),
        ("444 0 1000 50 regular file", LINE),
        (STATUS, "test\n"),
        (STATUS, LINE + LINE),
        (STATUS, None),
        (None, None),
    ],
)
def test_only_a_well_made_mark_makes_a_test_host(status: str | None, text: str | None) -> None:
    assert not marked.is_test_host(machine(status, text).snapshot)


@pytest.mark.parametrize("product", ["Standard PC (Q35 + ICH9, 2009)", "", None])
@pytest.mark.parametrize(("hypervisor", "vendor"), [(True, None), (True, "QEMU"), (False, "QEMU")])
def test_a_mark_that_was_copied_to_another_virtual_machine_is_not_handed_to_its_guests(
    product: str | None, hypervisor: bool, vendor: str | None
) -> None:
    seen = machine(hypervisor=hypervisor, vendor=vendor, product=product)
    assert not marked.is_test_host(seen.snapshot)


def test_bare_metal_and_containers_have_no_product_that_must_agree() -> None:
    assert marked.is_test_host(machine(hypervisor=False, vendor="Dell", product="PowerEdge").snapshot)
    for container in CONTAINERS:
        assert marked.is_test_host(machine(product="anything", container=container).snapshot)


@pytest.mark.parametrize(
    "missing", [("rc", "hypervisor"), ("file", f"{DMI}/product_name"), ("file", CONTAINERS[0])]
)
def test_a_marked_machine_that_does_not_tell_what_it_is_is_never_taken_for_one(
    missing: tuple[str, str],
) -> None:
    seen = machine()
    del seen.sections[missing]
    with pytest.raises(CouldNotLook):
        marked.is_test_host(seen.snapshot)


def test_what_is_asked_for_is_what_is_needed() -> None:
    asked = {tuple(request.split(":")[:2]) for request in marked.REQUESTS}
    needed = {key for key in machine().sections if key[0] != "rc"}
    assert asked == needed
