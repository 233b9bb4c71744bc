"""The transient unit on the source: shell text that goes on by itself, whoever listens.

Its folder holds everything: what to copy, the key, what each rsync says, the state. A try that fails is begun anew by
systemd, later each time; what another try cannot mend ends it.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from provision.migrate.copy import hashing, reasons
from provision.migrate.copy.key import HOST, folder, mark
from provision.migrate.copy.model import RUN_FOLDER, CopySettings, Place

SHELL = "shell"
"""File of the run's folder: rsync's way to ssh where links are followed."""
FOLLOWING = """# rrsync refuses an option that only the sender needs: it is left out of what the target is asked.
config=$1
shift
for word; do
  shift
  [ "$word" = --copy-unsafe-links ] || set -- "$@" "$word"
done
exec ssh -F "$config" "$@"
"""
GAVE_UP = 70
"""Exit status after which systemd does not start it again."""


@dataclass(frozen=True)
class Job:
    """One folder of a run. ``key``: number of the key that may write beside its place; ``users`` and ``groups``:
    rsync's maps; ``lists``: how many lists of large files there are; ``send``: False where the target has the folder
    already and only checksums are needed."""

    number: int
    source: Place
    name: str
    key: int
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    lists: int = 0
    send: bool = True

    def owner(self, user: int, group: int) -> tuple[int, int]:
        """A file's on the target."""
        return _mapped(user, self.users), _mapped(group, self.groups)


def _mapped(number: int, pairs: tuple[str, ...]) -> int:
    found = dict(pair.split(":") for pair in pairs)
    return int(found.get(str(number), number))


_HEAD = """#!/bin/sh
# Copies folders of this machine to another one; `phase` in `state` says how far it is.
export LC_ALL=C
umask 077
cd {folder} || exit {gave_up}
n=$(( $(cat attempt 2>/dev/null || echo 0) + 1 ))
echo $n > attempt
say() {{ # phase, why
  printf 'phase=%s\\nattempt=%s\\nbegan=%s\\nwhy=%s\\n' "$1" "$n" "${{began:-0}}" "$2" > state.new
  mv -f state.new state
}}
why() {{ cat -- *.err 2>/dev/null | grep -v '^$' | tail -n 3 | tr '\\n' ' ' | cut -c 1-600; }}
fail() {{ # why: ends this try, and all of them when another one is useless
  most={tries}
  # The connection was there, and something was not taken.
  if cat -- *.err 2>/dev/null | grep -q '(code 23)'; then most=3; fi
  if [ "$n" -ge $most ] || cat -- *.err 2>/dev/null | grep -Eq {final}; then say failed "$1"; exit {gave_up}; fi
  # One that worked for some minutes was no failure to begin with.
  [ $(( $(date +%s) - began )) -lt 180 ] || echo 0 > attempt
  say waiting "$1"
  exit 1
}}
enter() {{
  case $1 in
{enter}
  esac
}}
list() {{
  case $1 in
{lists}
  esac
}}
sums() {{
  case $1 in
{sums}
  esac
}}
job() {{
  case $1 in
{jobs}
  esac
}}
again() {{ # a single file is sent as a whole
  grep -qzvx . $1/again || return 0
  echo --ignore-missing-args --from0 --files-from={folder}/$1/again
}}
{low}
"""
_BODY = """
if [ "$n" -gt 1 ]; then
  pause=$(( 1 << (n < 7 ? n - 1 : 6) ))
  say waiting "$(why)"
  sleep $pause
fi
began=$(date +%s)
rm -f -- *.out *.err
say copying ''
for k in {numbers}; do
  [ -e $k/sums ] ||
    ( enter $k && sums $k > {folder}/$k/sums.new && mv -f {folder}/$k/sums.new {folder}/$k/sums ) 2>$k.hash &
done
send() {{ # folder, name of the outputs, KiB a second, more of rsync's arguments
  k=$1 o=$2 limit=$3
  shift 3
  job $k
  # rsync asks for the name of its folder at once, and one of a container has none here: it is handed over open.
  ( enter $k && exec 3<. && cd {folder} && exec rsync -rlptgoHS --numeric-ids --inplace --no-inc-recursive \\
      --no-human-readable --timeout={stall} $limit --info=progress2,stats2 -ii --out-format='kpro %i %l' \\
      --outbuf=L $more "$@" -e "$shell {folder}/ssh.$key" $delete \\
      "/proc/self/fd/3/${{from#./}}" "{host}:$into" ) >$o.out 2>$o.err </dev/null
  rc=$?
  # A file that is gone meanwhile is named when both sides are compared.
  [ $rc = 24 ] || return $rc
}}
for k in {sent}; do
  pids='' bad=0
  for list in {folder}/$k/list.*; do
    [ -e "$list" ] || continue
    send $k $k.${{list##*.}} '{each}' --ignore-missing-args --from0 --files-from="$list" &
    pids="$pids $!"
  done
  for pid in $pids; do wait $pid || bad=1; done
  [ $bad = 0 ] || fail "$(why)"
  if [ -s $k/again ]; then
    send $k $k.again '{all}' --ignore-times $(again $k) || fail "$(why)"
    rm -f $k/again
  fi
  send $k $k.rest '{all}' || fail "$(why)"
done
for k in {numbers}; do
  ( enter $k && list $k > {folder}/$k/after.new && mv -f {folder}/$k/after.new {folder}/$k/after ) 2>$k.err ||
    fail "$(why)"
done
say checking ''
wait
for k in {numbers}; do [ -e $k/sums ] || {{ cat $k.hash > $k.err; fail "checksums: $(why)"; }}; done
say 'done' ''
"""


def script(run: str, jobs: Sequence[Job], settings: CopySettings) -> str:
    """The unit's program."""
    here = folder(run)
    limit = settings.bwlimit_mib
    # A limit of 0 means none to rsync.
    kib = None if limit is None else max(round(limit * 1024), 1)
    most = max([job.lists for job in jobs] or [1]) or 1
    enter = "\n".join(f"{job.number}) {hashing.enter(job.source)} ;;" for job in jobs)
    head = _HEAD.format(
        folder=here,
        gave_up=GAVE_UP,
        tries=settings.tries,
        final=shlex.quote(reasons.final()),
        enter=enter,
        lists="\n".join(f"{job.number}) {hashing.find(job.source)} ;;" for job in jobs),
        sums="\n".join(f"{job.number}) {hashing.hashes(job.source, low=True)} ;;" for job in jobs),
        jobs="\n".join(f"{job.number}) {_facts(run, job)} ;;" for job in jobs),
        low=hashing.LOW,
    )
    return head + _BODY.format(
        folder=here,
        numbers=" ".join(str(job.number) for job in jobs),
        sent=" ".join(str(job.number) for job in jobs if job.send),
        host=HOST,
        stall=settings.stall_seconds,
        each="" if kib is None else f"--bwlimit={max(kib // most, 1)}",
        all="" if kib is None else f"--bwlimit={kib}",
    )


def _facts(run: str, job: Job) -> str:
    more = ["--copy-unsafe-links"] if job.source.follow else []
    more += [
        f"--{option}={','.join(pairs)}"
        for option, pairs in (("usermap", job.users), ("groupmap", job.groups))
        if pairs
    ]
    shell = f"/bin/sh {folder(run)}/{SHELL}" if job.source.follow else "ssh -F"
    return f"shell='{shell}' key={job.key} name={shlex.quote(job.name)} more='{' '.join(more)}'"


def start(run: str, settings: CopySettings) -> str:
    """For the source: the unit runs, from its first try on; one that runs already goes on. systemd.service(5)."""
    unit = f"{mark(run)}.service"
    return f"""set -eu
case $(systemctl is-active {unit} || true) in active|activating|deactivating|reloading) exit 0 ;; esac
systemctl reset-failed {unit} 2>/dev/null || true
cd {folder(run)}
rm -f attempt
printf 'phase=copying\\nattempt=1\\n' > state
exec systemd-run --quiet --collect --unit={unit} --description='kpro: copy of a service to another host' \\
  -p Restart=on-failure -p RestartSec=1 -p RestartPreventExitStatus={GAVE_UP} -p StartLimitIntervalSec=0 \\
  -p Nice=10 -p IOSchedulingClass=idle \\
  -p KillMode=control-group -p TimeoutStopSec=20 -p StandardOutput=null -p StandardError=null \\
  /bin/sh {folder(run)}/copy
"""


def stop(run: str) -> str:
    unit = f"{mark(run)}.service"
    return f"systemctl stop {unit} 2>/dev/null; systemctl reset-failed {unit} 2>/dev/null; true\n"


def clear(run: str) -> str:
    """Ends the unit; the key and all else of the run's folder is gone."""
    return (
        stop(run) + f"rm -rf --one-file-system -- {folder(run)}\nrmdir -- {RUN_FOLDER} 2>/dev/null || true\n"
    )


def clear_target(run: str) -> str:
    return f"rm -rf -- {folder(run)}\nrmdir -- {RUN_FOLDER} 2>/dev/null || true\n"
