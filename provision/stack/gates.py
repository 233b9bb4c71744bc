"""What is proven before anything that runs is stopped: the gates of step 9, as rows. Pure.

``gpus`` is the gate that the unit asks again at every start; the rows here are asked by the chain alone, of what it is
about to start. A row's ``ask`` gives the words of provcheck, or a ``Skip`` that says why it does not arise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from provision.spec import Guest
from provision.stack import engine_words, staged
from provision.stack.desired import DesiredService, record_path


@dataclass(frozen=True)
class Skip:
    """Why a gate is not asked. ``told``: the operator is to read it, too."""

    why: str
    told: bool = False


@dataclass(frozen=True)
class Gpus:
    """What the gate ``gpus`` saw in the guest. ``green``: it let through; ``replayed``: on a test host's record."""

    green: bool
    replayed: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def in_use(self) -> str | None:
        """Who is on a GPU of the guest, or that this is not known; None when nobody is."""
        seen = self.facts.get("gpus")
        if not isinstance(seen, list) or not seen:
            return "which GPUs there are is not known"
        for one in seen:
            held = one.get("held_by") if isinstance(one, dict) else None
            if held is None:
                return "whether the GPUs are in use is not known"
            if held:
                return f"gpu{one.get('index')} is in use: {held[0]}"
        return None


@dataclass(frozen=True)
class Case:
    """One profile that is to be started, and where. ``running``: a service of the guest runs, or may."""

    guest: Guest
    desired: DesiredService | None
    gpus: Gpus
    running: bool = False
    kept: Mapping[str, str] = field(default_factory=dict)
    """What holds of kept measurements, by gate."""
    red: frozenset[str] = frozenset()
    """Ids of what was found red so far."""

    @property
    def profile(self) -> DesiredService:
        if self.desired is None:
            raise ValueError("this gate is about a profile")
        return self.desired

    @property
    def command(self) -> tuple[str, ...]:
        return staged.command_of(self.profile.unit)

    @property
    def python(self) -> str:
        """The interpreter beside the engine's program."""
        return f"{self.command[0].rpartition('/')[0]}/python"

    @property
    def home(self) -> str:
        """The engine's environment, or the folders of its tree."""
        folders = self.profile.service.engine.folders
        return ":".join(folders) or self.command[0].rpartition("/")[0].rpartition("/")[0]

    @property
    def variables(self) -> dict[str, str]:
        return staged.variables_of(self.profile.environment)

    @property
    def said(self) -> engine_words.Said:
        engine = self.profile.service.engine
        return engine_words.said(engine.kind, engine.version, self.command)


Answer = tuple[str, ...] | Skip


@dataclass(frozen=True)
class Gate:
    """``needs``: what must be in place. ``seconds`` and ``per_gpu``: its deadline in the guest, beyond those that the
    check itself keeps, so that what hung is named. ``as_service``: run as the service's user, since code of the engine
    is run. ``of_gpus``: about the GPUs, so that a restart of the container may mend it.
    ``active``: uses the GPUs, hence never beside a service."""

    id: str
    text: str
    ask: Callable[[Case], Answer]
    seconds: int
    needs: str
    source: str
    per_gpu: int = 0
    as_service: bool = False
    of_gpus: bool = False
    active: bool = False

    def deadline(self, case: Case) -> int:
        return self.seconds + self.per_gpu * len(case.guest.gpus)


def _unknown_engine(case: Case) -> Skip | None:
    kind = case.profile.service.engine.kind
    return None if engine_words.known(kind) else Skip(f"provcheck knows nothing of the engine {kind}")


def flags(case: Case) -> Answer:
    if skip := _unknown_engine(case):
        return skip
    options = ("--engine", case.said.option, "--python", case.python, "--deadline", str(FLAGS_SECONDS))
    engine = case.profile.service.engine
    names = engine_words.judged(case.variables, engine.kind)
    built = ("--built",) if engine.source == "git" else ()
    return ("flags", *options, *built, "--", *names, *case.command)


def drafter(case: Case) -> Answer:
    if skip := _unknown_engine(case):
        return skip
    service, said = case.profile.service, case.said
    if service.drafter is None:
        return Skip("the profile drafts with no second model")
    words = [
        "drafter",
        service.drafter.directory,
        "--target",
        service.model.directory,
        "--engine",
        said.option,
    ]
    words += ["-k", str(said.drafts)] if said.drafts else []
    words += ["--context", said.context] if said.context.isdecimal() and said.context != "1" else []
    return tuple(words)


def fit(case: Case) -> Answer:
    if skip := _unknown_engine(case):
        return skip
    service, said = case.profile.service, case.said
    words = ["fit", service.model.directory, "--engine", said.option, "--context", said.context, *said.words]
    # A drafter without a config has no size to be asked for; the model has one all the same.
    drafts = service.drafter is not None and "drafter.config" not in case.red
    if service.drafter is not None and drafts:
        words += ["--drafter", service.drafter.directory]
    if said.mtp and service.drafter is None:
        words += ["--mtp"]
    words += ["-k", str(said.drafts)] if said.drafts else []
    if not case.guest.gpus:
        cache = case.variables.get("VLLM_CPU_KVCACHE_SPACE")
        return (*words, "--gpus", "ram", *(("--cache", cache) if cache else ()))
    if case.gpus.replayed and case.profile.record is not None:
        return (*words, "--gpus", record_path(case.profile.record))
    if not case.gpus.green:
        return Skip("the GPUs are not in order, so their memory is not asked for", told=True)
    return (*words, "--gpus", "here")


def load(case: Case) -> Answer:
    return _idle(case, "load") or ("load",)


def nccl(case: Case) -> Answer:
    if 0 < len(case.guest.gpus) < 2:
        return Skip("one GPU talks to no other")
    if skip := _idle(case, "nccl"):
        return skip
    if case.desired is None:
        return Skip("no engine is there yet whose NCCL could be asked", told=True)
    return ("nccl", "--env", case.home)


def _idle(case: Case, gate: str) -> Skip | None:
    """Why GPUs are not put to work now; None: nobody is on them, and nothing that was measured holds."""
    if not case.guest.gpus:
        return Skip("the guest has no GPUs")
    if case.gpus.replayed:
        return Skip("REPLAYED: there is no GPU to be put to work", told=True)
    if not case.gpus.green:
        return Skip("the GPUs are not in order", told=True)
    if used := case.gpus.in_use:
        return Skip(f"never beside a service: {used}", told=True)
    if case.running:
        return Skip("never beside a service: one runs in the guest, or is starting", told=True)
    return Skip(case.kept[gate], told=True) if gate in case.kept else None


FLAGS_SECONDS = 120

GATES = (
    Gate(
        "flags",
        "the installed engine takes the command line",
        flags,
        FLAGS_SECONDS + 30,
        "the engine environment and the staged unit",
        "issue: an argparse error kills the new engine after the old one was stopped; importing an engine takes half a "
        "minute",
        as_service=True,
    ),
    Gate(
        "drafter",
        "the drafter's files fit target and engine version",
        drafter,
        120,
        "the model files",
        "drafter effects measured with vLLM 0.20.1: a guessed config starts, and then drafts nothing that is accepted",
    ),
    Gate(
        "fit",
        "weights and one request of the longest length fit",
        fit,
        120,
        "the model files; with GPUs, the driver",
        "both engines end at start when they do not (vLLM _check_enough_kv_cache_memory)",
        of_gpus=True,
    ),
    Gate(
        "load",
        "the GPUs compute and copy as they should",
        load,
        200,
        "idle GPUs",
        "NVML reports link and clocks at rest: only work shows them (provcheck load)",
        per_gpu=40,
        of_gpus=True,
        active=True,
    ),
    Gate(
        "nccl",
        "collectives between the GPUs come through, right and fast",
        nccl,
        1200,
        "two idle GPUs and the engine environment's libnccl",
        "P2P that the driver calls OK hangs or corrupts under IOMMU and ACS (provcheck nccl; NVIDIA/nccl#667)",
        per_gpu=60,
        of_gpus=True,
        active=True,
    ),
)
"""The cheap ones first."""


def arising(case: Case, *, of_gpus_only: bool = False) -> Iterator[Gate]:
    """The gates that arise for a profile or, without one, for the guest's GPUs."""
    for gate in GATES:
        if (case.desired is not None or gate.active) and (gate.of_gpus or not of_gpus_only):
            yield gate


def again(gate: Gate, words: Sequence[str], red: AbstractSet[str]) -> tuple[str, ...]:
    """What a person runs to look once more; a drafter without a config can have one written."""
    return (*words, "--write") if gate.id == "drafter" and "drafter.config" in red else tuple(words)


def nccl_variables(case: Case) -> dict[str, str]:
    """The NCCL variables that the service is started with: they change what is measured."""
    if case.desired is None:
        return {}
    return {name: value for name, value in sorted(case.variables.items()) if name.startswith("NCCL_")}


def silences_of(case: Case) -> str | None:
    """The file of findings that the service's owner has silenced; None where there are none."""
    return case.desired.silences_path if case.desired is not None and case.desired.silences else None
