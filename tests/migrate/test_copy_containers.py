"""Files in a container's own root, and files whose owners are a container's ids."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from provision.migrate.copy import Copy, CopyFailed, CopySettings, Folder, measure
from provision.run.journal import new_run_id
from tests.migrate.copies import end, hosts, left, quiet
from tests.migrate.rig import GUEST, Host, Pair

__all__ = ["hosts"]
M = Folder("/srv/models/m", "/srv/models/m")


def container(host: Host, first: int | None) -> None:
    """One of the host's own, with its programs; ``first``: its ids begin there. Its first process does nothing."""
    folder = f"/var/lib/lxc/{GUEST}"
    lines = [
        f"lxc.rootfs.path = dir:{folder}/rootfs",
        "lxc.init.cmd = /bin/sleep infinity",
        "lxc.net.0.type = none",
        "lxc.apparmor.profile = unconfined",
        "lxc.console.path = none",
        "lxc.pty.max = 0",
        "lxc.tty.max = 0",
        "lxc.mount.entry = /usr usr none bind,ro 0 0",
    ]
    host.sh(
        f"mkdir -p {folder}/rootfs && cd {folder}/rootfs && "
        "mkdir -p usr etc srv/models var/lib run tmp proc sys dev root; "
        "for d in bin sbin lib lib64; do ln -s usr/$d $d; done; cp /etc/ld.so.cache etc/; chmod 755 /var/lib/lxc"
    )
    if first is not None:
        lines += [f"lxc.idmap = {kind} 0 {first} 65536" for kind in "ug"]
        # The kernel grants no /proc of its own to who sees the machine's only in part, as in a container.
        host.sh("mkdir -p /run/whole && { mountpoint -q /run/whole || mount -t proc proc /run/whole; }")
        host.sh(f"for f in /etc/subuid /etc/subgid; do echo root:{first}:65536 > $f; done")
        host.sh(f"chown -hR {first}:{first} {folder}/rootfs; chmod 755 {folder}")
    else:
        lines.append("lxc.mount.auto = proc:mixed sys:ro")
    host.sh(f"cat > {folder}/config", stdin=("\n".join(lines) + "\n").encode())
    host.sh(f"lxc-start -n {GUEST} -l debug -o /tmp/lxc.log || {{ grep ERROR /tmp/lxc.log; exit 1; }}")
    # It is called running before its first process has its own root, and can be asked for that before it has one.
    same = '[ "$(stat -Lc %d:%i /proc/$p/root)" = "$(stat -Lc %d:%i /)" ]'
    sleeps = "[ \"$(tr '\\0' ' ' < /proc/$p/cmdline)\" = '/bin/sleep infinity ' ]"
    host.sh(
        f"n=0; until p=$(lxc-info -n {GUEST} -pH) && ! {same} && {sleeps}; do n=$((n+1)); sleep 0.1; "
        f"[ $n -lt 300 ] || {{ lxc-info -n {GUEST}; tail -n 30 /tmp/lxc.log; exit 1; }}; done",
        timeout=180,
    )


@pytest.fixture(autouse=True)
def containers(pair: Pair) -> Iterator[None]:
    yield
    for host in (pair.a, pair.b):
        host.sh(f"lxc-stop -k -n {GUEST}; rm -rf /var/lib/lxc/{GUEST}; umount /run/whole", check=False)


def test_a_model_in_an_unprivileged_container_s_own_root_arrives_with_a_privileged_one_s_ids(
    hosts: Pair,
) -> None:
    a, b = hosts.a, hosts.b
    container(a, 200_000)
    rootfs = f"/var/lib/lxc/{GUEST}/rootfs"
    a.sh(
        f"mkdir -p {rootfs}/srv/models/m; cd {rootfs}/srv/models; echo 1 > m/root; echo 2 > m/kpro; echo 3 > m/host; "
        "ln -s /etc/hostname m/link; ln -s / out; chown -hR 200000:200000 .; chown 208100:208100 m/kpro; "
        "chown 0:0 m/host"
    )
    for through in (False, True):
        settings = CopySettings(b.address, through_controller=through)
        source, target = end(a, mounted=False, unprivileged=True), end(b)
        run = Copy(new_run_id(), source, target, (M,), settings)
        assert run.parts[0].source.container == GUEST
        run.prepare()
        run.start()
        run.wait(quiet)
        assert run.verify() == []
        run.place()
        look = "cd /srv/models/m; stat -c '%n %u:%g' . *; readlink link"
        assert b.sh(look).split("\n")[:-1] == [
            ". 0:0",
            "host 0:0",
            "kpro 8100:8100",
            "link 0:0",
            "root 0:0",
            "/etc/hostname",
        ]
        run.undo()
        assert left(hosts, run.run) == []
    for path in ("/srv/models/out/etc", "/srv/models/gone"):
        with pytest.raises(CopyFailed, match=r"is no folder|is not there"):
            measure(source, (Folder(path, "/srv/models/m"),))
    a.sh(f"lxc-stop -k -n {GUEST}")
    with pytest.raises(CopyFailed, match="does not run"):
        measure(source, (M,))


def test_a_model_arrives_in_a_container_s_own_root_through_the_container(hosts: Pair) -> None:
    a, b = hosts.a, hosts.b
    container(b, None)
    a.sh("mkdir -p /srv/models/m; echo 1 > /srv/models/m/one; chown 8100:8100 /srv/models/m/one")
    run = Copy(new_run_id(), end(a), end(b, mounted=False), (M,), CopySettings(b.address))
    run.prepare()
    run.start()
    run.wait(quiet)
    assert run.verify() == []
    run.place()
    assert run.verify(final=True) == []
    run.clean()
    assert b.inside("cd /srv/models/m; stat -c '%n %u:%g' *; cat one").split() == ["one", "8100:8100", "1"]
    run.undo()
    assert left(hosts, run.run) == []
    assert b.inside("ls -A /srv/models; ls /var/lib/kpro/migrations 2>/dev/null; true") == ""
