"""Stand-ins for dkms and kmod, as packages: they know the words, the states and the exit codes that the real ones have,
compile nothing, and end with 99 on what they were never meant to be asked."""

from __future__ import annotations

from collections.abc import Mapping

from tests.doubles.apt.archive import Deb

_DKMS = r"""#!/bin/sh
# status [-m M -v V [-k K]] | install|build -m M -v V -k K | remove -m M -v V --all
tree=/var/lib/dkms source=/usr/src action=$1; shift
m= v= k=
while [ $# != 0 ]; do
  case $1 in
    -m) m=$2; shift 2 ;; -v) v=$2; shift 2 ;; -k) k=$2; shift 2 ;; --all) shift ;;
    --dkmstree) tree=$2; shift 2 ;; --sourcetree) source=$2; shift 2 ;;
    *) echo "dkms double: $1?" >&2; exit 99 ;;
  esac
done
arch=x86_64
state() { # M V K
  [ -d "$tree/$1/$2" ] || return 0
  found=
  for d in "$tree/$1/$2"/*/"$arch"; do
    [ -d "$d" ] || continue
    kernel=${d%/*} kernel=${kernel##*/} found=1
    [ -z "$3" ] || [ "$3" = "$kernel" ] || continue
    s=built; [ ! -e "/lib/modules/$kernel/updates/dkms/$1.ko" ] || s=installed
    echo "$1/$2, $kernel, $arch: $s"
  done
  [ -n "$found" ] || [ -n "$3" ] || echo "$1/$2: added"
}
build() {
  src=$source/$m-$v
  [ -e "$src/dkms.conf" ] || { echo "Error! Could not find module source directory." >&2; exit 2; }
  if [ ! -e "/lib/modules/$k/build" ]; then
    echo "Error! Your kernel headers for kernel $k cannot be found at /lib/modules/$k/build." >&2; exit 21
  fi
  mkdir -p "$tree/$m/$v/build" "$tree/$m/$v/$k/$arch/module"
  log=$tree/$m/$v/build/make.log
  case " $(cat "$src/fails-on" 2>/dev/null) " in
    *" $k "*)
      printf 'make[1]: Entering directory\n%s/build/nvidia/nv-pci.c:244:9: error: too few arguments to function\n' \
        "$tree/$m/$v" >"$log"
      rm -rf "$tree/$m/$v/$k"
      echo "Error! Bad return status for module build on kernel: $k ($arch)" >&2
      echo "Consult $log for more information." >&2; exit 10 ;;
  esac
  : >"$log"
  sed "s/@KERNEL@/$k/" "$src/nvidia.ko" >"$tree/$m/$v/$k/$arch/module/$m.ko"
}
case $action in
  status)
    if [ -n "$m" ]; then state "$m" "$v" "$k"
    else for d in "$tree"/*/*; do [ ! -d "$d" ] || { m=${d%/*}; state "${m##*/}" "${d##*/}" ""; }; done; fi ;;
  add) mkdir -p "$tree/$m/$v" ;;
  build) build ;;
  install)
    build || exit
    mkdir -p "/lib/modules/$k/updates/dkms"
    cp "$tree/$m/$v/$k/$arch/module/$m.ko" "/lib/modules/$k/updates/dkms/$m.ko" && depmod "$k" ;;
  remove)
    for d in "$tree/$m/$v"/*/"$arch"; do
      [ -d "$d" ] || continue
      kernel=${d%/*} kernel=${kernel##*/}
      into=/lib/modules/$kernel/updates
      rm -f "$into/dkms/$m.ko"; rmdir "$into/dkms" "$into" 2>/dev/null
      depmod "$kernel"
    done
    rm -rf "$tree/$m/$v"; rmdir "$tree/$m" 2>/dev/null; exit 0 ;;
  *) echo "dkms double: $action?" >&2; exit 99 ;;
esac
"""

# As kmod's: a field of a file's .modinfo section, or of the module that a name means for a kernel.
_MODINFO = r"""#!/bin/sh
k= f=
while [ $# != 0 ]; do
  case $1 in -F) f=$2; shift 2 ;; -k) k=$2; shift 2 ;; -*) exit 99 ;; *) break ;; esac
done
file=$1
case $file in /*) ;; *)
  file=$(sed -n "s|^\(.*/$file.ko\):.*|\1|p" "/lib/modules/$k/modules.dep" | head -n 1)
  file=/lib/modules/$k/$file ;;
esac
[ -f "$file" ] || { echo "modinfo: ERROR: Module $1 not found." >&2; exit 1; }
tr '\0' '\n' <"$file" | sed -n "s/^$f=//p" | head -n 1
"""
_DEPMOD = """#!/bin/sh
cd "/lib/modules/$1" && find . -name '*.ko' | sed 's|^[.]/||; s/$/:/' >modules.dep
"""

DKMS = Deb(
    "dkms",
    "3.0.10-8+deb12u1",
    "kmod",
    files={"/usr/sbin/dkms": _DKMS},
    scripts={"postrm": '#!/bin/sh\n[ "$1" != purge ] || rm -rf /var/lib/dkms\n'},
)
KMOD = Deb("kmod", "30+20221128-1", files={"/usr/sbin/modinfo": _MODINFO, "/usr/sbin/depmod": _DEPMOD})


def module(version: str, license: str = "Dual MIT/GPL", kernel: str = "@KERNEL@") -> str:
    """The .modinfo fields of a module, and nothing that a kernel could run."""
    return "".join(
        f"{field}\0" for field in (f"version={version}", f"license={license}", f"vermagic={kernel} SMP ")
    )


def dkms_package(
    name: str,
    package: str,
    module_name: str,
    license: str,
    depends: str,
    fields: Mapping[str, str] | None = None,
    fails_on: str = "",
) -> Deb:
    """Its steps as those of dkms's own: every kernel whose headers are there; a failing build fails the package."""
    version = package.split(":")[-1].rsplit("-", 1)[0]
    source = f"/usr/src/{module_name}-{version}"
    each = (
        'for k in /lib/modules/*; do k=${k##*/}; [ -e "/lib/modules/$k/build" ] || continue; '
        f'dkms install -m {module_name} -v {version} -k "$k" || exit; done\n'
    )
    return Deb(
        name,
        package,
        depends,
        fields or {},
        {
            f"{source}/dkms.conf": f'PACKAGE_NAME="{module_name}"\nPACKAGE_VERSION="{version}"\n',
            f"{source}/nvidia.ko": module(version, license),
            **({f"{source}/fails-on": fails_on} if fails_on else {}),
        },
        {
            "postinst": f"#!/bin/sh\ndkms add -m {module_name} -v {version}\n{each}",
            "prerm": f"#!/bin/sh\ndkms remove -m {module_name} -v {version} --all\n",
        },
    )
