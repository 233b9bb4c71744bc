"""Acts about baselines: a service measured as it runs, a fresh reading kept or not, what the inventory states."""

from __future__ import annotations

import json
import shlex
from typing import Any

from pyinfra.api.host import Host

from provision.acts import running, shell
from provision.acts.voice import Voice
from provision.host import transport
from provision.run.errors import ActFailed
from provision.stack import baselines, figures
from provision.stack.baselines import Belongs, NoReading
from provision.stack.cutover import Cutover, Measure

SECONDS = 420
"""The longest that a measurement may take: twice its window of 120 s, and what comes before and after."""


def stated(host: Host, file: tuple[str, bytes], say: Voice) -> None:
    """Puts the inventory's figure beside the readings."""
    path, data = file
    _folder(host, path)
    shell.put(host, path, data, mode="600")


def measure(host: Host, asked: Measure, say: Voice) -> None:
    """Measures a service as it runs; the reading lies where ``keep`` finds it. Raises ActFailed when it is not well."""
    desired, fresh = asked.desired, baselines.fresh(asked.path)
    _folder(host, fresh)
    words = ["--model", desired.name, "--unit", desired.service.unit]
    words += [*asked.words, "--diagnose", "--save-baseline", fresh, "--json"]
    say(f"{desired.name}: it is measured as it runs")
    try:
        done = transport.run(host, running.asked(desired, "serve", words), timeout=SECONDS)
        look = "" if done.ok else running.by_hand(host, desired)
    except OSError as error:
        raise ActFailed(f"measuring {desired.name}: {error}") from error
    if not done.ok:
        raise ActFailed(
            f"{desired.name} is not well as it runs ({_headline(done)}), so nothing is tried against it; it was not "
            f"touched. Look at it in the guest with: {look}"
        )


def _headline(done: transport.Completed) -> str:
    """The cause where the diagnosis knows one, else what was found."""
    try:
        report = json.loads(done.stdout)
        bad = [f for f in report["findings"] if f["status"] in ("fail", "unknown")]
        bad.sort(key=lambda finding: (finding["id"] != "serve.diagnosis", finding["status"] != "fail"))
        if len(bad) > 1 and not _explains(report):
            bad = [finding for finding in bad if finding["id"] != "serve.diagnosis"]
        return f"{bad[0]['id']} {bad[0]['status']}: {bad[0]['message']}"
    except (ValueError, KeyError, IndexError, TypeError):
        return (done.error_text.strip() or f"exit {done.rc}").splitlines()[-1]


def _explains(report: dict[str, Any]) -> bool:
    diagnosis = (report.get("facts") or {}).get("diagnosis")
    return bool(diagnosis["causes"]) if isinstance(diagnosis, dict) and "causes" in diagnosis else True


def keep(
    host: Host, service: str, digest: str, to: Belongs | None, run: str, shape: str = ""
) -> dict[str, str]:
    """Decides about the fresh reading of a service: where it was kept and why, nothing where the kept ones stay or
    there is no fresh one. Raises ActFailed."""
    path = baselines.path(service, to.key if to is not None else digest[:12])
    fresh = _read(host, baselines.fresh(path))
    if fresh is None:
        return {}
    places = [path]
    if to is not None:
        places.append(baselines.path(service, baselines.own_key(to.key, digest)))
    told = {}
    try:
        for place in places:
            why = baselines.worth_keeping(_read(host, place), fresh)
            if why is not None:
                shell.put(
                    host, place, baselines.with_origin(fresh.encode(), run, digest, to, shape), mode="600"
                )
                told[place] = why
    except NoReading as error:
        raise ActFailed(f"the measurement in {baselines.fresh(path)} cannot be kept: {error}") from error
    shell.run(host, f"rm -f -- {shlex.quote(baselines.fresh(path))}", "removing a fresh reading")
    return told


def held_to(host: Host, asked: Cutover) -> dict[str, Any] | None:
    """The figures of the baseline that a profile was held to; None where there is none, or it cannot be read."""
    path = asked.baseline
    try:
        return figures.baseline(_read(host, path)) if path is not None else None
    except (ActFailed, OSError):
        return None


def _read(host: Host, path: str) -> str | None:
    """A file's text; None when it is not there. Raises ActFailed."""
    quoted = shlex.quote(path)
    return shell.run(host, f"[ ! -e {quoted} ] || cat -- {quoted}", f"reading {path}") or None


def _folder(host: Host, path: str) -> None:
    folder = shlex.quote(path.rpartition("/")[0])
    shell.run(host, f"install -d -m 700 {shlex.quote(baselines.FOLDER)} {folder}", f"making {folder}")
