"""Act of step 7: a guest's own user space of the driver, by packages or by NVIDIA's installer."""

from __future__ import annotations

import shlex

from pyinfra.api.host import Host

from provision.acts import driver_apt, driver_repository, driver_run, shell
from provision.acts.voice import Voice
from provision.data.run_installer import file_name
from provision.guest.userspace import NEEDED
from provision.guest.userspace_own import ByInstaller, ByPackages
from provision.host import apt_question

FOLDER = "/opt/kpro/installer"

# -i: ldconfig remembers a file by inode, size and second of its change. One library put in another's place within a
# second is taken for the other one.
_CHECK = """
export LC_ALL=C
ldconfig -i || exit 1
for l in {needed}; do
  first=$(ldconfig -p | sed -n "s|^[[:space:]]*$l\\.1 .* => ||p" | head -n 1)
  case $(readlink -f "${{first:-/none}}") in */$l.{version}) ;; *)
    echo "the linker takes $l.1 from ${{first:-nowhere}}, which is not {version}" >&2; exit 1 ;;
  esac
done
"""


def give(inside: Host, wanted: ByInstaller | ByPackages, say: Voice) -> None:
    """Raises ActFailed."""
    if isinstance(wanted, ByInstaller):
        _by_installer(inside, wanted, say)
        version = wanted.version
    else:
        _by_packages(inside, wanted)
        version = wanted.driver.version
    prove(inside, version)


def prove(inside: Host, version: str) -> None:
    """The linker takes this version's libraries for CUDA and NVML. Raises ActFailed."""
    check = _CHECK.format(needed=" ".join(NEEDED), version=version)
    shell.run(inside, check, f"looking whether programs find driver {version}")


def _by_installer(inside: Host, wanted: ByInstaller, say: Voice) -> None:
    driver_run.bring(inside, wanted.installer, FOLDER, say)
    driver_run.run_installer(inside, wanted.installer, "guest", "open", FOLDER)
    shell.run(inside, f"rm -f {FOLDER}/{file_name(wanted.version)}", "removing the installer")


def _by_packages(inside: Host, wanted: ByPackages) -> None:
    driver = wanted.driver
    if wanted.repository is not None:
        driver_repository.add_to(inside, wanted.repository, "guest")
    driver_apt.ask(inside, driver, "guest")
    if driver.route == "nvidia":
        driver_apt.pin(inside, driver, "guest")
    script = driver_apt.INSTALL.format(
        packages=apt_question.packages(driver, "guest"), options=driver_apt.OPTIONS
    )
    shell.run(inside, script, f"installing the user space of driver {driver.version}")
    names = shlex.join(part.package for part in apt_question.user_space(driver) if part.needed)
    shell.run(inside, f"apt-mark hold {names} 2>&1", "holding the driver's packages")
