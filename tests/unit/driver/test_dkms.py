"""What DKMS prints, in every form that its versions have; a line that no DKMS prints hides nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.snapshot import CouldNotLook
from provision.host.dkms import (
    BuildFailure,
    build_failures,
    dkms_status,
    makelog_verdict,
    postinst_culprit,
)

NAMES = ("nvidia", "nvidia-current-open", "drbd", "i915-sriov-dkms", "vendor-reset", "v4l2loopback_dc", "zfs")
VERSIONS = ("580.119.02", "1.24.1.19.240119.1.nodrm", "9.2.11-1", "2025.05.18", "0.1.1")
KERNELS = ("6.17.13-2-pve", "6.12.95+deb12-amd64", "5.18.10-200.fc36.x86_64", "7.0.9-1-cachyos")
REMARKS = (
    "",
    " (WARNING! Diff between built and installed module!)",
    " (WARNING! Diff between built and installed module!) (WARNING! Diff between built and installed module!)",
    " (WARNING! Missing some built modules!)",
    " (Differences between built and installed modules)",
    " (Original modules exist)",
    "Deprecated feature: REMAKE_INITRD",
)


@given(
    st.sampled_from(NAMES),
    st.sampled_from(VERSIONS),
    st.sampled_from(KERNELS),
    st.sampled_from(("x86_64", "aarch64", None)),
    st.sampled_from(("built", "installed")),
    st.sampled_from(("/", ", ")),
    st.sampled_from(REMARKS),
)
def test_every_form_of_a_built_module_is_read(
    name: str, version: str, kernel: str, arch: str | None, state: str, between: str, remark: str
) -> None:
    where = f", {arch}" if arch else ""
    (module,) = dkms_status(f"{name}{between}{version}, {kernel}{where}: {state}{remark}\n")
    assert (module.name, module.version, module.kernel, module.arch) == (name, version, kernel, arch)
    assert module.state == state
    assert module.installed == (state == "installed")
    assert len(module.remarks) == remark.count("(")
    assert module.differs == any(word in remark for word in ("WARNING", "Differences"))
    assert module.is_nvidia == name.startswith("nvidia")


@given(
    st.sampled_from(NAMES),
    st.sampled_from(VERSIONS),
    st.sampled_from(("added", "broken")),
    st.sampled_from("/,"),
)
def test_a_module_without_a_kernel_is_read(name: str, version: str, state: str, between: str) -> None:
    (module,) = dkms_status(f"{name}{between.replace(',', ', ')}{version}: {state}\n")
    assert (module.name, module.version, module.kernel, module.state) == (name, version, None, state)
    assert not module.installed


def test_what_dkms_says_beside_its_lines_is_passed_over() -> None:
    text = (
        "Deprecated feature: REMAKE_INITRD (/var/lib/dkms/akvcam/1.2.2/source/dkms.conf)\n\n"
        "akvcam/1.2.2: broken\n\nError! akvcam/1.2.2: Missing the module source directory or the symbolic link "
        "pointing to it.\nManual intervention is required!\n"
        "kmod-x/1.0, 6.1.0, x86_64: installed-weak from 6.1.0-9\n"
    )
    broken, weak = dkms_status(text)
    assert broken.state == "broken"
    assert (weak.state, weak.of, weak.installed) == ("installed-weak", "6.1.0-9", True)


@pytest.mark.parametrize(
    "line", ["nvidia 580.119.02 installed", "bash: dkms: unbound", "nvidia/580.1: mounted"]
)
def test_a_line_that_no_dkms_prints_is_no_answer(line: str) -> None:
    with pytest.raises(CouldNotLook, match="no known DKMS"):
        dkms_status(f"nvidia/580.119.02, 6.8.12, x86_64: installed\n{line}\n")


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("nvidia", True),
        ("nvidia-current", True),
        ("nvidia-current-open", True),
        ("nvidia-open", True),
        ("nvidia-srv", True),
        ("nvidia-srv-open", True),
        ("nvidia-tesla-535", True),
        ("nvidia-580-server-open", True),
        ("nvidia-fs", False),
        ("gdrdrv", False),
        ("nvidia-peermem", False),
        ("intel-i915-dkms", False),
    ],
)
def test_which_modules_are_nvidia_s_driver(name: str, ours: bool) -> None:
    assert BuildFailure(name, "1", None, None).is_nvidia == ours
    assert dkms_status(f"{name}/1.0: added")[0].is_nvidia == ours


@given(st.sampled_from(("drbd", "i915-sriov-dkms", "vendor-reset", "zfs")), st.sampled_from(VERSIONS))
def test_the_module_that_failed_in_a_kernel_s_postinst_is_named(name: str, version: str) -> None:
    package = "proxmox-kernel-6.8.12-1-pve-signed"
    text = (
        "nvidia.ko:\nRunning module version sanity check.\n - Installing to /lib/modules/6.8.12-1-pve/updates/dkms/\n"
        "Error! Bad return status for module build on kernel: 6.8.12-1-pve (x86_64)\n"
        f"Consult /var/lib/dkms/{name}/{version}/build/make.log for more information.\n"
        "dkms: autoinstall for kernel: 6.8.12-1-pve failed!\n"
        "run-parts: /etc/kernel/postinst.d/dkms exited with return code 11\n"
        f"dpkg: error processing package {package} (--configure):\n"
        "dpkg: dependency problems prevent configuration of proxmox-kernel-6.8:\n"
    )
    found = postinst_culprit(text)
    assert found is not None
    assert [(one.name, one.version, one.kernel, one.code) for one in found.foreign] == [
        (name, version, "6.8.12-1-pve", 11)
    ]
    assert found.packages == (package, "proxmox-kernel-6.8")


def test_the_words_of_newer_dkms_name_the_module_too() -> None:
    text = (
        "Autoinstall on 6.14.11-4-pve succeeded for module(s) nvidia.\n"
        "Autoinstall on 6.14.11-4-pve failed for module(s) drbd(10) i915-sriov-dkms(10).\n"
        "\nError! One or more modules failed to install during autoinstall.\n"
    )
    found = postinst_culprit(text)
    assert found is not None
    assert [one.name for one in found.foreign] == ["drbd", "i915-sriov-dkms"]
    assert found.kernel == "6.14.11-4-pve"


def test_nvidia_s_own_failure_is_no_foreign_one() -> None:
    text = (
        "Error! Bad return status for module build on kernel: 7.0.2-7-pve (x86_64)\n"
        "Consult /var/lib/dkms/nvidia-current/550.163.01/build/make.log for more information.\n"
    )
    found = postinst_culprit(text)
    assert found is not None
    assert found.foreign == ()
    assert found.failures[0].known is not None
    assert found.failures[0].known.answer == "fails"


def test_a_text_without_a_failure_names_nobody() -> None:
    for text in (
        "",
        "Setting up nvidia-smi (535.261.03-1) ...\n",
        "nvidia.ko:\ndkms: autoinstall for kernel 6.1 ok\n",
    ):
        assert postinst_culprit(text) is None
        assert build_failures(text) == ()


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("cc1: internal compiler error: Segmentation fault", "hardware"),
        ("gcc: fatal error: Killed signal terminated program cc1", "memory"),
        ("/bin/sh: line 1: 4711 Segmentation fault (core dumped) gcc -Wp,-MMD", "hardware"),
        ("/tmp/ccX.s: No space left on device", "space"),
        ("make: gcc-13: command not found", "compiler"),
        ("gcc: error: unrecognized command-line option '-ftrivial-auto-var-init=zero'", "compiler"),
        ("nvidia/os-interface.c:732:5: error: implicit declaration of function 'strncpy'", "interfaces"),
        (
            "make[2]: *** [/usr/src/linux-headers-6.17.13-2-pve/Makefile:248: __sub-make] Error 2",
            "interfaces",
        ),
        ("ERROR: Kernel configuration is invalid.", "headers"),
    ],
)
def test_why_a_module_did_not_compile(line: str, cause: str) -> None:
    head = "DKMS make.log for nvidia-580.95.05 for kernel 6.17.13-2-pve (x86_64)"
    log = f"{head}\nCC x\n{line}\nmake: *** [all] Error 2\n"
    found = makelog_verdict(log)
    assert (found.name, found.version, found.kernel) == ("nvidia", "580.95.05", "6.17.13-2-pve")
    assert found.cause == cause
    assert found.line == line
    assert found.known is not None
    assert found.known.answer == "fails"
    assert ("580.105.08" in found.next_step) == (cause == "interfaces"), (
        "a floor is no cure for a bad machine"
    )


def test_a_compiler_that_crashes_is_suspected_hardware_whatever_else_the_log_says() -> None:
    log = "x.c:1:1: error: bad\ncc1: internal compiler error: Segmentation fault\n"
    assert "memtest" in makelog_verdict(log).next_step


def test_an_empty_log_and_a_good_one_have_no_cause() -> None:
    for log in ("", "CC x\nLD y\n"):
        assert makelog_verdict(log).cause == "unknown"
        assert makelog_verdict(log).next_step


# The texts of public reports that may lie beside the checkout.


def test_recorded_status_lines(shared: Path) -> None:
    found = dkms_status((shared / "fixtures/host/dkms/status_mixed.txt").read_text())
    assert [(row.name, row.state, len(row.remarks)) for row in found] == [
        ("nvidia", "installed", 0),
        ("nvidia", "built", 0),
        ("nvidia-current", "added", 0),
        ("nvidia-srv", "installed", 1),
        ("nvidia", "installed", 2),
        ("nvidia-current-open", "installed", 0),
    ]
    assert all(row.is_nvidia for row in found)
    assert [row.arch for row in found] == ["x86_64", "x86_64", None, None, "x86_64", "x86_64"]


def test_a_recorded_foreign_failure_blames_i915_and_not_nvidia(shared: Path) -> None:
    found = postinst_culprit((shared / "fixtures/host/dkms/postinst_fail_pve_i915.txt").read_text())
    assert found is not None
    assert [one.name for one in found.foreign] == ["intel-i915-dkms"]
    assert found.kernel == "6.8.12-1-pve"
    assert found.packages == ("proxmox-kernel-6.8.12-1-pve-signed", "proxmox-kernel-6.8")


def test_a_recorded_failure_of_nvidia_is_below_its_floor(shared: Path) -> None:
    (failure,) = build_failures((shared / "fixtures/host/dkms/fail_nvidia_kernel7.txt").read_text())
    assert (failure.name, failure.version, failure.kernel, failure.code) == (
        "nvidia",
        "580.119.02",
        "7.0.9-1-cachyos",
        10,
    )
    assert failure.known is not None
    assert failure.known.answer == "fails"
    log = makelog_verdict((shared / "fixtures/host/dkms/makelog_nvidia_pve_6.17.txt").read_text())
    assert (log.name, log.version, log.kernel) == ("nvidia-current-open", "550.163.01", "6.17.13-2-pve")
    assert log.known is not None
    assert log.known.answer == "fails"
