"""Rules about whether the ranks came through: the communicator, hangs, deaths, sums, and the cause. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from checks.data.cuda_errors import OUT_OF_MEMORY, meaning_of
from checks.data.nccl_lines import NcclLine, row_of
from checks.gpus.rule import failed, passed, unknown, warned
from checks.model import Finding
from checks.nccl.measured import Rank, Run
from checks.nccl.scene import Scene, bytes_text, place, said, step

WITHOUT_P2P = {"NCCL_P2P_DISABLE": "1"}
WITHOUT_SHM = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}
ENOUGH_SHM = 1 << 30
_INIT = step("init")


def came_through(scene: Scene) -> Iterator[Finding]:
    """nccl.init, nccl.hang, nccl.crash of the first run, and nccl.workaround when another way works."""
    run = scene.first
    if run is None or not run.ranks:
        return
    begun = [rank.first("init_s") for rank in run.ranks]
    times = [float(seconds) for seconds in begun if isinstance(seconds, (int, float))]
    if len(times) == len(run.ranks):
        text = f"{run.nranks} rank{'s' if run.nranks > 1 else ''}, ready in {max(times):.2f} s"
        yield passed(text, value=round(max(times), 3), unit="s").finding("nccl.init", "host")
    if run.whole:
        yield passed("every rank came through in time").finding("nccl.hang", "host")
        return
    guilty = culprits(run)
    identity = (
        "nccl.init"
        if min(step(rank.phase) for rank in guilty) <= _INIT and len(times) < len(run.ranks)
        else "nccl.hang"
        if guilty[0].hung
        else "nccl.crash"
    )
    cause, fix = reason(scene, run, guilty)
    message = "; ".join(_told(scene, rank) for rank in guilty[:4])
    others = [rank for rank in run.ranks if rank not in guilty]
    if others and guilty[0].hung:
        message += (
            f"; the others ({len(others)}) waited in {said(max(others, key=lambda r: place(r.phase)).phase)}"
        )
    subject = scene.subject(guilty[0]) if len(guilty) == 1 and len(run.ranks) > 1 else "host"
    # Memory that somebody else has says nothing of the GPU.
    make = unknown if all(_cuda_code(rank) == OUT_OF_MEMORY for rank in guilty) else failed
    yield make(message, cause=cause, fix=fix).finding(identity, subject)
    yield from _workaround(scene)


def culprits(run: Run) -> list[Rank]:
    """Who is to blame: those that died, else those with an error, that were stopped, that hang furthest behind."""
    for ended in ("died", "error"):
        found = [rank for rank in run.ranks if rank.ended == ended]
        if found:
            return found
    if stopped := [rank for rank in run.ranks if rank.stopped]:
        return stopped
    stuck = [rank for rank in run.ranks if not rank.done] or list(run.ranks)
    behind = min(place(rank.phase) for rank in stuck)
    return [rank for rank in stuck if place(rank.phase) == behind]


def _told(scene: Scene, rank: Rank) -> str:
    who = scene.rank(rank)
    if rank.ended == "error":
        return f"{who} failed in {said(rank.phase)}: {str(rank.first('error'))[:200]}"
    if rank.ended == "died":
        how = f"signal {-rank.code}" if rank.code is not None and rank.code < 0 else f"code {rank.code}"
        words = rank.stderr.strip().splitlines()[-1:] or [""]
        return f"{who} died ({how}) in {said(rank.phase)}" + (f": {words[0][:200]}" if words[0] else "")
    if rank.stopped:
        return f"{who} was stopped in {said(rank.phase)}, did not go on within {rank.in_phase_s:.0f} s and was killed"
    last = _last_words(scene, rank)
    return f"{who} hung {rank.in_phase_s:.0f} s in {said(rank.phase)} and was killed" + (
        f"; NCCL's last words: {last[:160]}" if last else ""
    )


def _last_words(scene: Scene, rank: Rank) -> str | None:
    log = scene.logs.get((0, rank.rank))
    return None if log is None else (log.warnings[-1] if log.warnings else log.last)


def reason(scene: Scene, run: Run, guilty: Sequence[Rank]) -> tuple[str | None, str | None]:
    """Cause and fix: what NCCL warned of, else what CUDA's code means, else which way was found broken."""
    if guilty[0].stopped:
        return (
            "its process was stopped from outside (SIGSTOP, job control, a debugger): no fault of a GPU or a link",
            "find who stops processes here, and measure again",
        )
    row = known_line(scene)
    if row is not None:
        return row.cause, row.fix
    meaning = meaning_of(_cuda_code(guilty[0]), started=step(guilty[0].phase) > _INIT)
    if meaning is not None:
        return meaning.cause, meaning.fix
    if _worked(scene, WITHOUT_P2P):
        return (
            "the peer-to-peer path between the GPUs is broken: without it the same ranks come through. ACS "
            "redirection or a translating IOMMU is the usual reason, next a bad riser, bridge or switch",
            "turn ACS off for the ports above the GPUs, iommu=pt or the IOMMU off in firmware; 'provcheck gpus' "
            "shows pcie.acs and node.iommu",
        )
    if _worked(scene, WITHOUT_SHM):
        return (
            f"the path through shared memory is broken too{_shm(scene)}: only the network path comes through",
            "make /dev/shm larger (1 GiB or more), look at its mount and at limits of the container",
        )
    if len(guilty) == 1 and run.nranks > 1:
        return (
            "one rank alone is behind: its GPU or process, not the path between GPUs",
            f"look at {scene.gpu(guilty[0].gpu)} with 'provcheck gpus' and at the kernel log",
        )
    tried = len(scene.measured.runs) > 1
    cause = "neither the peer-to-peer path nor shared memory is the reason: without them it is the same"
    return (
        cause if tried else None,
        "look at the kernel log for Xid lines, at 'provcheck gpus', at nccl.peer_copy",
    )


def _cuda_code(rank: Rank) -> int | None:
    """The code of libcuda that a rank ended with, None when it was NCCL's or there was none."""
    code = rank.first("code")
    return code if isinstance(code, int) and "ncc" not in str(rank.first("error")) else None


def _shm(scene: Scene) -> str:
    size = scene.measured.shm_bytes
    return f" (/dev/shm is {bytes_text(size)})" if size is not None and size < ENOUGH_SHM else ""


def known_line(scene: Scene) -> NcclLine | None:
    """The first warning of any rank in the first run that a row knows."""
    warnings = [line for (number, _), log in scene.logs.items() if number == 0 for line in log.warnings]
    return next((row for line in warnings if (row := row_of(line)) is not None), None)


def _worked(scene: Scene, extra: dict[str, str]) -> bool:
    return any(dict(run.extra) == extra and run.whole for run in scene.measured.runs[1:])


def _workaround(scene: Scene) -> Iterator[Finding]:
    working = next((run for run in scene.measured.runs[1:] if run.whole), None)
    row = known_line(scene)
    if working is not None:
        words = " ".join(f"{name}={value}" for name, value in working.extra.items())
        text = f"{words} lets all ranks come through: a way around, slower, and no repair"
        fix = "mend the cause; until then set it in the service's unit"
        yield warned(text, value=words, fix=fix).finding("nccl.workaround", "host")
    elif row is not None and row.workaround:
        text = f"not tried here, known to help: {row.workaround}"
        yield warned(text, value=row.workaround, fix="mend the cause instead").finding(
            "nccl.workaround", "host"
        )


def sums(scene: Scene) -> Iterator[Finding]:
    """Whether every sum was right, on every rank, in every run. One wrong number outranks all else."""
    run = scene.first
    if run is None or not run.ranks:
        return
    wrong = [
        (rank, line)
        for each in scene.measured.runs
        for rank in each.ranks
        for line in rank.sums
        if line.get("wrong") != 0
    ]
    sizes = sorted({line["sum"] for rank in run.ranks for line in rank.sums})
    text = ", ".join(bytes_text(size) for size in sizes)
    if wrong:
        _, line = wrong[0]
        ranks = sorted({scene.rank(rank) for rank, _ in wrong})
        count = line["sum"] // 4
        message = (
            f"{line.get('wrong')} of {count} numbers wrong in the all-reduce of {bytes_text(line['sum'])}, repeat "
            f"{line.get('repeat')}, the first at index {line.get('first')}; seen by {', '.join(ranks)}"
        )
        cause = "data was changed on its way or in memory, and nothing reported an error: an engine would go on with it"
        fix = "see nccl.peer_copy for the pair, 'provcheck gpus' for ECC, links and ACS; take the host out of service"
        yield failed(message, value=line.get("wrong"), limit=0, cause=cause, fix=fix).finding(
            "nccl.sums", "host"
        )
    elif not run.whole:
        done = f"; right so far: {text}" if sizes else ""
        yield unknown(f"the sums could not all be checked{done}").finding("nccl.sums", "host")
    else:
        repeats = min(sum(line["sum"] == size for line in rank.sums) for rank in run.ranks for size in sizes)
        message = f"right at {text}; {repeats} times each, fresh numbers, checked by {_everybody(run)}"
        yield passed(message, value=0, limit=0).finding("nccl.sums", "host")


def _everybody(run: Run) -> str:
    return "the one rank" if run.nranks == 1 else f"each of {run.nranks} ranks"
