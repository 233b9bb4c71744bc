"""Which entry of GRUB's menu boots a kernel: the script on menus as grub-mkconfig writes them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from provision.acts.kernel import ENTRY

_LINE = "{pad}menuentry '{title}' --class debian --class os $menuentry_id_option 'gnulinux-{kernel}-{kind}-UUID' {{\n"
_BODY = (
    "{pad}\tinsmod gzio\n{pad}\techo\t'Loading Linux {kernel} ...'\n"
    "{pad}\tlinux\t{boot}/vmlinuz-{kernel} root=UUID=u ro quiet\n{pad}\tinitrd\t{boot}/initrd.img-{kernel}\n{pad}}}\n"
)


def entry(kernel: str, kind: str = "advanced", pad: str = "\t", boot: str = "/boot") -> str:
    title = f"Debian GNU/Linux, with Linux {kernel}" + (" (recovery mode)" if kind == "recovery" else "")
    return _LINE.format(pad=pad, title=title, kernel=kernel, kind=kind) + _BODY.format(
        pad=pad, kernel=kernel, boot=boot
    )


def menu(*kernels: str, boot: str = "/boot", flat: bool = False) -> str:
    """Newest first, as grub-mkconfig orders them."""
    pad = "" if flat else "\t"
    simple = (
        "menuentry 'Debian GNU/Linux' --class debian $menuentry_id_option 'gnulinux-simple-UUID' {\n"
        + _BODY.format(pad="", kernel=kernels[0], boot=boot)
    )
    inside = "".join(
        entry(kernel, kind, pad, boot) for kernel in kernels for kind in ("advanced", "recovery")
    )
    if flat:
        return simple + inside
    above = (
        "submenu 'Advanced options for Debian GNU/Linux' $menuentry_id_option 'gnulinux-advanced-UUID' {\n"
    )
    after = "menuentry 'UEFI Firmware Settings' $menuentry_id_option 'uefi-firmware' {\n\tfwsetup\n}\n"
    return f"if [ x = y ]; then\n  set x=y\nfi\n{simple}{above}{inside}}}\n{after}"


def found(tmp_path: Path, text: str, kernel: str) -> tuple[int, str]:
    config = tmp_path / "grub.cfg"
    config.write_text(text)
    (tmp_path / "update-grub").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "update-grub").chmod(0o755)
    script = ENTRY.format(kernel=kernel).replace("/boot/grub/grub.cfg", str(config))
    done = subprocess.run(
        ["sh", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
    )
    return done.returncode, done.stdout.strip()


NEW, OLD = "6.1.0-53-amd64", "6.1.0-5-amd64"


@pytest.mark.parametrize("boot", ["/boot", ""], ids=["one file system", "boot of its own"])
@pytest.mark.parametrize("kernel", [NEW, OLD])
def test_a_kernel_is_found_by_the_ids_of_its_submenu_and_entry(
    tmp_path: Path, kernel: str, boot: str
) -> None:
    text = menu(NEW, OLD, boot=boot)
    assert found(tmp_path, text, kernel) == (0, f"gnulinux-advanced-UUID>gnulinux-{kernel}-advanced-UUID")


def test_a_menu_without_submenus_has_the_entry_alone(tmp_path: Path) -> None:
    assert found(tmp_path, menu(NEW, OLD, flat=True), OLD) == (0, f"gnulinux-{OLD}-advanced-UUID")


def test_a_kernel_that_the_menu_lacks_is_an_error_and_no_other_is_taken(tmp_path: Path) -> None:
    assert found(tmp_path, menu(NEW, OLD), "6.1.0-50-amd64") == (1, "")
    assert found(tmp_path, menu(NEW), OLD) == (1, "")
    assert found(tmp_path, "", OLD) == (1, "")


def test_an_entry_of_recovery_or_the_newest_whichever_it_is_holds_nothing(tmp_path: Path) -> None:
    assert found(tmp_path, entry(OLD, "recovery"), OLD) == (1, "")
    assert found(tmp_path, menu(OLD).split("submenu")[0], OLD) == (1, "")
