"""The shipped guard of one service, as a shell script that installs it: a passive look every five minutes, and alerts.

The units and rules are the files of ``templates/``; they lie beside the checkout, and inside ``checks`` in a wheel and
in the single file. A check changes no machine, so this prints what an operator may read and then run.
"""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

import checks
from checks.errors import BadInput
from checks.serving.address import server

SERVICE, TIMER, ALERTS = "kpro-guard.service.j2", "kpro-guard.timer.j2", "alerts.yml"
FILES = (SERVICE, TIMER, ALERTS)
PACKED = "_templates"
ALERTS_AT = "/etc/kpro/kpro-alerts.yml"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_PLAIN = re.compile(r"[A-Za-z0-9_./:@+\[\]-]+")
_IF = re.compile(r"\{%\s*if (\w+)\s*%\}(.*?)\{%\s*endif\s*%\}", re.S)
_VALUE = re.compile(r"\{\{\s*(\w+)\s*\}\}")


def script(url: str, name: str, baseline: str | None = None, key_file: str | None = None) -> str:
    """The script for one service. Raises BadInput for a name, address or path that no unit can hold as it stands."""
    if not _NAME.fullmatch(name):
        raise BadInput(f"--print-guard {name[:60]!r}: a name is letters, digits, '.', '_' and '-', like chat")
    values = {
        "name": name,
        "url": _plain("the address", server(url, "-").shown),
        "baseline": _absolute("--baseline", baseline),
        "key_file": _absolute("--api-key-file", key_file),
    }
    unit = f"kpro-guard-{name}"
    return _SCRIPT.format(
        unit=unit,
        name=name,
        alerts_at=ALERTS_AT,
        service=filled(text_of(SERVICE), values),
        timer=filled(text_of(TIMER), values),
        alerts=text_of(ALERTS),
    )


_SCRIPT = """#!/bin/sh
# Installs the guard of {name}: reads its counters every five minutes and sends it nothing.
# Undo: systemctl disable --now {unit}.timer; rm /etc/systemd/system/{unit}.* {alerts_at}
set -eu
die() {{ echo "guard of {name}: $1" >&2; exit 1; }}
[ -r /opt/kpro/provcheck.pyz ] || die "no such file; write it: provcheck pack /opt/kpro/provcheck.pyz"
id kpro >/dev/null 2>&1 || die "there is no user kpro to run it; make one: useradd --system --no-create-home kpro"
put() {{ mkdir -p "${{1%/*}}" && cat >"$1.new" && chmod 0644 "$1.new" && mv "$1.new" "$1"; }}
put /etc/systemd/system/{unit}.service <<'KPRO_GUARD_END'
{service}KPRO_GUARD_END
put /etc/systemd/system/{unit}.timer <<'KPRO_GUARD_END'
{timer}KPRO_GUARD_END
put {alerts_at} <<'KPRO_GUARD_END'
{alerts}KPRO_GUARD_END
systemctl daemon-reload
systemctl enable --now {unit}.timer
echo "guard of {name}: systemctl list-timers {unit}.timer; give {alerts_at} to Prometheus (rule_files), and"
echo "/var/lib/kpro-guard to node_exporter (--collector.textfile.directory)"
"""


def text_of(name: str) -> str:
    """A shipped file, from the package or from the checkout. Raises BadInput when the installation lacks it."""
    beside = Path(checks.__file__).absolute().parents[1] / "templates" / name
    try:
        packed = pkgutil.get_data("checks", f"{PACKED}/{name}")
    except OSError:
        packed = beside.read_bytes() if beside.is_file() else None
    if packed is None:
        raise BadInput(f"this installation of provcheck has no {name}; install it again from a whole wheel")
    return packed.decode()


def filled(template: str, values: dict[str, str | None]) -> str:
    """The template with its values. Of Jinja it knows what these files use: ``{{ name }}`` and ``{% if name %}``."""
    text = _IF.sub(lambda match: match[2] if values[match[1]] else "", template)
    return _VALUE.sub(lambda match: str(values[match[1]]), text)


def _absolute(option: str, path: str | None) -> str | None:
    if path is None:
        return None
    if not path.startswith("/"):
        raise BadInput(f"{option} {path[:100]!r}: the guard runs elsewhere, so give a path from / on")
    return _plain(option, path)


def _plain(what: str, text: str) -> str:
    if not _PLAIN.fullmatch(text):
        raise BadInput(
            f"{what} {text[:100]!r} holds a blank or another character that a unit file would read differently;"
            " use letters, digits and ./_-:@+"
        )
    return text
