"""Copies of a size: the rate beside plain rsync's, memory, many small files, a large hole, machines that restart.

``scripts/test-full -k test_copy``: about six minutes on two cores.
"""

from __future__ import annotations

import resource
import statistics
import time
from pathlib import Path

import pytest

from provision.migrate.copy import Copy, CopyFailed, Folder
from provision.migrate.copy.key import CIPHERS, folder, mark
from tests.migrate.conftest import pair
from tests.migrate.copies import arrived, copy, hosts, left, literal, quiet, random, until
from tests.migrate.rig import Pair

__all__ = ["hosts", "pair"]
MIB = 2**20


def tell(line: str) -> None:
    print(f"copy: {line}", flush=True)  # noqa: T201 - figures are printed


def resident() -> float:
    """MiB of this process now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / MIB


def sent_seconds(run: Copy, pair: Pair) -> float:
    """From the begin of the unit's first try to the end of its last rsync, by the source's own clock."""
    here = folder(run.run)
    began = float(pair.a.sh(f"stat -c %.3Y {here}/copy"))
    ended = max(float(text) for text in pair.a.sh(f"stat -c %.3Y {here}/*.out").split())
    return ended - began


def test_the_rate_is_at_least_0_9_of_plain_rsync_s_with_the_same_cipher(hosts: Pair) -> None:
    a, b = hosts.a, hosts.b
    for number in range(4):
        random(a, f"/srv/models/m/shard-{number}.safetensors", 256)
    a.sh("ssh-keygen -q -t ed25519 -N '' -C plain -f /root/plain")
    b.sh("cat >> /root/.ssh/authorized_keys", stdin=a.sh("cat /root/plain.pub").encode())
    ssh = (
        f"ssh -i /root/plain -o StrictHostKeyChecking=no -o Ciphers={CIPHERS.split(',')[0]} -o Compression=no"
    )
    # The unit leaves processor and disk to who serves; beside other work the same is asked of plain rsync.
    low = "nice -n 10 ionice -c 3"
    b.sh("mkdir -p /srv/models")
    plain, ours = [], []
    for _ in range(3):
        began = time.monotonic()
        a.sh(f"{low} rsync -a -e '{ssh}' /srv/models/m/ root@{b.address}:/srv/models/plain/", timeout=300)
        plain.append(time.monotonic() - began)
        b.sh("rm -rf /srv/models/plain")
        run = copy(hosts)
        run.prepare()
        run.start()
        run.wait(quiet)
        ours.append(sent_seconds(run, hosts))
        assert run.verify() == []
        run.undo()
    ratio = statistics.median(plain) / statistics.median(ours)
    tell(f"plain rsync {[round(s, 2) for s in plain]} s, ours {[round(s, 2) for s in ours]} s for 1 GiB")
    tell(
        f"{1024 / statistics.median(plain):.0f} and {1024 / statistics.median(ours):.0f} MiB/s, ratio {ratio:.2f}"
    )
    assert ratio >= 0.9


@pytest.mark.parametrize("through", [False, True])
def test_the_controller_s_memory_does_not_grow_with_the_folder(hosts: Pair, through: bool) -> None:
    a = hosts.a
    random(a, "/srv/models/m/small", 1)
    warm = copy(hosts, through_controller=through)
    warm.prepare()
    warm.start()
    warm.wait(quiet)
    warm.undo()
    for number in range(3):
        random(a, f"/srv/models/m/shard-{number}.safetensors", 256)
    before, most = resident(), 0.0

    def heard(_: str) -> None:
        nonlocal most
        most = max(most, resident())

    run = copy(hosts, through_controller=through)
    run.prepare()
    run.start()
    began = time.monotonic()
    run.wait(heard)
    heard("")
    seconds = time.monotonic() - began
    assert run.verify() == []
    heard("")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    tell(
        f"{run.route}: 769 MiB in {seconds:.1f} s; resident {before:.0f} MiB before, {most:.0f} after, peak {peak:.0f}"
    )
    assert most - before < 64
    assert peak - before < 160
    run.undo()


def test_ten_thousand_small_files_and_a_hole_of_2_gib(hosts: Pair) -> None:
    a, b = hosts.a, hosts.b
    a.sh(
        "mkdir -p /srv/models/small /srv/models/hole; cd /srv/models/small; for d in $(seq 100); do mkdir $d; "
        "for f in $(seq 100); do echo $d.$f > $d/$f; done; done; cd ../hole; truncate -s 2G file; "
        "printf begin | dd of=file conv=notrunc status=none; printf end >> file",
        timeout=120,
    )
    for name in ("small", "hole"):
        for through in (False, True):
            run = copy(
                hosts, Folder(f"/srv/models/{name}", f"/srv/models/{name}"), through_controller=through
            )
            began = time.monotonic()
            run.prepare()
            run.start()
            run.wait(quiet)
            arrived = time.monotonic() - began
            assert run.verify() == []
            run.place()
            assert run.verify(final=True) == []
            used = int(b.sh(f"du -sk /srv/models/{name} | cut -f1"))
            whole = time.monotonic() - began
            tell(f"{name}, {run.route}: {arrived:.1f} s, verified and in place {whole:.1f} s, {used} KiB")
            if name == "hole":
                assert used < 1024
                assert b.sh("stat -c %s /srv/models/hole/file").strip() == str(2**31 + 3)
            else:
                assert b.sh("find /srv/models/small -type f | wc -l").strip() == "10000"
            run.undo()
            assert left(hosts, run.run) == []


@pytest.mark.parametrize("which", ["unit", "source", "target", "receiver"])
def test_a_machine_that_is_gone_at_60_percent_costs_less_than_5_percent(hosts: Pair, which: str) -> None:
    a, b = hosts.a, hosts.b
    for number in range(4):
        random(a, f"/srv/models/m/shard-{number}.safetensors", 64)
    run = copy(hosts, bwlimit_mib=50, stall_seconds=10)
    run.prepare()
    run.start()
    until(run, 0.6)
    if which == "receiver":
        b.sh("pkill -9 -x rsync")
    elif which == "unit":
        a.sh(f"systemctl kill -s KILL {mark(run.run)}.service")
    else:
        # A restart: what the file system holds stays, all that ran is gone and /run with it.
        host = a if which == "source" else b
        host.kill()
        host.start()
        for _ in range(100):
            if "ssh" in host.sh("systemctl is-active ssh && echo ssh", check=False):
                break
            time.sleep(0.2)
    there = arrived(b, run)
    again = copy(hosts, run=run.run, bwlimit_mib=50, stall_seconds=10)
    again.prepare()
    again.start()
    again.wait(quiet)
    sent = literal(a, run.run)
    tell(f"{which}: {there / MIB:.0f} of 256 MiB were there, {sent / MIB:.1f} MiB were sent afterwards")
    assert there + sent < 1.05 * 256 * MIB
    assert again.verify() == []
    again.undo()
    assert left(hosts, run.run) == []


def test_a_network_that_is_cut_is_waited_for_and_another_controller_finds_the_running_unit(
    hosts: Pair,
) -> None:
    random(hosts.a, "/srv/models/m/shard-0.safetensors", 96)
    run = copy(hosts, bwlimit_mib=24, stall_seconds=5)
    run.prepare()
    run.start()
    until(run, 0.3)
    hosts.b.cut()
    for _ in range(300):
        if run.progress().state == "waiting":
            break
        time.sleep(0.1)
    assert run.progress().state == "waiting"
    assert run.progress().why
    hosts.b.mend()
    other = copy(hosts, run=run.run, bwlimit_mib=24, stall_seconds=5)
    other.prepare()
    other.start()
    assert other.wait(quiet).attempt > 1
    assert literal(hosts.a, run.run) < 0.8 * 96 * MIB
    assert other.verify() == []
    other.undo()


def test_a_file_system_that_becomes_read_only_ends_the_copy(hosts: Pair) -> None:
    hosts.b.sh("mkdir -p /srv/models; mount -t tmpfs -o size=90m none /srv/models")
    random(hosts.a, "/srv/models/m/one", 20)
    run = copy(hosts)
    run.prepare()
    hosts.b.sh("mount -o remount,ro /srv/models")
    run.start()
    with pytest.raises(CopyFailed, match="cannot be written to"):
        run.wait(quiet)
    hosts.b.sh("mount -o remount,rw /srv/models")
    run.undo()
