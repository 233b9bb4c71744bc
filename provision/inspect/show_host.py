"""What is true of a machine as a whole, in the words of an operator: one line for each thing that matters. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from provision.inspect.report import NONE, UNKNOWN

_NONE = (None, "", NONE)


def lines(host: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Heading and text. What was not looked at has no line: it is told among what could not be told."""
    yield from _of("driver", _driver(host))
    yield from _of("kernel", _kernel(host))
    yield from _of("boot loader", _listed(host, "boot_loaders", _loader))
    yield from _of("command line", _command_line(host.get("command_line")))
    yield from _of("Secure Boot", _plain(host.get("secure_boot")))
    yield from _of("other DKMS", _listed(host, "dkms", _other_dkms))
    yield from _of("VM", _listed(host, "virtual_machines", _vm))
    yield from _of("container", _listed(host, "containers", _container))
    yield from _of("mapping", _listed(host, "mappings", _mapping))
    yield from _of("NVSwitch", _listed(host, "nvswitches", _switch))
    yield from _of("fabric manager", _plain(host.get("fabric_manager")))
    told = {
        "driver", "modules_installed", "modules_loaded", "kernel_running", "kernel_next", "kernels_installed",
        "boot_loaders", "command_line", "secure_boot", "dkms", "virtual_machines", "containers", "nvswitches",
        "fabric_manager", "mappings", "majors", "device_nodes",
    }  # fmt: skip
    for name, value in host.items():
        if name not in told:
            yield from _of(name.replace("_", " "), _plain(value))


def _of(heading: str, said: str | Iterable[str] | None) -> Iterator[tuple[str, str]]:
    for text in [said] if isinstance(said, str) else said or ():
        if text and text != UNKNOWN:
            yield heading, text


def _listed(host: Mapping[str, Any], name: str, say: Any) -> list[str]:
    values = host.get(name)
    return [said for value in values if (said := say(value))] if isinstance(values, list | tuple) else []


def _plain(value: Any) -> str | None:
    """Any value in a line; None for one that says nothing."""
    if value is None or value in ("", [], {}):
        return None
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {said}" for key, one in value.items() if (said := _plain(one)))
    if isinstance(value, list | tuple):
        return ", ".join(said for one in value if (said := _plain(one)))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _driver(host: Mapping[str, Any]) -> Iterator[str]:
    loaded = host.get("driver")
    if isinstance(loaded, Mapping):
        none = loaded.get("version") in (None, "none")
        yield "none is loaded" if none else f"{loaded['version']} ({loaded['flavour']}) is loaded"
    for module in host.get("modules_installed") or ():
        if isinstance(module, Mapping):
            found = "" if module["modprobe_finds_it"] else ", which modprobe does not find (depmod -a)"
            yield f"{module['version']} ({module['flavour']}) is built for {module['kernel']}{found}"


def _kernel(host: Mapping[str, Any]) -> str | None:
    running, following = host.get("kernel_running"), host.get("kernel_next")
    if running in (None, UNKNOWN):
        return None
    boots = "boots next too" if following == running else f"next boot: {following}"
    installed = host.get("kernels_installed")
    others = (
        [one for one in installed if one not in (running, following)] if isinstance(installed, list) else []
    )
    return f"{running} runs, {boots}" + (f"; also installed: {', '.join(others)}" if others else "")


def _loader(loader: Any) -> str | None:
    if not isinstance(loader, Mapping):
        return _plain(loader)
    return f"{loader['name']}: edit {loader['edit']}, then {loader['then']}"


def _command_line(line: Any) -> str | None:
    if not isinstance(line, Mapping):
        return _plain(line)
    binds = _plain(line.get("binds"))
    return f"{line.get('text', '')}" + (f" (binds {binds})" if binds else "")


def _other_dkms(module: Any) -> str | None:
    if not isinstance(module, Mapping) or module.get("nvidia"):
        return None
    remarks = _plain(module.get("remarks"))
    where = f" for {module['kernel']}" if module.get("kernel") else ""
    return f"{module['module']} {module['version']}{where}: {module['state']}" + (
        f" ({remarks})" if remarks else ""
    )


def _vm(vm: Any) -> str | None:
    if not isinstance(vm, Mapping):
        return _plain(vm)
    name = f" ({vm['name']})" if vm.get("name") else ""
    more = [
        f"in section {vm['section']}" if vm.get("section") not in (None, "current") else "",
        "starts at boot" if vm.get("onboot") else "",
        f"HA wants it {vm['ha']}" if vm.get("ha") not in _NONE else "",
        f"hook script {vm['hookscript']}" if vm.get("hookscript") not in _NONE else "",
        f"not resolved: {vm['unresolved']}" if vm.get("unresolved") not in _NONE else "",
    ]
    said = "; ".join(one for one in more if one)
    state = "not known to run or not" if vm["status"] == UNKNOWN else vm["status"]
    return f"{vm['vm']}{name} is {state}, {vm['where']}: {vm['text']}" + (f" ({said})" if said else "")


def _container(container: Any) -> str | None:
    if not isinstance(container, Mapping):
        return _plain(container)
    kind = {True: "unprivileged", False: "privileged"}.get(container.get("unprivileged", ""), "")
    parts = [f"{container['id']}", kind, f"its configuration is {container['verdict']}"]
    devices = [_device(one) for one in container.get("devices") or ()]
    if devices:
        parts.append(f"passes in {', '.join(devices)}")
    majors = _plain(container.get("raw_majors"))
    if majors:
        parts.append(f"majors written down: {majors}")
    return ", ".join(part for part in parts if part)


def _device(device: Mapping[str, Any]) -> str:
    how = str(device["how"])
    key, _, options = how.partition(" ")
    raw = not key.startswith("dev")
    return f"{device['path']} ({how if raw or not options else f'{key}, {options}'}, line {device['line']})"


def _mapping(row: Any) -> str | None:
    if not isinstance(row, Mapping):
        return _plain(row)
    wrong = f"; wrong: {row['wrong']}" if row.get("wrong") else ""
    functions = ", ".join(row["functions"]) or "no function"
    return f"{row['mapping']} is {functions} on node {row['node']} ({row['where']}){wrong}"


def _switch(switch: Any) -> str | None:
    if not isinstance(switch, Mapping):
        return _plain(switch)
    return f"{switch['bdf']}, IOMMU group {switch['iommu_group']}"
