"""The question that apt is asked about a driver, as shell text: which packages, in which versions, for which kernels.
Pure."""

from __future__ import annotations

from provision.data import driver_routes
from provision.data.driver_packages import Part
from provision.data.driver_routes import HEADERS, VENDOR
from provision.data.run_installer import UNINSTALL, Place
from provision.spec import Driver

NO_REPOSITORY = "kpro: no repository"
INSTALLED = "kpro: installed"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"

_SYSTEM = 'id=$(. /etc/os-release 2>/dev/null && printf %s "$ID")'
_KNOWN = "apt-cache madison \"$p\" | cut -d'|' -f2 | tr -d ' '"

# The newest release of a package that the vendor's repository alone has tells that apt knows the repository.
_KNOWS_VENDOR = (
    f"apt-cache policy | grep -Eq '[ ,]o={VENDOR.origin}(,|$)' && "
    "{ apt-cache pkgnames nvidia-driver-pinning; apt-cache pkgnames nvidia-driver-cuda; "
    "apt-cache pkgnames cuda-drivers; } | grep -q ."
)

# Real kernels of Debian, Ubuntu and Proxmox; a kernel that somebody built by hand has no package of headers.
_HEADERS_BY_KERNEL = (
    "for b in /boot/vmlinuz-*; do k=${b#/boot/vmlinuz-}; "
    '[ -d "/lib/modules/$k" ] || continue; '
    'case $k in *-pve) h=proxmox-headers-$k; [ -n "$(apt-cache madison "$h")" ] || h=pve-headers-$k ;; '
    "*) h=linux-headers-$k ;; esac; "
    'set -- "$@" "$h"; done'
)


def _headers_by_meta() -> str:
    """The metapackages of kernels that are installed, and those that bring headers for the next kernel."""
    names = " ".join(f"'{row.kernel}*'" for row in HEADERS)
    cases = " ".join(f"{row.kernel}*) h={row.headers}${{m#{row.kernel}}} ;;" for row in HEADERS)
    # What ends in a release is a kernel and no metapackage.
    return (
        "for m in $(dpkg-query -W -f '${db:Status-Abbrev}|${Package}\\n' "
        f"{names} 2>/dev/null | sed -n 's/^[ih]i *|//p' | "
        "grep -Ev '[0-9]+[.][0-9]+[.][0-9]+-|-(signed|unsigned|dbg)(-|$)|^linux-image-(extra|unsigned)|"
        "^(proxmox|pve)-kernel-[a-z]'); do "
        f'case $m in {cases} esac; set -- "$@" "$h"; done'
    )


HEADERS_FOR_ALL = f"{_HEADERS_BY_KERNEL}; {_headers_by_meta()}"
"""Headers for every installed kernel, and the packages that bring them for the next one."""


def _exact(parts: tuple[Part, ...], version: str) -> str:
    escaped = version.replace(".", "[.]")
    exact = " ".join(part.package for part in parts if part.exact)
    other = " ".join(part.package for part in parts if not part.exact)
    optional = " ".join(part.package for part in parts if not part.needed)
    return (
        f"for p in {exact}; do v=$({_KNOWN} | grep -Em1 '^([0-9]+:)?{escaped}-'); "
        f'if [ -n "$v" ]; then set -- "$@" "$p=$v"; else case " {optional} " in *" $p "*) ;; '
        f"*) printf 'kpro: no %s %s, there is: %s\\n' \"$p\" {version} "
        f"\"$({_KNOWN} | sort -u | tr '\\n' ' ')\"; missing=1 ;; esac; fi; done"
        + (f'; set -- "$@" {other}' if other else "")
    )


def _signed(driver: Driver) -> str:
    """Ubuntu's prebuilt modules for every installed kernel, and the package that brings them for the next one."""
    begin = driver_routes.signed_modules(driver.flavour, driver.version)
    return (
        "for b in /boot/vmlinuz-*; do k=${b#/boot/vmlinuz-}; "
        f'[ ! -d "/lib/modules/$k" ] || set -- "$@" "{begin}$k"; done; '
        "for m in $(dpkg-query -W -f '${db:Status-Abbrev}|${Package}\\n' 'linux-image-*' 2>/dev/null | "
        "sed -n 's/^[ih]i *|linux-image-//p' | grep -Ev '^([0-9]+[.]|extra|unsigned)'); do "
        f'set -- "$@" "{begin}$m"; done'
    )


def packages(driver: Driver, place: Place = "host") -> str:
    """Shell text that appends to ``$@`` what apt-get is to install, and sets ``missing`` where a version is not there;
    each lack is printed. A guest gets the user space alone."""
    if place == "guest":
        return f"{pinning(driver)}; {_exact(user_space(driver), driver.version)}"
    if driver.route == "debian":
        return f'{_exact(_parts(driver), driver.version)}; set -- "$@" dkms; {HEADERS_FOR_ALL}'
    if driver.route == "run":
        return f'set -- "$@" dkms make gcc; {HEADERS_FOR_ALL}'
    if driver.route == "ubuntu":
        return f"{_exact(_parts(driver), driver.version)}; {_signed(driver)}"
    ubuntu, debian = _parts(driver, "ubuntu"), _parts(driver)
    return (
        f"{_SYSTEM}; {pinning(driver)}; "
        f'if [ "$id" = ubuntu ]; then {_exact(ubuntu, driver.version)}; else {_exact(debian, driver.version)}; fi; '
        f'set -- "$@" dkms; {HEADERS_FOR_ALL}'
    )


def user_space(driver: Driver) -> tuple[Part, ...]:
    """What a guest needs of a driver by packages: no kernel module, no firmware, nothing that loads one."""
    return tuple(part for part in _parts(driver) if part.what == "user space" and part.exact) + tuple(
        part for part in _parts(driver) if part.package == "nvidia-alternative"
    )


def pinning(driver: Driver) -> str:
    """Shell text that appends to ``$@`` the vendor's package that pins this driver, where there is one."""
    if driver.route != "nvidia":
        return ":"
    names = " ".join(driver_routes.pinning_packages(driver.version))
    return f'for p in {names}; do [ -z "$({_KNOWN})" ] || {{ set -- "$@" "$p"; break; }}; done'


def _parts(driver: Driver, system: str = "debian") -> tuple[Part, ...]:
    return driver_routes.parts(driver.route, driver.flavour, driver.version, system)


def options(driver: Driver) -> tuple[str, str]:
    """What comes before and in a call of apt-get that decides as it will once the driver's pins are in place."""
    if driver.route != "nvidia":
        return "", ""
    # No quote is in it: PREFERENCES is words, names and a version of known form.
    pins = f"'{driver_routes.preferences(driver.version)}'"
    before = (
        "d=$(mktemp -d) || exit 1; trap 'rm -rf \"$d\"' EXIT; "
        f'{{ cat /etc/apt/preferences 2>/dev/null; echo; printf %s {pins}; }} >"$d/preferences"; '
    )
    return before, '-o Dir::Etc::preferences="$d/preferences" '


def simulated(driver: Driver, place: Place = "host") -> str:
    """Shell text: what apt-get would do, or why it would not. Ends with 1 where a version is not there."""
    before, option = options(driver)
    return (
        f"export LC_ALL=C; set --; missing=; {packages(driver, place)}; "
        f'[ -z "$missing" ] || exit 1; {before}'
        f'apt-get {option}-s -q install --allow-downgrades --no-install-recommends "$@" 2>&1'
    )


def question(driver: Driver, place: Place = "host") -> str:
    """As ``simulated``, asked of a machine that may have the driver already, or may not know the repository yet."""
    script = f"{_installed(driver, place)}; "
    if driver.route == "nvidia":
        script += f"{{ {_KNOWS_VENDOR}; }} || {{ echo '{NO_REPOSITORY}'; exit 0; }}; "
    return script + simulated(driver, place)


def _installed(driver: Driver, place: Place) -> str:
    """Apt takes seconds to answer: it is not asked where the package that a driver stands on is installed."""
    if driver.route == "run":
        library = f"{LIBRARIES}/libcuda.so.{driver.version}"
        return f"[ ! -e {UNINSTALL} ] || [ ! -e {library} ] || {{ echo '{INSTALLED}'; exit 0; }}"
    names = {_stands_on(_parts(driver))} if place == "host" else {user_space(driver)[0].package}
    if driver.route == "nvidia" and place == "host":
        names.add(_stands_on(_parts(driver, "ubuntu")))
    looks = " ".join(
        f"have=$(dpkg-query -W -f '${{db:Status-Abbrev}}${{Version}}' {name} 2>/dev/null); "
        f'case $have in [ih]"i "{driver.version}-*|[ih]"i "*:{driver.version}-*) '
        f'echo "{INSTALLED}"; exit 0 ;; esac;'
        for name in sorted(names)
    )
    return looks.rstrip(";")


def _stands_on(parts: tuple[Part, ...]) -> str:
    return next((part.package for part in parts if part.what == "kernel"), parts[0].package)
