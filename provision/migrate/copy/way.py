"""The way from source to target: folders to gather in, one-off keys, known hosts, a first connection."""

from __future__ import annotations

from provision.migrate.copy import ends, key, look, place, reasons, scripts
from provision.migrate.copy.model import CopyFailed, CopySettings
from provision.migrate.copy.parts import Part, with_keys
from provision.migrate.sides import Side

_NEEDED = """for p in rsync ssh ssh-keygen systemd-run; do
  command -v $p >/dev/null || { echo "$p is missing" >&2; exit 1; }
done
"""
_RRSYNC = """p=$(command -v rrsync) || { echo 'rrsync is missing' >&2; exit 1; }
"$p" -help | grep -q -e -no-lock || { echo "$p has no -no-lock: rsync 3.2.7 or later has it" >&2; exit 1; }
echo "$p"
"""
REFUSED = "Permission denied ("


def write(source: Side, run: str, name: str, data: bytes) -> None:
    ends.run(source, scripts.write(run, name), f"writing {name}", stdin=data)


def gather(target: Side, parts: tuple[Part, ...], run: str) -> None:
    """The folders that the run gathers in. Raises CopyFailed."""
    for part in with_keys(parts):
        ends.at(target, part.target, place.gather(part.target, run), "making the staging folder")


def open_way(
    source: Side,
    target: Side,
    parts: tuple[Part, ...],
    run: str,
    settings: CopySettings,
    *,
    probe: bool,
) -> None:
    """``probe``: try a connection with each key. Raises CopyFailed."""
    ends.run(source, _NEEDED, "looking for the programs of a copy")
    keyed = with_keys(parts)
    public = ends.run(source, key.make(run, len(keyed)), "making the key").text.splitlines()
    known = key.known_hosts(look.host_keys(target), settings)
    write(source, run, "known_hosts", known.encode())
    for number in range(len(keyed)):
        write(source, run, f"ssh.{number}", key.ssh_config(run, number, settings).encode())
    rrsync = [ends.at(target, part.target, _RRSYNC, "looking for rrsync").text.strip() for part in keyed]
    given = settings.source_address
    own = source.host(scripts.route(settings.address)).text.strip() or None

    def put(came_from: str | None) -> str:
        """What a first connection said, nothing when it worked."""
        lines = [
            key.line(text, part.target, run, settings, program, came_from)
            for text, part, program in zip(public, keyed, rrsync, strict=True)
        ]
        stdin = "\n".join([str(settings.key_hours), *lines]) + "\n"
        ends.run(target, key.authorized(run), "putting the key", stdin=stdin.encode())
        return _tried(source, run, len(lines)) if probe else ""

    said = put(given or own)
    if REFUSED in said and own is not None and given is None:
        # Something between the two gives the source another address: the key stays restricted in all else.
        said = put(None)
    if said:
        why = reasons.reason(said)
        raise CopyFailed(f"{source.name} cannot write to {target.name}: {said}", why.why, why.next)


def _tried(source: Side, run: str, keys: int) -> str:
    for number in range(keys):
        done = source.host(scripts.probe(run, number), timeout=90)
        if not done.ok:
            return " ".join(done.error_text.split())[-400:] or f"exit {done.rc}"
    return ""
