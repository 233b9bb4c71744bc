"""The act of step 10: a cut-over. The guest is told it as a unit of its own, which ends also without a controller."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from io import BytesIO
from typing import Any

from pyinfra.api.host import Host

from provision.acts import caches, shell
from provision.acts.voice import Voice
from provision.data import engines
from provision.host import transport
from provision.run.errors import ActFailed
from provision.stack.cutover import Cutover, after
from provision.stack.desired import PYTHON, PYZ, DesiredService
from provision.stack.standing import Standing
from provision.templates import render

RECOVER = "/opt/kpro/bin/kpro-recover"
RECOVER_UNIT = "/etc/systemd/system/kpro-recover.service"
_MEASURED_SECONDS = 120
_GATE_EXTRA_SECONDS = 300
_BACK_SECONDS = 900
"""How long what served before may take to come back, at least; the scripts have the same."""

_ARM = """
set -u
install -d -m 755 /etc/systemd/system/basic.target.wants &&
  ln -sfn {unit} /etc/systemd/system/basic.target.wants/kpro-recover.service &&
  systemctl daemon-reload && systemctl is-enabled --quiet kpro-recover.service
"""


def cutover(host: Host, asked: Cutover, say: Voice) -> None:
    """Puts the staged profile into service. Raises ActFailed when it was refused; then the last good one is back."""
    desired = asked.desired
    if asked.forecast:
        say(f"{desired.service.unit}: {asked.forecast}")
    wait(host, desired, say)
    _arm(host)
    work = work_folder(desired)
    if asked.trial is not None:
        _put_trial(host, asked.trial, work)
    shell.put(host, f"{work}/told.json", json.dumps(_told(asked, say.run)).encode(), mode="600")
    if asked.taken_back is not None:
        was = asked.taken_back.verdict
        shell.put(host, f"{work}/taken-back.json", was.dump(), mode="600")
        shell.put(host, f"{work}/taken-back.why", was.why.encode(), mode="600")
    shell.put(host, f"{work}/run.sh", script(asked).encode(), mode="600")
    shell.put(host, f"{work}/mend.sh", mending(asked).encode(), mode="600")
    said: list[str] = []

    def heard(line: str) -> None:
        said.append(line)
        say(f"{host.name}: {line}")

    done = _follow(host, asked, heard, start=True)
    if done.rc != 0:
        lines = "\n".join(f"    {line}" for line in _last_words(said, done))
        raise ActFailed(f"putting {desired.service.unit} into service ended with {done.rc}:\n{lines}")
    caches.clean(host, say)


def wait(host: Host, desired: DesiredService, say: Callable[[str], None]) -> None:
    """Until no cut-over of the service is at work: one that an earlier run began is shown to its end. Raises
    ActFailed."""
    _follow(host, Cutover(desired, None, "again"), say, start=False)


def work_folder(desired: DesiredService) -> str:
    """Where a cut-over under way keeps its files; it is gone with the next boot."""
    return f"/run/kpro-cutover/{desired.name}"


def script(asked: Cutover) -> str:
    """The whole cut-over as one shell script for the guest."""
    return render("cutover.sh.j2", **_words(asked))


def mending(asked: Cutover) -> str:
    """What the guest does by itself after a cut-over that was ended before it could judge."""
    return render("cutover-mend.sh.j2", **_words(asked))


def _words(asked: Cutover) -> dict[str, Any]:
    desired, trial = asked.desired, asked.trial
    baseline = asked.baseline
    beats = ["--beats", f"{asked.beats:g}"] if asked.beats is not None else []
    if beats and baseline is not None:
        beats += ["--baseline", baseline, "--profile", desired.digest]
    outcome = [asked.record, *([] if asked.back else ["--keep", asked.keep])]
    was = asked.taken_back
    return {
        "unit": desired.service.unit,
        "staged_unit": shlex.quote(desired.staged_unit),
        "staged_environment": shlex.quote(desired.staged_environment),
        "name": desired.name,
        "mode": asked.mode,
        "digest": desired.digest,
        "url": shlex.quote(desired.url),
        "work": work_folder(desired),
        "trial_unit": trial.service.unit if trial else "",
        "trial_name": trial.name if trial else "",
        "trial_url": shlex.quote(trial.url) if trial else "",
        "provcheck": shlex.join([PYTHON, PYZ]),
        "of_inventory": not (asked.back or isinstance(desired, Standing)),
        "key_variables": "\\|".join(engines.KEY_VARIABLES),
        "ready_seconds": desired.service.ready_seconds,
        "drain_seconds": asked.drain_seconds,
        "gate_seconds": gate_seconds(asked.gate),
        "gate": shlex.join(asked.gate),
        "gate_in_place": trial is None and bool(asked.gate),
        "beats": shlex.join(beats),
        "keep_baseline": shlex.quote(asked.keep_baseline) if asked.keep_baseline else "",
        "outcome": shlex.join(outcome),
        "taken_back": shlex.join([was.path, "--keep", was.keep]) if was is not None else "",
    }


def gate_seconds(gate: tuple[str, ...]) -> int:
    """The longest that a measurement may take: twice its window, as much for each number at once, and some minutes."""
    window = float(after(gate, "--seconds") or _MEASURED_SECONDS)
    levels = len((after(gate, "--concurrency") or "").split(",")) if "--concurrency" in gate else 0
    return int(window * (2 + levels)) + _GATE_EXTRA_SECONDS


def _told(asked: Cutover, run: str) -> dict[str, str]:
    return {
        "schema": "kpro-trial/1",
        "digest": asked.desired.digest,
        "mode": asked.mode,
        "asked": asked.asked,
        "of": asked.of,
        "beside": asked.beside,
        "forecast": asked.forecast,
        "run": run,
    }


def _arm(host: Host) -> None:
    """Before anything is stopped: the next boot will put the last good profile back where a cut-over is open."""
    shell.put(host, RECOVER, render("kpro-recover.sh.j2").encode(), mode="755")
    shell.put(host, RECOVER_UNIT, render("kpro-recover.service.j2").encode(), mode="644")
    shell.run(host, _ARM.format(unit=RECOVER_UNIT), "enabling kpro-recover.service")


def _put_trial(host: Host, trial: DesiredService, work: str) -> None:
    checked = f"{work}/check/{trial.service.unit}"
    shell.put(host, checked, trial.unit.encode(), mode="644")
    shell.run(
        host,
        f"out=$(systemd-analyze verify {checked} 2>&1) || {{ printf '%s\\n' \"$out\" >&2; exit 1; }}\n"
        f"mv -fT {checked} {work}/trial.unit",
        f"verifying {trial.service.unit}",
    )
    shell.put(host, f"{work}/trial.env", trial.environment.encode(), mode="600")


def _follow(host: Host, asked: Cutover, heard: Callable[[str], None], *, start: bool) -> transport.Completed:
    """Runs on when the controller is gone, so that the machine stays busy until the cut-over is over."""
    name = asked.desired.name
    follower = render(
        "cutover-run.sh.j2",
        name=name,
        runner=f"kpro-cutover-{name}.service",
        work=work_folder(asked.desired),
        start=start,
        mend_seconds=max(asked.desired.service.ready_seconds, _BACK_SECONDS) + _GATE_EXTRA_SECONDS,
    )
    rest, stderr = bytearray(), bytearray()

    def lines(data: bytes) -> None:
        rest.extend(data)
        while b"\n" in rest:
            line, _, after = bytes(rest).partition(b"\n")
            rest[:] = after
            heard(line.decode("utf-8", "backslashreplace"))

    try:
        ended = transport.execute(host, follower, BytesIO(), lines, stderr.extend, lasting=True)
        done = ended.finish(b"", stderr)
    except OSError as error:
        raise ActFailed(f"putting {asked.desired.service.unit} into service: {error}") from error
    if done.rc != 0 and not start:
        raise ActFailed(
            f"looking for an earlier cut-over of {name} ended with {done.rc}:\n{shell.tail(done)}"
        )
    return done


def _last_words(said: list[str], done: transport.Completed) -> list[str]:
    """What was said from the refusal on; of one that did not come so far, the last lines."""
    starts = [
        at for at, line in enumerate(said) if re.search(r" was refused:$| was ended from outside ", line)
    ]
    words = said[starts[-1] :] if starts else said[-15:]
    return [*words, *done.error_text.splitlines()[-5:]]
