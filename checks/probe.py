"""The children: ``_probe <what>``. They look at hardware and may hang; the parent sets a deadline."""

from __future__ import annotations

from collections.abc import Sequence

from checks.errors import BadInput


def main(args: Sequence[str]) -> int:
    """Runs one probe and returns its exit code. Raises BadInput for an unknown one."""
    if list(args[:1]) == ["nvml"]:
        from checks.gpus import nvml

        return nvml.main(list(args[1:]))
    if list(args[:1]) == ["record"]:
        from checks.gpus import collect

        return collect.main(args[1:])
    if list(args[:1]) == ["load"]:
        from checks.load import probe as load

        return load.main(args[1:])
    if list(args[:1]) == ["drafter"]:
        from checks.drafter import afar

        return afar.main(args[1:])
    if list(args[:1]) == ["nccl-look"]:
        from checks.nccl import look

        return look.main()
    if list(args[:1]) == ["nccl-rank"]:
        from checks.nccl import rank

        return rank.main()
    if list(args[:1]) == ["nccl-peer"]:
        from checks.nccl import peer

        return peer.main()
    if list(args[:1]) == ["nccl-keeper"]:
        from checks.nccl import keeper

        return keeper.main()
    if list(args[:1]) == ["judged"]:
        from checks.bundle import judged

        return judged.main(args[1:])
    raise BadInput(f"no probe named {' '.join(args[:1])!r}")
