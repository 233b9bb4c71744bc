"""Acts of step 3: the boot loader stays with a kernel that has its driver, or chooses by itself again."""

from __future__ import annotations

import shlex

from pyinfra.api.host import Host

from provision.acts import shell
from provision.acts.voice import Voice
from provision.host import keeping
from provision.host.kernels import DROP_IN, MARK, NOTHING, PIN, Hold, drop_in
from provision.run.errors import ActFailed

SECONDS = 600

# Ids of the submenu and of the entry of a kernel, joined as GRUB_DEFAULT wants them (GRUB manual, "default").
ENTRY = r"""
kernel={kernel}
entry() {{
  awk -v kernel="$kernel" '
    function id(line) {{
      if (!match(line, /menuentry_id_option \047[^\047]*\047/)) return ""
      return substr(line, RSTART + 21, RLENGTH - 22)
    }}
    /^[ \t]*submenu / {{ above = id($0); next }}
    /^\}}/ {{ above = "" }}
    /^[ \t]*menuentry / {{ here = id($0); if ($0 !~ /^[ \t]/) above = ""; next }}
    $1 ~ /^linux(efi|16)?$/ && here != "" && here !~ /-recovery-/ && here !~ /-simple-/ {{
      n = split($2, parts, "/")
      if (parts[n] == "vmlinuz-" kernel) {{ print (above == "" ? here : above ">" here); exit }}
    }}
  ' /boot/grub/grub.cfg
}}
found=$(entry)
[ -n "$found" ] || {{ update-grub </dev/null >&2 || exit 1; found=$(entry); }}
[ -n "$found" ] || {{ echo "/boot/grub/grub.cfg has no entry of kernel $kernel" >&2; exit 1; }}
printf '%s\n' "$found"
"""

_IN_FORCE = """
update-grub </dev/null >&2 && sync -f /boot || exit 1
grep -qxF -e {line} -e "   "{line} -e "	"{line} /boot/grub/grub.cfg ||
  {{ echo "GRUB's configuration does not follow it; another file of /etc/default/grub.d may come after" >&2; exit 1; }}
"""


def hold(host: Host, wanted: Hold, say: Voice) -> None:
    """The machine boots ``wanted.kernel`` until it is released. Raises ActFailed."""
    if wanted.loader == "proxmox-boot-tool":
        pin = f"{wanted.kernel}\n".encode()
        keeping.before_files(host, say.run, {MARK: pin, PIN: pin}, boot=True)
        shell.put(host, MARK, pin, mode="600")
        _tool(host, f"pin {shlex.quote(wanted.kernel)}", f'[ "$(cat {PIN})" = {shlex.quote(wanted.kernel)} ]')
        return
    script = ENTRY.format(kernel=shlex.quote(wanted.kernel))
    entry = shell.run(host, script, f"finding kernel {wanted.kernel} in GRUB's menu", timeout=SECONDS).strip()
    if not entry or any(character in entry for character in "\n\"'$`\\"):
        raise ActFailed(f"{host.name}: GRUB's menu calls kernel {wanted.kernel} {entry!r}")
    _put(host, say.run, drop_in(wanted.kernel, entry).encode())
    line = shlex.quote(f'set default="{entry}"')
    shell.run(host, _IN_FORCE.format(line=line), f"holding kernel {wanted.kernel}", timeout=SECONDS)


def release(host: Host, wanted: Hold, say: Voice) -> None:
    """The boot loader chooses by itself again. Raises ActFailed."""
    if wanted.loader == "proxmox-boot-tool":
        keeping.before_files(host, say.run, {MARK: b""}, boot=True)
        _tool(host, "unpin", f"[ ! -s {PIN} ]")
        shell.put(host, MARK, b"", mode="600")
        return
    _put(host, say.run, NOTHING.encode())
    script = "update-grub </dev/null >&2 && sync -f /boot"
    shell.run(host, script, f"holding kernel {wanted.kernel} no longer", timeout=SECONDS)


def _put(host: Host, run: str, data: bytes) -> None:
    keeping.before_file(host, run, DROP_IN, data, boot=True)
    shell.run(host, "mkdir -p /etc/default/grub.d", "making /etc/default/grub.d")
    shell.put(host, DROP_IN, data, mode="644")


def _tool(host: Host, words: str, proof: str) -> None:
    script = f"proxmox-boot-tool kernel {words} </dev/null >&2 && proxmox-boot-tool refresh </dev/null >&2 && {proof}"
    shell.run(host, script, f"proxmox-boot-tool kernel {words}", timeout=SECONDS)
