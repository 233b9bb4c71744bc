"""Programs of the two hosts of the model: as many words as the runbook says to them, and exit 99 for any other.

What they were asked is written into ``asked`` (one word for each kind of answer), what they could not answer into
``unasked``, both beside the hosts.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

UNIT = "kpro-chat.service"

_HEAD = """#!/bin/sh
MODEL=@MODEL@
it() { echo "$1" >>"$MODEL/asked"; }
no() { echo "$WHERE: ${0##*/} $*" >>"$MODEL/unasked"; exit 99; }
"""

_SYSTEMCTL = """
run=/run/double etc=/etc/systemd/system
[ -d $run ] || mkdir -p $run
words=$*
unit() { case $1 in kpro-chat.service|kpro-migrate-*.service) u=$1 ;; *) no "$words" ;; esac; }
loaded() { [ -e $run/$u.loaded ] || { [ ! -e $etc/$u ] || cat $etc/$u $etc/$u.d/*.conf >$run/$u.loaded 2>/dev/null; }; }
up() {
  [ ! -e $run/$u.up ] || return 0
  [ -e $etc/$u ] || { echo "Unit $u not found." >&2; exit 5; }
  loaded
  while read -r line; do
    case $line in ConditionPathExists=!*) [ ! -e "${line#*!}" ] || return 0 ;; esac
  done <$run/$u.loaded
  # No two starts have one, and a migration that was disturbed by nothing has the same each time.
  id=0; [ ! -e "$MODEL/starts" ] || read -r id <"$MODEL/starts"
  echo $((id + 1)) >"$MODEL/starts"
  id=$(printf %032d $id)
  # What it was started with is what it answers from, whatever the files become.
  { echo $id; cat /srv/models/*/model-*.safetensors 2>/dev/null | sha256sum; } >$run/$u.new
  mv $run/$u.new $run/$u.up
}
down() {
  if [ -e $run/$u.pid ]; then
    read -r pid <$run/$u.pid
    kill -9 -- -$pid 2>/dev/null
    rm -f $run/$u.pid
  fi
  rm -f $run/$u.up
}
show() { # the value of a property
  case $1 in
    LoadState) [ -e $etc/$u ] && echo loaded || echo not-found ;;
    ActiveState) [ -e $run/$u.up ] && echo active || echo inactive ;;
    SubState) [ -e $run/$u.up ] && echo running || echo dead ;;
    FragmentPath) [ ! -e $etc/$u ] || echo $etc/$u ;;
    UnitFileState) [ -e $etc/wants/$u ] && echo enabled || echo disabled ;;
    InvocationID) [ ! -e $run/$u.up ] || { read -r id <$run/$u.up; echo $id; } ;;
    Result) echo success ;;
    ExecMainStatus|MainPID) echo 0 ;;
    ControlGroup) echo ;;
    Transient|NeedDaemonReload) echo no ;;
    CanStart|CanStop) echo yes ;;
    *) no "$words" ;;
  esac
}
verb=$1
shift
case $verb in
  daemon-reload)
    it daemon-reload
    for file in $run/*.loaded; do
      [ -e $file ] || continue
      rm -f $file; u=${file##*/}; u=${u%.loaded}; loaded || :
    done ;;
  show)
    value= names=
    while [ $# -gt 0 ]; do
      case $1 in
        -p) names="$names $2"; shift ;;
        --value) value=1 ;;
        *) unit "$1" ;;
      esac
      shift
    done
    for name in $names; do
      it show-$name
      [ -n "$value" ] || printf '%s=' $name
      said=$(show $name) || exit $?
      echo "$said"
    done ;;
  cat) unit "$1"; it cat; [ -e $etc/$u ] || exit 1; cat $etc/$u; cat $etc/$u.d/*.conf 2>/dev/null; : ;;
  start) [ "$1" != --no-block ] || shift; unit "$1"; it start; up ;;
  stop) unit "$1"; it stop; down ;;
  restart) unit "$1"; it restart; down; up ;;
  is-active)
    quiet=; [ "$1" != --quiet ] || { quiet=1; shift; }
    unit "$1"; it is-active
    state=inactive
    [ ! -e $run/$u.pid ] && [ ! -e $run/$u.up ] || state=active
    [ -n "$quiet" ] || echo $state
    [ $state = active ] ;;
  is-enabled) unit "$2"; it is-enabled; [ -e $etc/wants/$u ] ;;
  enable) unit "$2"; it enable; mkdir -p $etc/wants; : >$etc/wants/$u ;;
  disable)
    [ "$2" != --now ] || { shift; now=1; }
    unit "$2"; it disable; rm -f $etc/wants/$u; [ -z "${now-}" ] || down ;;
  reset-failed) unit "$1"; it reset-failed; [ -e $etc/$u ] ;;
  *) no "$words" ;;
esac
"""

# A unit that runs in the background: begun anew when it fails, not after 70, gone when it ends.
_SYSTEMD_RUN = """
words=$* u= again=
for word; do
  case $word in
    --quiet|--collect|--description=*|-p|Nice=*|IOSchedulingClass=*|RestartSec=*|StartLimitIntervalSec=0) ;;
    KillMode=control-group|TimeoutStopSec=*|StandardOutput=null|StandardError=null|RestartPreventExitStatus=70) ;;
    --unit=kpro-migrate-*.service) u=${word#--unit=} ;;
    Restart=on-failure) again=1 ;;
    /bin/sh|/run/kpro-migrate/*/copy) file=$word ;;
    *) no "$words" ;;
  esac
done
[ -n "$u" ] && [ -n "$again" ] || no "$words"
it systemd-run
[ -d /run/double ] || mkdir -p /run/double
[ ! -e /run/double/$u.pid ] || { echo "unit $u already exists" >&2; exit 1; }
setsid sh -c '
  echo $$ >/run/double/$1.pid
  while :; do
    sh "$2"; rc=$?
    [ $rc != 0 ] && [ $rc != 70 ] || break
    sleep 1
  done
  rm -f /run/double/$1.pid' sh $u "$file" </dev/null >/dev/null 2>&1 &
for n in 1 2 3 4 5 6 7 8 9; do [ ! -e /run/double/$u.pid ] || exit 0; sleep 1; done
"""

# The target's sshd: the line of its authorized_keys that has the key says what runs there, and nothing else does.
_SSH = r"""
[ "$1" = -F ] && [ "$3 $4" = "kpro-target rsync" ] || no "$@"
it ssh
key=$(cut -d' ' -f2 "${2%ssh.*}key.${2##*ssh.}.pub" 2>/dev/null) ||
  { echo "root@target: Permission denied (publickey)." >&2; exit 255; }
shift 3
[ ! -e "$MODEL/cut" ] || { echo 'ssh: connect to host target port 22: No route to host' >&2; exit 255; }
read -r pid <"$MODEL/pid.target"
WHERE=target
export WHERE
exec $ENTER "$pid" -- sh -c '
  line=$(grep -F -- " $1 " /root/.ssh/authorized_keys) ||
    { echo "root@target: Permission denied (publickey)." >&2; exit 255; }
  command=${line#*command=\"}
  command=${command%%\"*}
  SSH_ORIGINAL_COMMAND=$2
  export SSH_ORIGINAL_COMMAND
  exec $command' sh "$key" "$*"
"""

_RRSYNC = """
[ "$1" != -help ] || { it rrsync-help; echo ' -no-lock'; exit 0; }
[ "$1" = -wo ] && [ "$2" = -no-lock ] || no "$@"
it rrsync
case $SSH_ORIGINAL_COMMAND in "rsync --server "*) ;; *) no "$SSH_ORIGINAL_COMMAND" ;; esac
cd "$3" || exit 1
exec $SSH_ORIGINAL_COMMAND
"""

_KEYGEN = """
[ "$1 $2 $3 $4 $5 $6 $8" = "-q -t ed25519 -N  -C -f" ] || no "$@"
it ssh-keygen
echo "PRIVATE KEY" >"$9"
echo "ssh-ed25519 PUBLIC-$9 $7" >"$9.pub"
"""

# python3 of a host has no hashlib: sha256sum takes the checksums. In a guest it runs what the probe has brought.
_PYTHON = """
case $1 in
  -c) case $2 in
      'import hashlib, concurrent.futures') it no-hashlib; exit 1 ;;
      'import sys; sys.exit(sys.version_info < (3, 10))') it python-version; exit 0 ;;
      *) no "$@" ;;
    esac ;;
  /opt/kpro/provcheck.pyz)
    [ "$2 $3 $4 $5 $6" = "gpus --expect 0 --gate --json" ] || no "$@"
    it gate
    [ ! -e "$MODEL/fail-gate" ] || { echo '{"schema": "provcheck/1", "verdict": "fail", "findings": []}'; exit 1; }
    echo '{"schema": "provcheck/1", "verdict": "pass", "findings": []}' ;;
  /run/kpro-migrate/*/provcheck.pyz) [ -e "$1" ] || exit 2; export MODEL; exec /bin/sh "$@" ;;
  *) no "$@" ;;
esac
"""

_IP = """
[ "$1 $2 $3" = "-o route get" ] || no "$@"
it route
echo "$4 dev eth0 src 192.0.2.6 uid 0"
"""

_SLEEP = """exec {sleep} 0.02
"""

_JOURNALCTL = """it journalctl
"""

PROVCHECK = (
    _HEAD.replace("MODEL=@MODEL@\n", "")
    + """
up=/run/double/kpro-chat.service.up
case $1 in
  _generate)
    it generate
    [ -e $up ] || { echo '{"ok": false, "why": "nothing listens"}'; exit 1; }
    cat /srv/models/*/model-*.safetensors >/dev/null 2>&1 ||
      { echo '{"ok": false, "why": "a shard cannot be read"}'; exit 1; }
    echo '{"ok": true, "why": "generated"}' ;;
  _drain) it drain; echo 'no request is in flight' ;;
  serve)
    it serve
    echo '{"schema": "provcheck/1", "verdict": "pass", "findings": []}' ;;
  _lasterror) it lasterror; cat "$2" ;;
  *) no "$@" ;;
esac
"""
)
"""Stands where provcheck.pyz is brought to: it answers for the unit of its own guest."""

# What leads the clients: a file that says who gets new requests.
_HOOK = """
verb=$1
it hook-$verb
[ ! -e "$MODEL/fail-$verb" ] || { echo "the load balancer does not answer" >&2; exit 1; }
case $verb in
  drain) who=nobody ;;
  switch) who=target ;;
  back) who=source ;;
  check) cat "$MODEL/traffic"; exit ;;
esac
echo $who >"$MODEL/traffic"
"""

DOUBLES = {
    "systemctl": _SYSTEMCTL,
    "systemd-run": _SYSTEMD_RUN,
    "ssh": _SSH,
    "rrsync": _RRSYNC,
    "ssh-keygen": _KEYGEN,
    "python3": _PYTHON,
    "ip": _IP,
    "journalctl": _JOURNALCTL,
    "hook": _HOOK,
}

ANSWERS = frozenset(
    word
    for text in (*DOUBLES.values(), PROVCHECK)
    for word in re.findall(r"^(?!\s*#).*\bit ([a-z][a-z-]*)(?=[\s;])", text, re.M)
)
"""Every kind of answer but those of ``systemctl show`` and the hooks."""

ONLY_IN_TROUBLE = frozenset({"lasterror", "journalctl"})
"""Asked where something does not come up, which no undisturbed migration does."""


def needs() -> None:
    """Before anything is started: the copies are those of the real rsync."""
    assert shutil.which("rsync"), "rsync is missing: scripts/bootstrap --tests installs it"


def put(folder: Path, stage: Path) -> None:
    """Writes them into a folder that comes first in PATH. ``stage``: what the hosts lie in, by a path that holds
    everywhere."""
    folder.mkdir()
    real = {name: shutil.which(name) for name in ("sleep", "awk")}
    for name, text in {**DOUBLES, "sleep": _SLEEP.format(sleep=real["sleep"])}.items():
        (folder / name).write_text((_HEAD + text).replace("@MODEL@", str(stage)))
        (folder / name).chmod(0o755)
    # Debian leads to awk over /etc, which the hosts have of their own.
    (folder / "awk").symlink_to(Path(str(real["awk"])).resolve())
