"""What a container's configuration may say: every key of Proxmox VE with its type, limits and the parts of its value.

Source: pve-container 94f5585 (PVE::LXC::Config: confdesc, rootfs, mp, net, dev, features, the lxc.* keys) and
pve-common f665029 (PVE::JSONSchema: formats). A plain key's limits are not checked when Proxmox reads a file, only its
type and format are; those of the parts of a property string are. Pure.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

Check = Callable[[str], str | None]
"""What is wrong with a value, in Proxmox's words; None when nothing is."""


@dataclass(frozen=True)
class Field:
    """A key, or a part of a property string. ``parts`` makes it a property string itself."""

    type: Literal["string", "boolean", "integer", "number"] = "string"
    check: Check | None = None
    pattern: str | None = None
    low: int | None = None
    high: int | None = None
    choices: tuple[str, ...] = ()
    optional: bool = True
    default_key: bool = False
    longest: int | None = None
    parts: Mapping[str, Field] | None = None


def _matches(pattern: str, text: str, flags: int = 0) -> bool:
    return re.search(pattern, text, flags | re.ASCII) is not None


def split_list(text: str) -> list[str]:
    """PVE::Tools::split_list: separated by NUL, or by commas, semicolons and blanks."""
    return text.split("\0") if "\0" in text else re.findall(r"[^,;\s]+", text, re.ASCII)


def _each(check: Check) -> Check:
    return lambda text: next((found for part in split_list(text) if (found := check(part))), None)


def _says(pattern: str, words: str, flags: int = 0) -> Check:
    return lambda text: None if _matches(pattern, text, flags) else words.format(text)


_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9\-]*[a-zA-Z0-9])?"
dns_name = _says(rf"^(?:{_LABEL}\.)*{_LABEL}$", "value does not look like a valid DNS name")
volume_id = _says(r"^[a-z][a-z0-9\-_.]*[a-z0-9]:.+$", "unable to parse volume ID '{}'", re.I)
disk_size = _says(r"^\d+(\.\d+)?[KMGT]?$", "value does not look like a valid disk size: {}")
mac_address = _says(
    r"^[a-f0-9][02468ace](?::[a-f0-9]{2}){5}$", "value does not look like a valid unicast MAC address", re.I
)
config_id = _says(r"^[a-z][a-z0-9_-]+$", "invalid configuration ID '{}'", re.I)
_tag = _says(r"^[a-z0-9_][a-z0-9_\-+.]*$", "invalid characters in tag", re.I)


def device_path(text: str) -> str | None:
    good = text.startswith("/dev/") and not _matches(r"/\.\.?(?:/|$)", text)
    return None if good else f"{text} is not a valid device path"


def mount_path(text: str) -> str | None:
    bad = _matches(r"/\.\.?/", text) or _matches(r"/\.\.?$", text) or _matches(r"^\.\./", text)
    return f"{text} contains illegal character sequences" if bad else None


def startup_order(text: str) -> str | None:
    parts = [part for part in text.split(",") if _matches(r"\S", part)]
    good = text not in ("", "0") and all(_matches(r"^((order=)?|up=|down=)\d+$", part) for part in parts)
    return None if good else "unable to parse startup options"


def _is_ip(text: str, version: int) -> bool:
    try:
        return "%" not in text and ipaddress.ip_address(text).version == version
    except ValueError:
        return False


def _is_network(text: str, version: int) -> bool:
    address, _, bits = text.partition("/")
    return _is_ip(address, version) and bool(
        _matches(r"^\d+$", bits) and 7 < int(bits) <= (32 if version == 4 else 128)
    )


def _address(version: int) -> Check:
    return lambda text: (
        None if _is_ip(text, version) else f"value does not look like a valid IPv{version} address"
    )


def _network(version: int, *words: str) -> Check:
    return lambda text: (
        None
        if text in words or _is_network(text, version)
        else f"value does not look like a valid ipv{version} network configuration"
    )


def _server(text: str) -> str | None:
    link_local = re.search(r"^(fe80:[^%]+)%([a-z][a-z0-9_]{1,20}([:.]\d+)?)$", text, re.I | re.ASCII)
    good = _is_ip(text, 4) or _is_ip(text, 6) or (link_local is not None and _is_ip(link_local[1], 6))
    return None if good else "value does not look like a valid IP address"


_OPTION = "(discard|lazytime|noatime|nodev|noexec|nosuid)"
BOOLEAN = Field("boolean")
_DISK = {
    "volume": Field(check=mount_path, optional=False, default_key=True),
    "size": Field(check=disk_size),
    "acl": BOOLEAN,
    "mountoptions": Field(pattern=f"{_OPTION}(;{_OPTION})*"),
    "ro": BOOLEAN,
    "quota": BOOLEAN,
    "replicate": BOOLEAN,
    "shared": BOOLEAN,
    "idmap": Field(),
    "keepattrs": BOOLEAN,
}
MOUNT = {**_DISK, "backup": BOOLEAN, "mp": Field(check=mount_path, optional=False)}
DEVICE = {
    "path": Field(check=device_path, default_key=True),
    "mode": Field(pattern="0[0-7]{3}"),
    "uid": Field("integer", low=0),
    "gid": Field("integer", low=0),
    "deny-write": BOOLEAN,
}
NET = {
    "type": Field(choices=("veth",)),
    "name": Field(pattern=r"[-_.\w\d]+", optional=False),
    "bridge": Field(pattern=r"[-_.\w\d]+"),
    "hwaddr": Field(check=mac_address),
    "mtu": Field("integer", low=64, high=65535),
    "ip": Field(check=_network(4, "dhcp", "manual")),
    "gw": Field(check=_address(4)),
    "ip6": Field(check=_network(6, "auto", "dhcp", "manual")),
    "gw6": Field(check=_address(6)),
    "firewall": BOOLEAN,
    "tag": Field("integer", low=1, high=4094),
    "trunks": Field(pattern=r"\d+(?:;\d+)*"),
    "rate": Field("number"),
    "link_down": BOOLEAN,
    "host-managed": BOOLEAN,
}
FEATURES = {
    "mount": Field(pattern="[a-zA-Z0-9_; ]+"),
    **dict.fromkeys(("nesting", "keyctl", "fuse", "mknod", "force_rw_sys"), BOOLEAN),
}

INDEXED: dict[str, tuple[int, Field]] = {
    "mp": (256, Field(parts=MOUNT)),
    "dev": (256, Field(parts=DEVICE)),
    "net": (32, Field(parts=NET)),
    "unused": (256, Field(parts={"volume": Field(check=volume_id, optional=False, default_key=True)})),
}
"""Keys that end in a number below the given one, without leading zeros."""

_MIB = 2**43 - 1
"""A limit that Proxmox does not have: the kernel counts a container's memory in bytes, in 63 bits."""

PLAIN: dict[str, Field] = {
    "lock": Field(
        choices=(
            *("backup", "create", "destroyed", "disk", "fstrim", "migrate", "mounted", "rollback"),
            *("snapshot", "snapshot-delete"),
        )
    ),
    **dict.fromkeys(("onboot", "template", "console", "protection", "unprivileged", "debug"), BOOLEAN),
    "ipmanagehost": BOOLEAN,
    "startup": Field(check=startup_order),
    "arch": Field(choices=("amd64", "i386", "arm64", "armhf", "riscv32", "riscv64")),
    "ostype": Field(
        choices=(
            *("debian", "devuan", "ubuntu", "centos", "fedora", "opensuse", "archlinux", "alpine", "gentoo"),
            *("nixos", "unmanaged"),
        )
    ),
    "tty": Field("integer", low=0, high=6),
    "cores": Field("integer", low=1, high=8192),
    "cpulimit": Field("number", low=0, high=8192),
    "cpuunits": Field("integer", low=0, high=500000),
    "memory": Field("integer", low=16, high=_MIB),
    "swap": Field("integer", low=0, high=_MIB),
    "hostname": Field(check=dns_name, longest=255),
    "searchdomain": Field(check=_each(dns_name)),
    "nameserver": Field(check=_each(_server)),
    "timezone": Field(pattern=r"[A-Za-z0-9_+/\-]+"),
    "rootfs": Field(parts=_DISK),
    "parent": Field(check=config_id, longest=40),
    "snaptime": Field("integer", low=0),
    "cmode": Field(choices=("shell", "console", "tty")),
    "entrypoint": Field(),
    "env": Field(),
    "description": Field(longest=8192),
    "features": Field(parts=FEATURES),
    "hookscript": Field(check=volume_id),
    "tags": Field(check=_each(_tag)),
}


def field_of(key: str) -> Field | None:
    """The definition of a key; None when Proxmox does not know it (``dev00``, ``dev256``)."""
    found = re.fullmatch(r"([a-z]+)(0|[1-9][0-9]*)", key)
    if found and found[1] in INDEXED:
        limit, field = INDEXED[found[1]]
        return field if int(found[2]) < limit else None
    return PLAIN.get(key)


_RAW = {
    f"lxc.{name}"
    for name in (
        *("apparmor.profile", "apparmor.allow_incomplete", "apparmor.allow_nesting", "apparmor.raw"),
        *("selinux.context", "include", "arch", "uts.name", "signal.halt", "signal.reboot", "signal.stop"),
        *("init.cmd", "init.cwd", "init.uid", "init.gid", "init.groups", "pty.max", "tty.max"),
        *("console.logfile", "console.path", "devtty.dir", "autodev", "kmsg"),
        *("mount.fstab", "mount.entry", "mount.auto", "rootfs.mount", "cap.drop", "cap.keep"),
        *("seccomp.profile", "seccomp.notify.proxy", "seccomp.notify.cookie", "idmap"),
        *("hook.pre-start", "hook.pre-mount", "hook.mount", "hook.autodev", "hook.start", "hook.stop"),
        *("hook.post-stop", "hook.clone", "hook.destroy", "hook.version", "log.level", "log.file"),
        *("start.auto", "start.delay", "start.order", "group"),
        *("environment", "environment.runtime", "environment.hooks", "sysctl.fs.mqueue"),
        *(f"sysctl.kernel.{name}" for name in ("msgmax", "msgmnb", "msgmni", "sem", "shmall", "shmmax")),
        *("sysctl.kernel.shmmni", "sysctl.kernel.shm_rmid_forced"),
    )
}
_REFUSED = {
    "lxc.rootfs.path": "lxc.rootfs.path is auto generated from rootfs",
    "lxc.rootfs.options": (
        'lxc.rootfs.options is not supported, please use mount point options in the "rootfs" key'
    ),
}


def raw_problem(key: str, line: str) -> str | None:
    """Why Proxmox does not take a raw ``lxc.*`` line, in its words; None when it does."""
    if key in _REFUSED:
        return f"{key}: {_REFUSED[key]}"
    if key in _RAW or key.startswith(("lxc.cgroup2.", "lxc.cgroup.", "lxc.prlimit.", "lxc.net.")):
        return None
    return f"unable to parse config: {line}"
