"""Rules about a GPU's memory cells: ECC, rows that were remapped, pages that were retired."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checks.data.boards import board_of
from checks.gpus.dump import NOT_READ, Gap, Gpu
from checks.gpus.growth import grown
from checks.gpus.rule import Outcome, Scene, failed, first_error, passed, skipped, unknown, unread, warned
from checks.gpus.which import reset, smi

AMPERE = 7
"""NVML_DEVICE_ARCH_AMPERE: from here on rows are remapped, before it pages were retired."""

FULL_TABLE = 62
"""Retired pages from which the table counts as full: it has 64 places (NVIDIA dynamic page retirement guide;
Azure/azurehpc-health-checks, azure_gpu_ecc.nhc)."""

_REPLACE = "take the GPU out of service and have the board replaced"


def ecc(gpu: Gpu, scene: Scene) -> Outcome:
    """Is ECC on where the board must have it, and are there uncorrected errors?"""
    board = board_of(gpu.name)
    must = board is not None and board.ecc
    mode = gpu.numbers("nvmlDeviceGetEccMode")
    if isinstance(mode, Gap):
        seen = _counted(gpu, scene) or _in_its_life(gpu)
        return seen or unread("ECC mode", mode, must_exist=must)
    current, pending = mode
    if not current:
        return _ecc_off(gpu, scene, pending=bool(pending), must=must)
    return _uncorrected(gpu, scene) or _ecc_on(gpu, pending=bool(pending))


def _counted(gpu: Gpu, scene: Scene) -> Outcome | None:
    """What any counter shows; one that cannot be read hides nothing that another one shows."""
    since_boot, in_life = gpu.number("ecc_unc_vol"), gpu.number("ecc_unc_agg")
    sram = gpu.struct("sram_ecc")
    if not isinstance(sram, Gap) and sram.get("bThresholdExceeded"):
        fix = "have the board replaced: this is the vendor's own criterion"
        return failed(
            "uncorrected SRAM errors are over the vendor's threshold", value=_plain(in_life), limit=0, fix=fix
        )
    volatile = max(
        _plain(since_boot),
        _plain(gpu.number("mem_dram_unc_vol")),
        _sum(sram, "volatileUncParity", "volatileUncSecDed"),
    )
    if volatile:
        return failed(
            f"{volatile} uncorrected ECC errors since boot"
            + ("" if isinstance(in_life, Gap) else f", {in_life} in its life"),
            value=volatile,
            limit=0,
            cause="memory gave wrong data that ECC could not mend; work on this GPU was killed or is wrong",
            fix="drain it, read the Xid (48, 63, 64, 94, 95) in the log, reset it; replace it if it recurs",
        )
    more = grown(gpu, scene, lambda one: one.number("ecc_unc_agg"))
    if more:
        return failed(
            f"{more} more uncorrected ECC errors than in the earlier record",
            value=more,
            limit=0,
            cause="a reboot or reset cleared the counter of this boot; the one of its life grew",
            fix="drain it, read the Xid in the logs of earlier boots; replace the board if it recurs",
        )
    return None


def _uncorrected(gpu: Gpu, scene: Scene) -> Outcome | None:
    counted = _counted(gpu, scene)
    if counted is not None:
        return counted
    since_boot, in_life = gpu.number("ecc_unc_vol"), gpu.number("ecc_unc_agg")
    sram = gpu.struct("sram_ecc")
    if isinstance(since_boot, Gap):
        return unread("uncorrected ECC errors since boot", since_boot, must_exist=True)
    if isinstance(in_life, Gap):
        return unread("uncorrected ECC errors of its life", in_life, must_exist=True)
    error = first_error(sram, *map(gpu.number, ("mem_dram_unc_vol", "mem_sram_unc_agg", "mem_l2_unc_agg")))
    return None if error is None else unread("one of the ECC counters", error)


def _ecc_on(gpu: Gpu, *, pending: bool) -> Outcome:
    life = _in_its_life(gpu)
    if life is not None:
        return life
    if not pending:
        fix = f"{smi(gpu, '--ecc-config=1')}, or let the next reset switch it off knowingly"
        return warned("ECC is on and will be off after the next reset", fix=fix)
    return passed("ECC on, no uncorrected error", value=0, limit=0)


def _in_its_life(gpu: Gpu) -> Outcome | None:
    """Errors of earlier boots alone; of the life, where nobody knows those since boot."""
    life = max(
        _plain(gpu.number("ecc_unc_agg")),
        _plain(gpu.number("mem_sram_unc_agg")),
        _plain(gpu.number("mem_l2_unc_agg")),
        _sum(gpu.struct("sram_ecc"), "aggregateUncParity", "aggregateUncSecDed"),
    )
    if life:
        fix = "watch the number; gpu.row_remap says whether the rows were replaced"
        if isinstance(gpu.number("ecc_unc_vol"), Gap):
            text = f"{life} uncorrected ECC errors in its life; how many since boot is not known"
            return unknown(text, value=life, limit=0, fix="give 'nvidia-smi -q -d ECC', whole")
        return warned(
            f"no uncorrected ECC error since boot, {life} in its life", value=life, limit=0, fix=fix
        )
    return None


def _ecc_off(gpu: Gpu, scene: Scene, *, pending: bool, must: bool) -> Outcome:
    fix = reset(gpu)
    if not pending:
        fix = f"{smi(gpu, '--ecc-config=1')}; then {fix}"
    if must:
        message = "ECC is off on a data-centre board: its error counters stay at zero whatever happens"
        return failed(message, value="off", limit="on", fix=fix)
    modes = [other.numbers("nvmlDeviceGetEccMode") for other in scene.siblings(gpu)]
    if any(not isinstance(mode, Gap) and mode[0] for mode in modes):
        return warned("ECC is off here and on in its siblings", value="off", limit="on", fix=fix)
    if pending:
        return warned("ECC is off and will be on after the next reset", value="off", limit="on", fix=fix)
    return skipped("ECC is off, which this kind of board allows; there are no error counters to judge")


def row_remap(gpu: Gpu, scene: Scene) -> Outcome:
    """Row remapping: pending needs a reset, failed needs a new board, growth is memory that goes bad."""
    rows = gpu.numbers("nvmlDeviceGetRemappedRows")
    if (bad := _flagged(gpu, rows)) is not None:
        return bad
    if isinstance(rows, Gap):
        board, generation = board_of(gpu.name), gpu.number("nvmlDeviceGetArchitecture")
        must = board is not None and board.ecc and not isinstance(generation, Gap) and generation >= AMPERE
        return unread("remapped rows", rows, must_exist=must)
    corrected, uncorrected, _, _ = rows
    remapped = corrected + uncorrected
    by_field = [gpu.by_field(name) for name in ("REMAPPED_PENDING", "REMAPPED_FAILURE")]
    more = grown(gpu, scene, _remapped)
    if more:
        return failed(
            f"{remapped} rows remapped, {more} more than in the earlier record",
            value=remapped,
            limit=remapped - more,
            unit="rows",
            cause="the memory goes on degrading: a remapped row heals one place, not the chip",
            fix=f"{_REPLACE}; until then watch Xid 63 and 64 in the kernel log",
        )
    error = first_error(*by_field, gpu.number("unrepairable"), gpu.struct(_HISTOGRAM))
    if error is not None:
        return unread("part of the row remapping", error)
    return _spare_rows(gpu, remapped)


def _flagged(gpu: Gpu, rows: tuple[int, ...] | Gap) -> Outcome | None:
    """What asks for an act by itself, whichever of the others cannot be read."""
    known = not isinstance(rows, Gap)
    corrected, uncorrected, pending, failure = rows if not isinstance(rows, Gap) else (0, 0, 0, 0)
    remapped = corrected + uncorrected if known else None
    many = f", {remapped} rows" if known else ""
    if failure or gpu.by_field("REMAPPED_FAILURE") == 1:
        return failed(
            f"row remapping failed{many}{' remapped so far' if known else ''}",
            value=remapped,
            cause="a memory bank has no spare row left",
            fix=_REPLACE,
        )
    if gpu.number("unrepairable") == 1:
        text = "the driver calls part of the memory unrepairable"
        return failed(f"{text}{many}{' remapped so far' if known else ''}", value=remapped, fix=_REPLACE)
    if pending or gpu.by_field("REMAPPED_PENDING") == 1:
        return failed(
            f"row remapping is pending{many}: the bad rows are still in use",
            value=remapped,
            cause="an uncorrected memory error was found since the last reset",
            fix=reset(gpu),
        )
    return None


_HISTOGRAM = "nvmlDeviceGetRowRemapperHistogram"


def _remapped(gpu: Gpu) -> int | Gap:
    rows = gpu.numbers("nvmlDeviceGetRemappedRows")
    return rows if isinstance(rows, Gap) else rows[0] + rows[1]


def _spare_rows(gpu: Gpu, remapped: int) -> Outcome:
    banks = gpu.struct(_HISTOGRAM)
    empty, few = (0, 0) if isinstance(banks, Gap) else (_sum(banks, "none"), _sum(banks, "low"))
    if empty:
        return warned(
            f"{empty} memory banks have no spare row left, {remapped} rows remapped",
            value=empty,
            limit=0,
            unit="banks",
            cause="the next bad row in one of them cannot be replaced",
            fix="plan the board's replacement",
        )
    low = f"; {few} memory banks have few spare rows left" if few else ""
    return passed(f"no row remapping pending or failed, {remapped} rows remapped{low}", value=remapped)


def retired_pages(gpu: Gpu, scene: Scene) -> Outcome | None:
    """Page retirement of boards before Ampere: pending needs a reset, a full table a new board."""
    if not scene.holds("nvmlDeviceGetRetiredPagesPendingStatus", "retired_dbe", "retired_sbe"):
        return None
    pending = gpu.number("nvmlDeviceGetRetiredPagesPendingStatus")
    double, single = pages(gpu, "dbe"), pages(gpu, "sbe")
    retired = _plain(double) + _plain(single)
    full = retired >= FULL_TABLE
    if pending == 1:
        more = "; the table is full" if full else ""
        fix = f"{reset(gpu)}; then {_REPLACE}" if full else reset(gpu)
        return failed(
            f"page retirement is pending, {retired} pages retired: the bad pages are still in use{more}",
            value=retired,
            limit=FULL_TABLE,
            unit="pages",
            fix=fix,
        )
    if full:
        return failed(
            f"{retired} pages retired: the table of bad pages is full",
            value=retired,
            limit=FULL_TABLE,
            unit="pages",
            cause="the next bad page cannot be retired",
            fix=_REPLACE,
        )
    more_pages = grown(gpu, scene, lambda one: pages(one, "dbe"))
    if more_pages:
        return failed(
            f"{more_pages} more pages retired for double-bit errors than in the earlier record",
            value=retired,
            unit="pages",
            fix=f"drain it, read the Xid (48, 63) in the log; if it goes on, {_REPLACE}",
        )
    gaps = [value for value in (pending, double, single) if isinstance(value, Gap)]
    behind = [gpu.by_field(name) for name in ("RETIRED_DBE", "RETIRED_SBE", "RETIRED_PENDING")]
    error = first_error(*gaps, *behind, *map(gpu.numbers, ("retired_dbe", "retired_sbe"))) or next(
        (gap for gap in gaps if gap == NOT_READ), None
    )
    if error is not None:
        return unread("retired pages", error)
    if len(gaps) == 3:
        return skipped("pages are not retired on this board: from Ampere on its rows are remapped instead")
    return passed(f"{retired} pages retired, none pending", value=retired, limit=FULL_TABLE, unit="pages")


def pages(gpu: Gpu, kind: str) -> int | Gap:
    """Retired pages, ``dbe`` for double-bit or ``sbe`` for repeated single-bit errors. A record keeps at most 64
    addresses, so the field, where it answers, is the better count."""
    listed, counted = gpu.numbers(f"retired_{kind}"), gpu.by_field(f"RETIRED_{kind.upper()}")
    if isinstance(listed, Gap):
        return counted if isinstance(counted, int) else listed
    return max(len(listed), _plain(counted))


def _plain(value: int | Gap) -> int:
    return 0 if isinstance(value, Gap) else value


def _sum(struct: Mapping[str, Any] | Gap, *names: str) -> int:
    if isinstance(struct, Gap):
        return 0
    values = [struct.get(name) for name in names]
    return sum(value for value in values if isinstance(value, int))
