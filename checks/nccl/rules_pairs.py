"""Rules about copies between two GPUs: every ordered pair, judged where the data arrived. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from checks.data.cuda_errors import MEANINGS, OUT_OF_MEMORY, meaning_of
from checks.gpus.rule import Outcome, failed, passed, skipped, unknown
from checks.model import Finding
from checks.nccl.scene import Scene, bytes_text

_CAUSE = "ACS redirection or a translating IOMMU on the way, or a bad riser, bridge or switch: the driver cannot see it"
_FIX = (
    "turn ACS off for the ports above both GPUs, iommu=pt or the IOMMU off in firmware ('provcheck gpus': pcie.acs, "
    "node.iommu); until then NCCL_P2P_DISABLE=1 for NCCL, and no other peer access"
)
_ALONE = {"source": "before", "target": "before", "check": "after"}


def peer_copies(scene: Scene) -> Iterator[Finding]:
    """One finding per ordered pair; one for all when there is only one GPU."""
    pairs = scene.measured.pairs
    if pairs is None:
        return
    if len(scene.measured.gpus) == 1:
        yield skipped("one GPU: no pair to copy between").finding("nccl.peer_copy", "host")
    for pair in pairs:
        src, dst = (scene.gpu(int(pair[key])).removeprefix("gpu") for key in ("src", "dst"))
        yield _pair(pair, src, dst).finding("nccl.peer_copy", f"pair {src}-{dst}")


def _pair(pair: Mapping[str, Any], src: str, dst: str) -> Outcome:
    copies = [copy for copy in pair.get("copies") or () if isinstance(copy, Mapping)]
    direct = pair.get("direct")
    for copy in copies:
        size = int(copy.get("bytes") or 0)
        if copy.get("wrong") != 0:
            return failed(
                f"{copy.get('wrong')} of {size // 4} words arrived wrong in a copy of {bytes_text(size)}, the first at "
                f"word {copy.get('first')}; the driver reported success",
                value=copy.get("wrong"),
                limit=0,
                cause=_CAUSE,
                fix=_FIX,
            )
        if copy.get("read_wrong") != 0:
            return failed(
                f"{copy.get('read_wrong')} bytes of {bytes_text(size)} read back wrong from the destination, "
                "which its own kernel found right",
                value=copy.get("read_wrong"),
                limit=0,
                cause="the way from the destination to the host is bad, or its caches lie",
                fix=_FIX,
            )
    if pair.get("hung") and pair.get("at") in _ALONE:
        alone = src if pair["at"] == "source" else dst
        return failed(
            f"gpu{alone} hung in its own work {_ALONE[pair['at']]} the copy: no end within "
            f"{float(pair.get('after_s') or 0):g} s, the probe was killed",
            cause="that GPU or its driver does not answer; the way between the two was not the reason",
            fix="look at the kernel log for Xid lines and at 'provcheck gpus'; reset the GPU",
        )
    if pair.get("hung"):
        return failed(
            f"the copy hung: no end within {float(pair.get('after_s') or 0):g} s, the probe was killed"
            if direct is not None
            else "opening both GPUs hung; the probe was killed",
            cause=_CAUSE if direct is not None else "a GPU or the driver does not answer",
            fix=_FIX if direct is not None else "look at 'provcheck gpus' and the kernel log",
        )
    if pair.get("error") is not None or not copies:
        code = next((number for number in MEANINGS if f" {number} " in str(pair.get("error"))), None)
        meaning = meaning_of(code, started=pair.get("at") is not None)
        make = unknown if direct is None or code == OUT_OF_MEMORY else failed
        return make(
            f"the copy failed: {str(pair.get('error'))[:200]}",
            cause=meaning.cause if meaning else None,
            fix=meaning.fix if meaning else "look at 'provcheck gpus' and the kernel log",
        )
    largest = max(copies, key=lambda copy: int(copy["bytes"]))
    rate = int(largest["bytes"]) / max(float(largest.get("seconds") or 0), 1e-9) / 1e9
    sizes = " and ".join(bytes_text(int(copy["bytes"])) for copy in copies)
    way = "direct" if direct else "staged through the host: the driver allows no peer access between them"
    return passed(f"{sizes} arrived whole, {way}, {rate:.1f} GB/s", value=round(rate, 2), unit="GB/s")
