"""The trial: a driver of which nobody reported how it fares on a kernel is compiled before anything is installed.

What apt would install is fetched and unpacked, and shown to a mount namespace of its own as a read-only layer over
/usr. DKMS compiles there with a tree of its own. No script of a package runs, and nothing of it stays.
"""

from __future__ import annotations

import re
import shlex

from pyinfra.api.host import Host

from provision.acts import shell
from provision.acts.voice import Voice
from provision.driver.makelog import first_error
from provision.host import transport
from provision.host.driver import Install
from provision.run.errors import ActFailed

FAILED, NO_LAYER = 10, 13
"""dkms(8) ends with 10 where a module does not compile; 13 is ours: no layer could be mounted."""

_TRY = """
set -u
export LC_ALL=C
umask 022
t=/var/lib/kpro/trial made=
end() {{
  code=$?
  trap - EXIT; trap '' HUP INT TERM
  cd / && rm -rf --one-file-system -- "$t"
  [ -z "$made" ] || rmdir /var/lib/dkms
  exit $code
}}
trap end EXIT
trap 'exit 129' HUP; trap 'exit 130' INT; trap 'exit 143' TERM
rm -rf --one-file-system -- "$t" && mkdir -p "$t/debs" "$t/root/usr" "$t/dkms" && cd "$t/debs" || exit 1
apt-get -q -o APT::Sandbox::User=root download {packages} 9>&- 2>&1 || exit 1
for d in *.deb; do dpkg-deb -x "$d" "$t/root" 2>&1 || exit 1; done
# Packages that still say /lib mean /usr/lib on a machine whose /lib leads there.
for f in lib lib64 bin sbin; do
  [ -L "/$f" ] && [ -d "$t/root/$f" ] || continue
  mkdir -p "$t/root/usr/$f" && cp -a -- "$t/root/$f/." "$t/root/usr/$f/" || exit 1
done
conf=$(ls "$t"/root/usr/src/nvidia*/dkms.conf 2>/dev/null | head -n 1)
[ -n "$conf" ] || {{ echo "no package that apt would install has the driver's source"; exit 1; }}
# dkms.conf is shell text; only these two assignments are read.
name=$(sed -n 's/^PACKAGE_NAME="\\{{0,1\\}}\\([A-Za-z0-9_.+-]*\\).*/\\1/p' "$conf" | head -n 1)
version=$(sed -n 's/^PACKAGE_VERSION="\\{{0,1\\}}\\([A-Za-z0-9_.+-]*\\).*/\\1/p' "$conf" | head -n 1)
[ -d /var/lib/dkms ] || {{ mkdir /var/lib/dkms && made=1; }} || exit 1
export t name version
unshare --mount --propagation private sh -c '
  mount -t overlay -o "ro,lowerdir=$t/root/usr:/usr" overlay /usr || exit {no_layer}
  [ -L /lib ] || [ ! -d "$t/root/lib" ] ||
    mount -t overlay -o "ro,lowerdir=$t/root/lib:/lib" overlay /lib || exit {no_layer}
  mount --bind "$t/dkms" /var/lib/dkms || exit {no_layer}
  for k; do
    dkms build -m "$name" -v "$version" -k "$k" </dev/null 2>&1
    code=$?
    [ $code != 0 ] || continue
    echo "--- make.log of $k"
    cat "/var/lib/dkms/$name/$version/build/make.log" 2>/dev/null
    exit $code
  done
' sh {kernels} 9>&-
"""


def compile_first(host: Host, wanted: Install, packages: tuple[str, ...], say: Voice) -> None:
    """``packages`` are what apt would install, as NAME=VERSION. Raises ActFailed with the reason of make.log; nothing
    was installed then."""
    if not wanted.trial or not packages:
        return
    say(
        f"driver {wanted.version}: nothing is known of it on kernel {', '.join(wanted.trial)}; it is compiled on "
        "trial, before anything is installed (minutes)"
    )
    script = _TRY.format(packages=shlex.join(packages), kernels=shlex.join(wanted.trial), no_layer=NO_LAYER)
    try:
        done = transport.run(host, shell.BUSY_PREFIX + script)
    except OSError as error:
        raise ActFailed(f"the trial build of driver {wanted.version}: {error}") from error
    if not done.ok:
        raise ActFailed(refusal(wanted, done.rc, done.text, shell.tail(done)))


def refusal(wanted: Install, code: int, said: str, tail: str) -> str:
    """What the trial ended with, in the operator's words."""
    head = f"driver {wanted.version} was tried on kernel {', '.join(wanted.trial)} and nothing was installed"
    log = re.search(r"^--- make\.log of (\S+)\n(.*)", said, re.MULTILINE | re.DOTALL)
    if code == FAILED and log:
        return (
            f"{head}: it does not compile on {log[1]} (dkms ends with {FAILED}): {first_error(log[2])}. "
            "Next: pin a newer driver, or boot an older kernel"
        )
    if code == NO_LAYER:
        return (
            f"{head}: no read-only layer can be mounted over /usr (overlayfs), so it could not be tried. Next: "
            "modprobe overlay, or compile elsewhere: provision build-driver --driver "
            f"{wanted.version}, route='prebuilt'\n{tail}"
        )
    return f"{head}: the trial ended with {code}:\n{tail}"
