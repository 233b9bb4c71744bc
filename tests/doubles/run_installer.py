"""A stand-in for NVIDIA's .run installer: its options, messages and exit codes; ends with 99 on what it was never meant
to be asked. ``/etc/run-double`` on the machine holds what goes wrong: ``loaded``, ``build``; ``/var/log/run-double``
gets a line for each call."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from pathlib import Path

from tests.doubles.library import library

_SCRIPT = r"""#!/bin/sh
# A double of NVIDIA-Linux-x86_64-@VERSION@.run
version=@VERSION@ log=/var/log/nvidia-installer.log lib=/usr/lib/x86_64-linux-gnu
flags='--silent --no-questions --disable-nouveau --no-x-check --no-opengl-files --dkms --no-dkms
  --no-install-compat32-libs --no-nvidia-modprobe --no-drm --no-cc-version-check @KERNEL_FLAG@'
values='--tmpdir --ui --module-signing-secret-key --module-signing-public-key @TYPE_FLAG@'
printf '%s\n' "$*" >>/var/log/run-double
bad=$(cat /etc/run-double 2>/dev/null)
fail() { printf 'ERROR: %s\n' "$@" | tee -a "$log"; exit 1; }
seen=' ' type=open tmp=
for word; do
  name=${word%%=*}
  case " $(echo $flags $values) --advanced-options --version --uninstall " in
    *" $name "*) ;;
    *) fail "Invalid commandline, please run \`nvidia-installer --help\` for usage information." ;;
  esac
  case $word in
    --advanced-options) printf '  %s\n' $flags $values; exit 0 ;;
    --version) echo "nvidia-installer:  version $version"; exit 0 ;;
    --kernel-module-type=*|-m=*) type=${word#*=} ;;
    --tmpdir=*) tmp=${word#*=} ;;
  esac
  seen="$seen$name "
done
has() { case $seen in *" $1 "*) return 0 ;; esac; return 1; }
uninstall() {
  rm -f "$lib"/libcuda.so* "$lib"/libnvidia-ml.so*
  rm -f /usr/bin/nvidia-smi /usr/bin/nvidia-uninstall /usr/bin/nvidia-installer
  rm -f /etc/modprobe.d/nvidia-installer-disable-nouveau.conf
  if [ -d "/usr/src/nvidia-$version" ]; then
    dkms remove -m nvidia -v "$version" --all
    rm -rf "/usr/src/nvidia-$version"
  fi
  ldconfig
}
has --silent || { echo "it would ask, and nobody is there" >&2; exit 99; }
if has --uninstall; then uninstall; exit 0; fi
: >"$log"
[ -n "$tmp" ] && printf '#!/bin/sh\n' >"$tmp/t" && chmod 700 "$tmp/t" && "$tmp/t" ||
  fail "Unable to create temporary file in '$tmp' (Permission denied)."
if ! has @KERNEL_FLAG@; then
  case $bad in *loaded*)
    fail "An NVIDIA kernel module 'nvidia-uvm' appears to already be loaded in your kernel.  This may be because \
it is in use (for example, by an X server, a CUDA program, or the NVIDIA Persistence Daemon), but this may also happen \
if your kernel was configured without support for module unloading." \
      "Installation has failed.  Please see the file '$log' for details." ;;
  esac
  has --dkms || { echo "without --dkms the next kernel has no modules" >&2; exit 99; }
  command -v cc gcc make dkms >/dev/null || fail "Unable to find the development tool \`cc\` in your path"
  license="Dual MIT/GPL"
  case $type in open|kernel-open) ;; *) license=NVIDIA ;; esac
  mkdir -p "/usr/src/nvidia-$version"
  printf 'PACKAGE_NAME="nvidia"\nPACKAGE_VERSION="%s"\n' "$version" >"/usr/src/nvidia-$version/dkms.conf"
  printf 'version=%s\0license=%s\0vermagic=@KERNEL@ SMP \0' "$version" "$license" >"/usr/src/nvidia-$version/nvidia.ko"
  case $bad in *build*) uname -r >"/usr/src/nvidia-$version/fails-on" ;; esac
  dkms add -m nvidia -v "$version"
  dkms install -m nvidia -v "$version" -k "$(uname -r)" >>"$log" 2>&1 || {
    cat "$log"
    rm -rf "/usr/src/nvidia-$version"
    fail "Failed to install the kernel module through DKMS. No kernel module was installed." \
      "Installation has failed.  Please see the file '$log' for details."
  }
fi
for l in libcuda libnvidia-ml; do
  sed -n "s/^# $l //p" "$0" | base64 -d >"$lib/$l.so.$version"
  ln -sf "$l.so.$version" "$lib/$l.so.1"
done
printf '#!/bin/sh\necho %s\n' "$version" >/usr/bin/nvidia-smi
! has --disable-nouveau || echo 'blacklist nouveau' >/etc/modprobe.d/nvidia-installer-disable-nouveau.conf
cp -- "$0" /usr/bin/nvidia-installer
cat >/usr/bin/nvidia-uninstall <<'END'
#!/bin/sh
case $1 in --version) exec /usr/bin/nvidia-installer --version ;; esac
exec /usr/bin/nvidia-installer --uninstall "$@"
END
chmod 755 /usr/bin/nvidia-smi /usr/bin/nvidia-uninstall /usr/bin/nvidia-installer
ldconfig
echo "Installation of the NVIDIA Accelerated Graphics Driver is now complete." | tee -a "$log"
exit 0
"""


def write(folder: Path, version: str, *, older: bool = False) -> tuple[Path, str]:
    """The file and its sha256. ``older``: an installer with the flags of before 2024."""
    text = _SCRIPT.replace("@VERSION@", version)
    text = text.replace("@KERNEL_FLAG@", "--no-kernel-module" if older else "--no-kernel-modules")
    text = text.replace("@TYPE_FLAG@", "-m" if older else "--kernel-module-type")
    for name in ("libcuda", "libnvidia-ml"):
        text += f"# {name} {b64encode(library(f'{name}.so.1')).decode()}\n"
    path = folder / f"NVIDIA-Linux-x86_64-{version}.run"
    path.write_text(text)
    return path, hashlib.sha256(text.encode()).hexdigest()
