from __future__ import annotations

from provision.testhost.vm.pile import AUDIO, BDFS, GPU, PILES
from provision.testhost.vm.recipe import Identity, Recipe, files, grub_cfg, uuids

IDENTITY = Identity("ssh-ed25519 LOGIN\n", "PRIVATE\n", "ssh-ed25519 HOST\n")


def laid(pile: str) -> dict[str, tuple[int, str]]:
    return files(Recipe(pile=PILES[pile]), IDENTITY, "MARKER", "FS")


def test_the_full_pile_holds_both_gpus_in_every_usual_way() -> None:
    made = {path: text for path, (_, text) in laid("full").items()}
    ids = f"{GPU},{AUDIO}"
    assert f"options vfio-pci ids={ids}" in made["/etc/modprobe.d/vfio.conf"]
    assert "softdep nvidia pre: vfio-pci" in made["/etc/modprobe.d/vfio.conf"]
    assert "vfio_pci" in made["/etc/modules-load.d/vfio.conf"]
    assert f"vfio_pci ids={ids}" in made["/etc/initramfs-tools/modules"]
    assert f"vfio-pci.ids={ids}" in made["/etc/default/grub"]
    rules = made["/etc/udev/rules.d/10-vfio-gpu.rules"]
    assert [bdf for bdf in BDFS if f'KERNEL=="{bdf}", ATTR{{driver_override}}="vfio-pci"\n' in rules] == list(
        BDFS
    )
    assert made["/etc/modprobe.d/blacklist-gpu.conf"] == "blacklist nouveau\nblacklist nvidia\n"


def test_the_boot_loader_starts_with_what_its_defaults_say() -> None:
    recipe = Recipe()
    config = grub_cfg(recipe, "6.1.0-50-amd64", "FS")
    assert f"vmlinuz-6.1.0-50-amd64 root=UUID=FS ro {recipe.line} quiet" in config
    assert f'GRUB_CMDLINE_LINUX="{recipe.line}"' in laid("full")["/etc/default/grub"][1]


def test_without_a_pile_nothing_mentions_vfio() -> None:
    assert [
        path for path, (_, text) in laid("none").items() if "vfio" in path + text or "blacklist" in text
    ] == []
    assert "vfio" not in Recipe(pile=PILES["none"]).line


def test_one_gpu_is_held_by_its_place_only_for_an_id_would_hold_the_other_too() -> None:
    made = laid("one")
    assert "/etc/modprobe.d/vfio.conf" not in made
    assert "ids" not in Recipe(pile=PILES["one"]).line
    rules = made["/etc/udev/rules.d/10-vfio-gpu.rules"][1]
    assert "0000:02:00.0" in rules
    assert "0000:01:00.0" not in rules
    assert "echo 0000:02:00.0 >/sys/bus/pci/drivers_probe" in rules


def test_the_audio_functions_can_be_left_to_their_own_driver() -> None:
    made = laid("audio-free")
    assert AUDIO not in "".join(text for _, text in made.values())
    assert "00.1" not in made["/etc/udev/rules.d/10-vfio-gpu.rules"][1]


def test_the_marker_is_read_only_and_keys_are_roots_own() -> None:
    made = laid("full")
    assert made["/etc/kpro/test-host"] == (0o444, "kpro-test-host MARKER\n")
    assert made["/etc/ssh/ssh_host_ed25519_key"] == (0o600, "PRIVATE\n")
    assert made["/root/.ssh/authorized_keys"][0] == 0o600


def test_another_content_is_another_machine() -> None:
    assert uuids("a") == uuids("a")
    assert len({*uuids("a"), *uuids("b")}) == 4
