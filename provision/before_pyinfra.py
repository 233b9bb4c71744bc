"""What plain ``pyinfra`` is refused before it connects. ``config.py`` calls this: it is the only file that
pyinfra executes before it reads the inventory, and pyinfra alone takes a mistyped inventory, a limit that
matches nothing and a host that does not resolve for an empty inventory, does nothing and ends with 0.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from provision.inventory import Inventory, InventoryRefused, find, folders_of_inventories, load
from provision.inventory.resolving import why_not
from provision.spec import Ssh


def reasons(parameters: Mapping[str, Any]) -> list[str]:
    """Why this call of pyinfra must not go on; empty when it may. ``parameters`` are those of its command
    line (inventory, operations, limit, exclude, data)."""
    inventory = str(parameters["inventory"])
    operations = [str(word) for word in parameters.get("operations") or ()]
    limit, exclude = tuple(parameters.get("limit") or ()), tuple(parameters.get("exclude") or ())
    deploys = any(Path(word).name == "deploy.py" for word in operations)
    path = Path(inventory)
    if path.is_file():
        if not deploys and not of_specs(path):
            return []
        try:
            found = load(
                inventory,
                files="all" if deploys else "none",
                names=operations[:1] != ["debug-inventory"],
                limit=_own(limit, exclude),
            )
        except InventoryRefused as refused:
            return refused.reasons
        return _limits(found, limit, exclude)
    if "," not in inventory and "@" not in inventory and ":" not in inventory:
        wrong = _no_file(inventory, deploys, _ssh_hostname(parameters))
        if wrong:
            return wrong
    if deploys:
        return [
            f"deploy.py needs an inventory of specs, and {inventory} only names hosts: nothing says which "
            "GPUs, guests and services belong to them. Write one (inventories/kpro5.py is a model), or let "
            f"`provision init {inventory.split(',')[0]}` write it"
        ]
    return _adhoc(inventory, limit, _ssh_hostname(parameters))


def of_specs(path: Path) -> bool:
    """Whether a file imports kpro's specs: only then it is judged for commands other than the deploy."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return True
    return any(
        isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "provision"
        for node in ast.walk(tree)
    ) or any(
        alias.name.split(".")[0] == "provision"
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    )


def _own(limit: Sequence[str], exclude: Sequence[str]) -> tuple[str, ...]:
    """The limit as far as names must be resolved for it: with an exclusion, everything is looked at."""
    return () if exclude else tuple(limit)


def _limits(inventory: Inventory, limit: Sequence[str], exclude: Sequence[str]) -> list[str]:
    """pyinfra knows hosts and groups only, not the short names of machines and guests."""
    everything = inventory.selected()
    groups = {
        "metal": {machine.host_name for machine in everything.metal},
        "guests": {machine.guest_host_name(guest) for machine, guest in everything.guests},
        "all": set(everything.host_names),
        inventory.path.stem: set(everything.host_names),
        **{name: set(hosts) for name, hosts in inventory.groups.items()},
    }
    wrong: list[str] = []
    chosen: dict[str, set[str]] = {"--limit": set(), "--exclude": set()}
    for option, patterns in (("--limit", limit), ("--exclude", exclude)):
        for pattern in patterns:
            hosts = groups.get(pattern) or {host for host in groups["all"] if fnmatchcase(host, pattern)}
            chosen[option] |= hosts
            if not hosts:
                wrong.append(_unmatched(inventory, option, pattern))
    left = (chosen["--limit"] if limit else groups["all"]) - chosen["--exclude"]
    if not left and not wrong:
        wrong.append("--exclude leaves no host of what --limit names: nothing would be done")
    return wrong


def _unmatched(inventory: Inventory, option: str, pattern: str) -> str:
    try:
        meant = inventory.selected([pattern]).host_names
    except InventoryRefused as refused:
        return refused.reasons[0].replace("--limit", option, 1)
    names = " ".join(f"{option} {name}" for name in meant)
    return f"{option} {pattern} matches no host of pyinfra, which calls it otherwise: write {names}"


def _no_file(inventory: str, deploys: bool, ssh_hostname: str | None) -> list[str]:
    """A single word that is no file: a mistyped inventory, or a host."""
    if "/" in inventory or inventory.endswith(".py"):
        try:
            find(inventory)
        except InventoryRefused as refused:
            return refused.reasons
    for folder in folders_of_inventories():
        file = folder / f"{inventory}.py"
        if re.fullmatch(r"[\w-]+", inventory) and file.is_file():
            shown = file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
            return [f"pyinfra takes {inventory!r} for a host name: write the file, {shown}"]
    why = None if ssh_hostname else why_not(Ssh.model_construct(host=inventory), 10.0)
    if why is None:
        return []
    wrong = [f"{inventory!r} is neither an inventory file nor a host: {why}"]
    try:
        find(inventory)
    except InventoryRefused as refused:
        wrong += refused.reasons if deploys else []
    return wrong


def _ssh_hostname(parameters: Mapping[str, Any]) -> str | None:
    """``--data ssh_hostname=…`` gives any name a host."""
    pairs = (str(pair).partition("=") for pair in parameters.get("data") or ())
    return next((value for key, _, value in pairs if key == "ssh_hostname"), None)


def _adhoc(inventory: str, limit: Iterable[str], ssh_hostname: str | None) -> list[str]:
    """Hosts named on the command line, for facts and single commands: each must lead somewhere."""
    if ":" in inventory:
        return []
    hosts = inventory.split(",")
    wrong = [
        f"host {why}"
        for host in ([ssh_hostname] if ssh_hostname else hosts)
        if "@" not in host
        for why in [why_not(Ssh.model_construct(host=host), 10.0)]
        if why
    ]
    named = [host for host in hosts for pattern in limit if pattern == "all" or fnmatchcase(host, pattern)]
    if limit and not named:
        wrong.append(f"--limit {' --limit '.join(limit)} matches none of {', '.join(hosts)}")
    return wrong
