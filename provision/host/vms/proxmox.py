"""Proxmox: which virtual machines name PCI functions, resolved, and what is known of their life. Pure.

At its start qemu-server itself binds every function that is no bridge of the named functions' IOMMU groups to vfio-pci,
and never gives them back (PVE/QemuServer/PCI.pm, PVE/SysFSTools.pm): a definition alone is a holder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from checks.snapshot import CouldNotLook, Snapshot
from provision.host.vms import grammar, life
from provision.host.vms.address import PciAddress, addresses
from provision.host.vms.grammar import CURRENT, PENDING, Setting
from provision.host.vms.mapping import Mapped, mappings
from provision.host.vms.model import Section, VmReference

PVE = "/etc/pve"
MAPPING = f"{PVE}/mapping/pci.cfg"
_CONF = re.compile(rf"{PVE}/(?:nodes/(?P<node>[^/]+)/)?qemu-server/(?P<vmid>\d+)\.conf")
_HOSTPCI = re.compile(r"hostpci(?:\d|1[0-5])")
"""Of other numbers qemu-server says that the setting is unknown, and passes them over."""

_ARGS = re.compile(
    r"vfio-pci[^\s']*?,(?:\S*,)?(?:host=|sysfsdev=/sys/\S*/)([0-9A-Fa-f]+:[0-9A-Fa-f:.]+)(?=[,'\"\s]|$)"
    r"|\{(?=[^}]*\"driver\"\s*:\s*\"vfio-pci)[^}]*\"(?:host|sysfsdev)\"\s*:\s*\"(?:/sys/[^\"]*/)?([0-9A-Fa-f]+:[0-9A-Fa-f:.]+)\""
)
"""``-device vfio-pci,host=…``, by a path of sysfs, or in JSON (qemu(1); hw/vfio/pci.c, ``vfio_pci_dev_properties``)."""


def references(snapshot: Snapshot) -> tuple[VmReference, ...]:
    """What Proxmox's virtual machines name. Raises CouldNotLook when the cluster file system is not mounted."""
    nodes = snapshot.data("vms", PVE)
    if nodes is None:
        return ()
    if not nodes.strip() and not any(map(_CONF.fullmatch, snapshot.paths("file"))):
        raise CouldNotLook(f"{PVE} is there and has no node in it: is pve-cluster.service running?")
    node = local_node(snapshot)
    _all_seen(snapshot, node)
    known = mappings(text_of(snapshot, MAPPING))
    unknown = not _is_known(snapshot, MAPPING)
    kept = life.ha_states(text_of(snapshot, life.RESOURCES))
    found: list[VmReference] = []
    for path, owner, vmid in _definitions(snapshot, node):
        local = node is None or owner == node
        for reference in _of(snapshot, path, owner, vmid, local, known, kept, node):
            if unknown and reference.mapping is not None and reference.startable:
                raise CouldNotLook(
                    f"what {reference} takes is not known: the record does not show {MAPPING}, which says so"
                )
            found.append(reference)
    return tuple(sorted(found, key=lambda one: (not one.local, int(one.vmid))))


def _is_known(snapshot: Snapshot, path: str) -> bool:
    """Is it there, or positively absent? What a record does not show may be there."""
    return snapshot.file(path) is not None or snapshot.shows(path)


def _all_seen(snapshot: Snapshot, node: str | None) -> None:
    """Raises CouldNotLook when ``qm list`` of a record names a virtual machine of this node without a definition."""
    if ("cmd", "qm-list") not in snapshot.sections:
        return
    code, output = snapshot.command("qm-list")
    if code != 0:
        raise CouldNotLook(f"qm list ended with {code}: {output.strip()[:200]}")
    there = {vmid for _, _, vmid in _definitions(snapshot, node)}
    for pattern in (f"{PVE}/nodes/*/qemu-server/*.conf", f"{PVE}/qemu-server/*.conf"):
        if ("names", pattern) in snapshot.sections:
            names = (snapshot.data("names", pattern) or b"").decode(errors="surrogateescape").split("\n")
            there |= {match["vmid"] for match in map(_CONF.fullmatch, names) if match}
    listed = re.findall(r"^\s*(\d+)\s", output, re.MULTILINE)
    missing = [vmid for vmid in listed if vmid not in there]
    if missing:
        raise CouldNotLook(f"VM {', '.join(missing)} is listed by qm list, its configuration was not seen")


def local_definitions(snapshot: Snapshot) -> list[tuple[str, str, str]]:
    """Path, node and vmid of the virtual machines of this node; of all where it cannot be told."""
    node = local_node(snapshot) if ("vms", PVE) in snapshot.sections else None
    return [found for found in _definitions(snapshot, node) if node is None or found[1] == node]


def _definitions(snapshot: Snapshot, node: str | None) -> list[tuple[str, str, str]]:
    """Each once: /etc/pve/qemu-server is this node's own folder."""
    found: dict[tuple[str, str], tuple[str, str, str]] = {}
    for path in sorted(snapshot.files(f"{PVE}/nodes/", f"{PVE}/qemu-server/")):
        match = _CONF.fullmatch(path)
        if match is not None:
            owner = match["node"] or node or ""
            found.setdefault((owner, match["vmid"]), (path, owner, match["vmid"]))
    return list(found.values())


def local_node(snapshot: Snapshot) -> str | None:
    """The node's own name: what /etc/pve/local leads to, else the host name without its domain, else the only node.
    None when none of them tells: then every node may be this machine."""
    names = (snapshot.data("vms", PVE) or b"").decode(errors="surrogateescape").split()
    link = snapshot.data("link", f"{PVE}/local") if ("link", f"{PVE}/local") in snapshot.sections else None
    if link is not None and link.strip():
        return link.decode(errors="surrogateescape").strip().rsplit("/", 1)[-1]
    for path in ("/proc/sys/kernel/hostname", "/etc/hostname"):
        name = text_of(snapshot, path).strip().split(".")[0]
        if name and (name in names or not names):
            return name
    return names[0] if len(names) == 1 else None


def text_of(snapshot: Snapshot, path: str) -> str:
    """A file that may be absent. Raises CouldNotLook when it is there and cannot be read."""
    if ("file", path) not in snapshot.sections:
        return ""
    return snapshot.plain(path) or ""


def _of(
    snapshot: Snapshot,
    path: str,
    node: str,
    vmid: str,
    local: bool,
    known: Mapping[str, tuple[Mapped, ...]],
    kept: Mapping[str, str],
    here: str | None,
) -> Iterator[VmReference]:
    found = grammar.settings(text_of(snapshot, path))

    def said(key: str, section: str = CURRENT) -> str | None:
        setting = found.get((section, key))
        return setting.value if setting else None

    gone = grammar.deleted(said("delete", PENDING) or "")
    template = grammar.is_true(said("template"))
    for setting in found.values():
        if not _HOSTPCI.fullmatch(setting.key) and setting.key != "args":
            continue
        named, mapping, unresolved = _named(setting, node, known)
        if not named and unresolved is None:
            continue
        yield VmReference(
            kind="qemu-server",
            vmid=vmid,
            name=said("name") or "",
            node=node,
            local=local,
            key=setting.key,
            where=f"{path}:{setting.line}",
            text=f"{setting.key}: {setting.value}",
            section=_section(setting, template),
            snapshot=setting.section if setting.section not in (CURRENT, PENDING) else None,
            addresses=named,
            mapping=mapping,
            elsewhere=() if local or here is None else _mapped_on(here, mapping, known),
            unresolved=unresolved,
            onboot=any(grammar.is_true(said("onboot", section)) for section in (CURRENT, PENDING)),
            ha=kept.get(vmid),
            status=life.status(snapshot, vmid) if local else "unknown",
            leaving=setting.section == CURRENT and setting.key in gone,
            hookscript=said("hookscript"),
        )


def qemu_arguments(text: str) -> tuple[PciAddress, ...]:
    """The functions that arguments of QEMU itself name. Raises ValueError when one is no address."""
    return tuple(PciAddress.parse(one or other) for one, other in _ARGS.findall(text))


def _mapped_on(
    node: str, mapping: str | None, known: Mapping[str, tuple[Mapped, ...]]
) -> tuple[PciAddress, ...]:
    rows = known.get(mapping, ()) if mapping is not None else ()
    return tuple(address for row in rows if row.node == node for address in row.addresses)


def _section(setting: Setting, template: bool) -> Section:
    if template:
        return "template"
    return {CURRENT: "current", PENDING: "pending"}.get(setting.section, "snapshot")  # type: ignore[return-value]


def _named(
    setting: Setting, node: str, known: Mapping[str, tuple[Mapped, ...]]
) -> tuple[tuple[PciAddress, ...], str | None, str | None]:
    """The addresses, the mapping, and why they cannot be told."""
    if setting.key == "args":
        try:
            return qemu_arguments(setting.value), None, None
        except ValueError as error:
            return (), None, str(error)
    said = dict(grammar.pairs(setting.value, "host"))
    mapping = said.get("mapping")
    if mapping is not None:
        if mapping not in known:
            return (), mapping, f"there is no mapping {mapping} in {MAPPING}"
        rows = [row for row in known[mapping] if row.node == node]
        wrong = [f"{MAPPING}:{row.line}: {row.wrong}" for row in rows if row.wrong]
        if not rows:
            wrong = [f"the mapping {mapping} has no device on node {node}"]
        named = tuple(address for row in rows for address in row.addresses)
        return named, mapping, "; ".join(wrong) or None
    try:
        named = addresses(said.get("host", ""))
    except ValueError as error:
        return (), None, str(error)
    return named, None, None if named else "it names no device"
