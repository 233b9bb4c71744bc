"""Sections about the machine that somebody else wrote: whatever they hold, they are judged or refused."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checks.errors import BadInput
from checks.gpus import dump, host_bus, host_seat, host_services, kernlog, node, texts
from checks.gpus.judge import judge
from checks.gpus.rule import Scene
from checks.record import Section

GPU = "0000:10:00.0"
AT = f"{node.PCI}/{GPU}"
PLACES = (
    ("dir", node.PCI),
    ("file", f"{AT}/vendor"),
    ("file", f"{AT}/class"),
    ("link", f"{AT}/driver"),
    ("path", AT),
    ("acs", f"{node.PCI}/0000:00:01.0"),
    ("link", f"{AT}/iommu_group"),
    ("file", f"{host_bus.GROUPS}/0/type"),
    ("file", f"{AT}/local_cpulist"),
    ("file", host_bus.CMDLINE),
    ("file", host_bus.CPU),
    ("file", host_bus.MODULES),
    ("dir", host_bus.RDMA),
    ("file", host_bus.RELEASE),
    ("devices", host_seat.DEV),
    ("opened", host_seat.DEV),
    ("file", host_seat.DEVICES),
    ("statvfs", host_seat.SHM),
    ("file", host_seat.LIMITS),
    ("file", host_seat.STATUS),
    ("environ", host_seat.ENVIRON),
    ("services", host_services.PROCESSES),
    ("package", "nvidia-fabricmanager"),
    ("tool", "nvidia-modprobe"),
    ("log", node.FABRIC_LOG),
    (kernlog.KIND, kernlog.PATH),
)
GRAINS = (
    *(
        "0x10de\n",
        "0x030200\n",
        f"{GPU}\n",
        f"0000:00:01.0 {GPU}",
        "control 0x001d\n",
        "none",
        "DMA\n",
        "0-3,5-99999",
    ),
    *(
        "nvidia 195 0 0666 rw\n",
        "nvidia-uvm 509 0 0666 no\n",
        "nvidiactl EPERM\n",
        "size 1 free 0\n",
        "195 nvidia\n",
    ),
    *(
        "Max locked memory  8388608  8388608 bytes\n",
        "CapEff:\tffffffffffffffff\n",
        "CUDA_VISIBLE_DEVICES=\n",
    ),
    *(
        "NVRM: Xid (PCI:0000:10:00): 79, x\n",
        "nvidia-nvswitch0: SXid (PCI:0000:10:00.0): 1, Fatal\n",
        "mlx5_0\n",
        "\xff",
    ),
)


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.sampled_from(PLACES), st.none() | st.lists(st.sampled_from(GRAINS), max_size=4)),
        max_size=14,
    )
)
def test_no_sections_lead_to_anything_but_findings(healthy: Callable[..., Any], parts: list[Any]) -> None:
    sections = [
        Section(
            *place,
            None if grains is None else "".join(grains).encode("latin1"),
            "closed" if grains is None else None,
        )
        for place, grains in parts
    ]
    with suppress(BadInput):
        findings = judge(Scene(dump.parse(healthy(2), "dump"), node.parse(sections, "record")))
        assert len({(f.id, f.subject) for f in findings}) == len(findings)


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: a\n" * 500000,
        "[    1.0] NVRM: The NVIDIA GPU 0000:b3:00.0\n" + "   NVRM: x\n" * 300000,
        "Fabric\n" + "x" + " " * 4_000_000,
        "Fabric\n" + ("x" + " " * 1900 + "\n") * 2000,
        "NVIDIA-SMI 1 Driver Version: 5.5\n" + ("| 0 " + " x" * 900 + "\n") * 2000,
        "GPU0 GPU1\n" + "GPU0 X " + "OK " * 100000,
        "00:01.0 PCI bridge: " + "x" * 2_000_000,
        "0-8191," * 500000,
    ],
    ids=range(8),
)
def test_a_hostile_text_takes_seconds_at_most(text: str) -> None:
    began = time.process_time()
    with suppress(BadInput):
        texts.read(text.encode(), "hostile")
    node.parse([Section(kernlog.KIND, kernlog.PATH, text.encode())], "record")
    host_bus.numbers(text)
    assert time.process_time() - began < 10
