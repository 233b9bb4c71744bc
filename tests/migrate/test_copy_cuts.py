"""A copy that is cut goes on by itself or at the next start, behind what arrived; what cannot go on says why."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from provision.host.transport import TransportError
from provision.migrate.copy import Copy, CopyFailed, key, reach
from provision.migrate.copy.key import folder
from tests.migrate.copies import MODEL, arrived, copy, end, hosts, left, literal, quiet, random, until
from tests.migrate.rig import Host, Pair

__all__ = ["hosts"]
MIB = 2**20


def test_a_copy_that_is_killed_at_60_percent_resends_less_than_5_percent(hosts: Pair) -> None:
    a = hosts.a
    for number in range(4):
        random(a, f"/srv/models/m/shard-{number}.safetensors", 32)
    total = 4 * 32 * MIB
    run = copy(hosts, bwlimit_mib=40, streams=4)
    run.prepare()
    run.start()
    until(run, 0.6)
    a.sh("pkill -9 -x rsync")
    there = arrived(hosts.b, run)
    now = run.wait(quiet)
    assert now.attempt == 2
    sent = literal(a, run.run)
    assert 0.6 * total < there < total
    assert sent > 0
    assert there + sent < 1.05 * total
    assert run.verify() == []
    run.undo()
    assert left(hosts, run.run) == []


def test_a_full_disk_is_told_with_the_bytes_that_are_missing_and_the_copy_goes_on_behind_them(
    hosts: Pair,
) -> None:
    hosts.b.sh("mkdir -p /srv/models; mount -t tmpfs -o size=30m none /srv/models")
    random(hosts.a, "/srv/models/m/shard-0.safetensors", 40)
    run = copy(hosts)
    run.prepare()
    run.start()
    with pytest.raises(CopyFailed) as failed:
        run.wait(quiet)
    assert "No space left" in failed.value.seen
    assert "bytes are missing there, and /srv/models on b has 0 bytes" in failed.value.seen
    assert "full" in failed.value.why
    assert "--resume" in failed.value.next
    hosts.b.sh("mount -o remount,size=60m /srv/models")
    again = copy(hosts, run=run.run)
    again.prepare()
    again.start()
    again.wait(quiet)
    assert literal(hosts.a, run.run) < 14 * MIB
    assert again.verify() == []
    again.undo()


def test_a_file_system_that_cannot_be_written_to_is_told_at_once(hosts: Pair) -> None:
    hosts.b.sh(
        "mkdir -p /srv/models; mount -t tmpfs -o size=30m none /srv/models; mount -o remount,ro /srv/models"
    )
    random(hosts.a, "/srv/models/m/a", 1)
    with pytest.raises(CopyFailed, match="Read-only"):
        copy(hosts).prepare()


def test_a_source_that_is_not_reached_leaves_nothing_on_the_target(hosts: Pair) -> None:
    random(hosts.a, "/srv/models/m/one", 1)
    run = copy(hosts)
    run.prepare()
    run.start()
    run.wait(quiet)
    assert run.verify() == []
    run.place()
    dead = Copy(run.run, replace(end(hosts.a), lost=True), end(hosts.b), (MODEL,), run.settings)
    with pytest.raises(TransportError):
        dead.undo()
    assert [line for line in left(hosts, run.run) if line.startswith("b:")] == []
    assert hosts.b.sh("ls -A /srv/models") == ""
    run.undo()
    assert left(hosts, run.run) == []


def sshd(host: Host, line: str) -> None:
    """Its server is told so, and answers again."""
    host.sh(
        "cat > /etc/ssh/sshd_config.d/no.conf && systemctl reload ssh && sleep 0.3; for i in $(seq 50); do "
        "ssh-keyscan -T 2 127.0.0.1 2>/dev/null | grep -q . && exit; sleep 0.1; done; exit 1",
        stdin=line.encode(),
    )


def test_an_sshd_that_takes_no_key_and_another_machine_s_host_key_are_told(hosts: Pair) -> None:
    random(hosts.a, "/srv/models/m/a", 1)
    run = copy(hosts)
    sshd(hosts.b, "PermitRootLogin no\n")
    try:
        with pytest.raises(CopyFailed, match="does not take the run's key"):
            run.prepare()
    finally:
        sshd(hosts.b, "PermitRootLogin forced-commands-only\n")
    assert reach(end(hosts.a), end(hosts.b), run.settings) is None
    hosts.b.sh(
        "echo 'PermitRootLogin forced-commands-only' > /etc/ssh/sshd_config.d/no.conf && systemctl reload ssh"
    )
    run.prepare()
    hosts.b.sh("rm /etc/ssh/sshd_config.d/no.conf && systemctl reload ssh")
    wrong = copy(hosts, address=hosts.a.address)
    assert "another machine" in (reach(end(hosts.a), end(hosts.b), wrong.settings) or "")
    with pytest.raises(CopyFailed, match="not the machine whose host keys"):
        wrong.prepare()
    nobody = copy(hosts, port=9)
    assert "no sshd answers" in (reach(end(hosts.a), end(hosts.b), nobody.settings) or "")
    with pytest.raises(CopyFailed, match="cannot be reached"):
        nobody.prepare()
    for each in (run, wrong, nobody):
        each.undo()
    assert left(hosts, "") == []


def test_the_key_is_in_no_argument_list_journal_or_log_and_never_leaves_the_source(hosts: Pair) -> None:
    a, b = hosts.a, hosts.b
    random(a, "/srv/models/m/one", 20)
    run = copy(hosts, bwlimit_mib=10)
    watch = (
        "t=$(( $(date +%s) + 4 )); while [ $(date +%s) -lt $t ]; do cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ "
        "2>/dev/null | tr '\\0' ' '; sleep 0.05; done"
    )
    with ThreadPoolExecutor(2) as pool:
        seen = [pool.submit(host.sh, watch) for host in (a, b)]
        time.sleep(0.5)
        run.prepare()
        run.start()
        run.wait(quiet)
        texts = [future.result() for future in seen]
    secret = a.sh(f"cat {folder(run.run)}/key.0").splitlines()
    assert secret[0].startswith("-----BEGIN OPENSSH PRIVATE KEY")
    body = [line for line in secret[1:-1] if len(line) > 30]
    texts += [host.sh("journalctl --no-pager -o cat; cat /var/log/* 2>/dev/null; true") for host in (a, b)]
    texts += [a.sh(f"cd {folder(run.run)}; cat *.out *.err copy ssh.* state */before")]
    assert "rsync" in texts[0], "nothing was watched"
    for line in body:
        assert not any(line in text for text in texts)
    assert a.sh(f"stat -c %a {folder(run.run)} {folder(run.run)}/key.0").split() == ["700", "600"]
    assert body[0] not in b.sh(
        "grep -rsl . /run/kpro-migrate /root/.ssh /srv/models | xargs cat", check=False
    )
    run.undo()


@pytest.mark.parametrize(
    "given",
    [
        b"ssh-ed25519 AAAA somebody\n",
        b"# no end of line\r\nssh-ed25519 AAAA kpro-migrate-other\n\n  \xff\0 x",
        b"",
        None,
    ],
)
def test_the_lines_of_others_stay_byte_for_byte_and_the_file_what_it_was(
    hosts: Pair, given: bytes | None
) -> None:
    b = hosts.b
    b.sh("mv /root/.ssh /root/kept; mkdir -m 700 -p /root/.ssh /root/far")
    if given is None:
        b.sh("rmdir /root/.ssh")
    else:
        make = "cat > keys; chown 8100:33 keys; chmod 640 keys; ln -s ../far/keys /root/.ssh/authorized_keys"
        b.sh(f"cd /root/far; {make}", stdin=given)
    look = "cd /root; ls -lAn --time-style=+ .ssh far 2>&1; base64 .ssh/authorized_keys 2>&1; true"
    try:
        before = b.sh(look)
        lines = b'1\nrestrict,expiry-time="@EXPIRY@" ssh-ed25519 BBBB kpro-migrate-R\n'
        for _ in range(2):
            done = end(b).host(key.authorized("R"), stdin=lines)
            assert done.ok, done.error_text
        text = end(b).host("cat /root/.ssh/authorized_keys").stdout
        first, rest = text.split(b"\n", 1)
        assert re.fullmatch(rb'restrict,expiry-time="20\d{10}" ssh-ed25519 BBBB kpro-migrate-R', first)
        assert rest == (given or b"")
        if given is not None:
            assert b.sh("stat -c '%a %u:%g' /root/far/keys").split() == ["640", "8100:33"]
        for _ in range(2):
            done = end(b).host(key.unauthorized("R"))
            assert done.ok, done.error_text
        assert b.sh(look) == before
    finally:
        b.sh("rm -rf /root/.ssh /root/far /run/kpro-migrate; mv /root/kept /root/.ssh")


def test_a_key_whose_time_is_over_opens_nothing(hosts: Pair) -> None:
    random(hosts.a, "/srv/models/m/one", 1)
    run = copy(hosts)
    run.prepare()
    hosts.b.sh("sed -i '1s/expiry-time=\"20../expiry-time=\"2020/' /root/.ssh/authorized_keys")
    run.start()
    with pytest.raises(CopyFailed, match="does not take the run's key"):
        run.wait(quiet)
    run.undo()
    assert left(hosts, run.run) == []


def test_the_key_opens_nothing_but_writing_into_the_staging_folder(hosts: Pair) -> None:
    a = hosts.a
    random(a, "/srv/models/m/one", 1)
    run = copy(hosts)
    run.prepare()
    ssh = f"cd {folder(run.run)}; "
    assert "rrsync" in a.sh(f"{ssh} ssh -F ssh.0 kpro-target id 2>&1; true")
    assert "uid=" not in a.sh(f"{ssh} ssh -F ssh.0 kpro-target id 2>&1; true")
    for words in ("kpro-target:. /tmp/out", "kpro-target:/etc/hostname /tmp/out"):
        assert "rc=0" not in a.sh(f"{ssh} rsync -e 'ssh -F ssh.0' -r {words}; echo rc=$?")
    a.sh(f"{ssh} rsync -e 'ssh -F ssh.0' copy kpro-target:../../../../tmp/escaped; true", check=False)
    a.sh(f"{ssh} rsync -e 'ssh -F ssh.0' known_hosts kpro-target:/tmp/escaped; true", check=False)
    assert hosts.b.sh("ls /tmp/escaped 2>/dev/null; true") == ""
    line = hosts.b.sh("head -n 1 /root/.ssh/authorized_keys")
    assert line.startswith('restrict,from="10.87.0.2",expiry-time="2')
    run.undo()
