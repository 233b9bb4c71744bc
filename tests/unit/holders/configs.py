"""Generated boot configurations: lines that hold GPUs among those of other people, in every format that kpro edits."""

from __future__ import annotations

from hypothesis import strategies as st

OURS = ("10de:2230", "10de:1aef", "10DE:2230", "10de:2230:10de:1459")
FOREIGN = ("10de:2204", "1002:73bf", "8086:1533", "x", "")
IDS = st.lists(st.sampled_from(OURS + FOREIGN), max_size=4).map(",".join)
JUNK = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=20)
COMMENT = st.tuples(st.sampled_from(["#", "# ", "  # "]), JUNK).map("".join)
BLANK = st.sampled_from([" ", "\t", "   "])
VFIO = st.sampled_from(["vfio-pci", "vfio_pci", "pci-stub", "vifo-pci"])
MODULES = st.sampled_from(
    [
        "nvidia",
        "nvidia_drm",
        "nvidia-current",
        "nouveau",
        "nvidiafb",
        "snd_hda_intel",
        "xhci_pci",
        "drm",
        "ext4",
    ]
)


def _spaced(*parts: str | st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """The parts with the same odd blanks between them."""
    drawn = [st.just(part) if isinstance(part, str) else part for part in parts]
    return st.tuples(BLANK, *drawn).map(lambda found: found[0].join(part for part in found[1:] if part))


def _file(*lines: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Lines with one kind of line end, the last with one or without."""
    return st.tuples(
        st.lists(st.one_of(*lines, COMMENT, JUNK, st.just("")), max_size=8),
        st.sampled_from(["\n", "\n", "\r\n"]),
        st.booleans(),
    ).map(lambda found: found[1].join(found[0]) + (found[1] if found[2] else ""))


_OPTIONS = _spaced(
    "options", VFIO, st.sampled_from(["", "disable_vga=1"]), IDS.map("ids={}".format), st.just("a=b")
)
MODPROBE = _file(
    _OPTIONS,
    _OPTIONS.map(lambda line: line.replace(" ", " \\\n", 1)),
    _OPTIONS.map(lambda line: line.replace("ids=", "ids\\=") + " \\\\"),
    _spaced("options", VFIO, IDS.map('"ids={}"'.format)),
    _spaced("options", VFIO, IDS.map('ids="{}"'.format)),
    _spaced("alias", MODULES, st.sampled_from(["off", "vfio-pci", "nvidia"])),
    _spaced(
        "install",
        MODULES,
        st.sampled_from(["/bin/false && modprobe -i nvidia", "/bin/sh -c 'exit 1'", "exit 0"]),
    ),
    _spaced("install", MODULES, st.just("/sbin/modprobe vfio-pci; /sbin/modprobe -i snd_hda_intel")),
    _spaced("softdep", MODULES, "pre:", VFIO, st.sampled_from(["", "ext4", "post: loop"])),
    _spaced("blacklist", MODULES),
    _spaced("install", MODULES, st.sampled_from(["/bin/false", "/bin/true"])),
    st.just("install nvidia modprobe -i nvidia-current $CMDLINE_OPTS"),
    st.just("install nvidia /sbin/modprobe vfio-pci; /sbin/modprobe --ignore-install nvidia"),
    st.just("alias pci:v000010DEd00002230sv*sd*bc*sc*i* vfio-pci"),
)
LISTS = _file(
    MODULES,
    VFIO,
    _spaced(VFIO, IDS.map("ids={}".format), st.sampled_from(["", "# x"])),
    _spaced(VFIO, IDS.map('"ids={}"'.format)),
)
_ADDRESS = st.lists(
    st.sampled_from(["0000:42:00.0", "0000:42:00.1", "0000:61:00.0", "0000:42:00.?", "0000:4[2-3]:00.0"]),
    min_size=1,
    max_size=3,
).map("|".join)
_RULE = st.tuples(
    st.sampled_from(['SUBSYSTEM=="pci", ', 'ACTION=="add", ', "", 'SUBSYSTEM=="pci",\\\n  ']),
    st.sampled_from(["KERNEL", "KERNELS"]),
    st.sampled_from(["==", " == "]),
    _ADDRESS,
    st.sampled_from(["vfio-pci", "nvidia", "pci-stub", "none", "nouveau", "uio_pci_generic"]),
).map(lambda found: f'{found[0]}{found[1]}{found[2]}"{found[3]}", ATTR{{driver_override}}="{found[4]}"')
UDEV = _file(
    _RULE,
    st.just('ATTR{vendor}=="0x10de", ATTR{device}=="0x2230", RUN+="/sbin/vfio-bind %k"'),
    st.just('ATTR{vendor}=="0x1002", ATTR{driver_override}="vfio-pci"'),
    st.just('KERNEL=="sda", ENV{X}="vfio"'),
    st.just(
        'SUBSYSTEM=="module", KERNEL=="vfio_pci", RUN+="/bin/sh -c \'echo 10de 2230 > /sys/x/vfio-pci/new_id\'"'
    ),
    st.just('DEVPATH=="*/0000:42:00.0", ATTR{driver_override}="vfio-pci"'),
    st.just('ATTR{vendor}==i"0x10DE", ENV{PCI_CLASS}=="30000", ATTR{driver_override}="vfio-pci"'),
    st.just('KERNEL=="0000:61:00.0", RUN+="/sbin/driverctl set-override 0000:42:00.0 vfio-pci"'),
)
_PARAMETER = st.one_of(
    st.sampled_from(
        [
            "quiet",
            "iommu=pt",
            "vifo-pci.ids=10de:2230",
            "modprobe.blacklist=nouveau,nvidia",
            "module_blacklist=nvidia",
            "rd.driver.pre=vfio-pci",
            "root=ZFS=rpool/ROOT/pve-1",
        ]
    ),
    st.tuples(st.sampled_from(["vfio-pci.ids=", "vfio_pci.ids=", "pci-stub.ids="]), IDS).map("".join),
)
LINE = st.tuples(BLANK, st.lists(_PARAMETER, max_size=5)).map(lambda found: found[0].join(found[1]))
KERNEL_CMDLINE = st.tuples(LINE, st.sampled_from(["", "\n"])).map("".join)
_NAME = st.sampled_from(["GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT", "VFIO_PART"])
GRUB = _file(
    st.tuples(_NAME, LINE).map('{0[0]}="{0[1]}"'.format),
    st.tuples(_NAME, LINE).map("{0[0]}+='{0[1]}'".format),
    st.tuples(_NAME, LINE).map('  export {0[0]}="${0[0]} {0[1]}" # {0[1]}'.format),
    st.tuples(_NAME, LINE, LINE).map('A=1; {0[0]}="{0[1]} \\\n{0[2]}" && true'.format),
    st.tuples(_NAME, IDS).map("{0[0]}=quiet\\ vfio-pci.ids={0[1]}".format),
    st.tuples(_NAME, IDS).map("{0[0]}='quiet vfio-pci.ids=\"{0[1]}\"'".format),
    LINE.map('#GRUB_CMDLINE_LINUX="{}"'.format),
    IDS.map('VFIO_IDS="{}"'.format),
    st.just('GRUB_CMDLINE_LINUX="quiet vfio-pci.ids=$VFIO_IDS"'),
    st.tuples(_NAME, LINE).map('{0[0]}="${{{0[0]}:+${0[0]} }}{0[1]}"'.format),
    st.tuples(_NAME, LINE).map('{0[0]}="$(echo {0[1]})"'.format),
    st.just("GRUB_DISTRIBUTOR=`( . /etc/os-release && echo ${NAME} )`"),
)
DRACUT = _file(
    st.tuples(st.sampled_from(["force_drivers", "add_drivers"]), VFIO, MODULES).map(
        '{0[0]}+=" {0[1]} {0[2]} "'.format
    ),
    LINE.map('kernel_cmdline="{}"'.format),
)

ENTRY = st.tuples(LINE, LINE).map("title x\nlinux /vmlinuz\noptions {0[0]}\n#options {0[1]}\n".format)

FILES: dict[str, st.SearchStrategy[str]] = {
    "/etc/modprobe.d/vfio.conf": MODPROBE,
    "/usr/lib/modprobe.d/vendor.conf": MODPROBE,
    "/etc/modules": LISTS,
    "/etc/modules-load.d/vfio.conf": LISTS,
    "/etc/initramfs-tools/modules": LISTS,
    "/etc/udev/rules.d/10-vfio.rules": UDEV,
    "/etc/default/grub": GRUB,
    "/etc/default/grub.d/vfio.cfg": GRUB,
    "/etc/kernel/cmdline": KERNEL_CMDLINE,
    "/etc/dracut.conf.d/vfio.conf": DRACUT,
    "/boot/loader/entries/x.conf": ENTRY,
    "/etc/driverctl.d/pci-0000:42:00.0": st.sampled_from(["vfio-pci\n", "vfio-pci", "none\n", "nvidia\n"]),
    "/etc/driverctl.d/pci-0000:42:00.1": st.sampled_from(["none\n", "snd_hda_intel\n", "nouveau"]),
    "/etc/driverctl.d/pci-0000:61:00.0": st.just("vfio-pci\n"),
}
CONFIGS = st.fixed_dictionaries({}, optional=FILES)
