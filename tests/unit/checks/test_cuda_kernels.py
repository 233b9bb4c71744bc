"""The shipped kernels: what Python launches is what the PTX takes, and the PTX is what its source gives."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.cuda import reference
from checks.cuda.kernels import kernels

ARGUMENTS = {
    "kernels.ptx": {
        "kpro_fill_u32": "u64 u64 u32",
        "kpro_check_u32": "u64 u64 u32 u64",
        "kpro_fill_f32": "u64 u64 u32 u32",
        "kpro_check_sum_f32": "u64 u64 u32 u32 u64",
        "kpro_fill_index": "u64 u64 u32",
        "kpro_check_index": "u64 u64 u32 u64",
        "kpro_copy": "u64 u64 u64",
        "kpro_triad": "u64 u64 u64 u64 f32",
        "kpro_compute": "u64 u64 u64 u64 u32 u32 u32",
    },
    "kernels_sm80.ptx": {"kpro_tensor": "u64 u64 u64 u64 u32 u32 u32"},
}


@pytest.mark.parametrize("name", list(ARGUMENTS))
def test_the_ptx_has_exactly_the_kernels_and_arguments_that_are_launched(name: str) -> None:
    entries = re.findall(r"\.visible \.entry (\w+)\((.*?)\)", kernels(name), re.DOTALL)
    taken = {entry: " ".join(re.findall(r"\.param \.(\w+)", params)) for entry, params in entries}
    assert taken == ARGUMENTS[name]


@pytest.mark.parametrize(
    ("name", "header"),
    [("kernels.ptx", ("6.4", "sm_60")), ("kernels_sm80.ptx", ("7.0", "sm_80"))],
)
def test_old_drivers_take_the_ptx(name: str, header: tuple[str, str]) -> None:
    text = kernels(name)
    assert re.findall(r"^\.(?:version|target) (\S+)$", text, re.MULTILINE) == list(header)


def test_every_kernel_that_the_code_names_is_shipped(repo_root: Path) -> None:
    shipped = {kernel for file in ARGUMENTS.values() for kernel in file}
    named = set()
    for file in (repo_root / "checks").rglob("*.py"):
        named |= set(re.findall(r'"(kpro_\w+)"', file.read_text()))
    assert named <= shipped


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed here")
def test_the_source_gives_the_shipped_ptx(repo_root: Path, tmp_path: Path) -> None:
    subprocess.run(
        [repo_root / "scripts" / "make-kernels", str(tmp_path)], check=True, capture_output=True, timeout=120
    )
    for name in ARGUMENTS:
        assert _code((tmp_path / name).read_text()) == _code(kernels(name))


def _code(ptx: str) -> list[str]:
    """Instructions without registers: another compiler may number and order them differently, not choose others."""
    return sorted(
        word
        for line in ptx.splitlines()
        if (word := line.strip().split("\t")[0])
        and word.partition(".")[0] in ("atom", "mma", "fma", "st", "ld")
    )


def _fmaf() -> object:
    function = ctypes.CDLL("libm.so.6").fmaf
    function.argtypes, function.restype = [ctypes.c_float] * 3, ctypes.c_float
    return function


@given(*(st.floats(width=32, min_value=-4, max_value=4) for _ in range(3)))
def test_the_hosts_fused_multiply_add_rounds_once(a: float, b: float, c: float) -> None:
    fmaf = _fmaf()
    assert callable(fmaf)
    assert reference.fma32(a, b, c) == fmaf(a, b, c)


def test_a_fused_multiply_add_that_rounds_twice_would_be_seen() -> None:
    a = 1.0 + 2.0**-12
    tie_broken_below_double = reference.fma32(a, a, 2.0**-60)
    assert tie_broken_below_double == 1.0 + 2.0**-11 + 2.0**-23, (
        "1 + 2^-11 + 2^-24 is a tie; the rest breaks it"
    )


def test_chains_differ_by_lane_seed_and_length() -> None:
    words = {reference.chain(lane, seed, steps) for lane in (0, 1) for seed in (1, 2) for steps in (8, 9)}
    assert len(words) == 8


def test_products_are_exact_in_single_precision() -> None:
    numbers = reference.product(12345, 64)
    assert len(numbers) == 128
    assert max(map(abs, numbers)) < 1 << 24
    assert len(set(numbers)) > 32
