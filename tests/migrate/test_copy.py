"""Folders from host to host: what arrives is what was sent, and what is left when it is over is nothing else."""

from __future__ import annotations

import json

import pytest

from provision.migrate.copy import Copy, CopyFailed, Folder, measure
from tests.migrate.copies import MODEL, copy, end, flip, hosts, left, quiet, random
from tests.migrate.rig import Host, Pair

__all__ = ["hosts"]
DATA = Folder("/srv/models/data", "/srv/models/data", immutable=False)
NOTE = Folder("/srv/models/note.db", "/srv/models/note.db", immutable=False)
LOOK = (
    "find . ! -type d -printf '%p %s %T@ %m %U:%G %n %l\\n' | sort; find . -type d -printf '%p %m %U:%G\\n' | sort; "
    "find . -type f -print0 | sort -z | xargs -0 sha256sum"
)


def model(host: Host) -> None:
    """Links of both kinds, owners, modes, times, an odd name, two files large enough for streams, one with a hole."""
    random(host, "/srv/models/m/one.safetensors", 40)
    random(host, "/srv/models/m/two.safetensors", 24)
    host.sh(
        "cd /srv/models/m; echo '{}' > config.json; mkdir -p sub/empty; ln config.json sub/same.json; "
        "ln -s ../config.json sub/link.json; chown 8100:8100 config.json; chmod 640 config.json; : > nothing; "
        "touch -d 2020-02-03T04:05:06.789 two.safetensors; printf x > 'sub/a name\twith\nall'; chmod 700 sub/empty; "
        "truncate -s 50M hole; printf end >> hole; touch -d 2021-02-03 sub"
    )


def copied(run: Copy) -> list[str]:
    run.prepare()
    run.start()
    run.wait(quiet)
    return run.verify()


@pytest.mark.parametrize("through", [False, True])
def test_a_model_arrives_whole_and_nothing_else_is_left(hosts: Pair, through: bool) -> None:
    a, b = hosts.a, hosts.b
    model(a)
    keys = "cat /root/.ssh/authorized_keys; stat -c '%a %u:%g' /root/.ssh/authorized_keys"
    before, theirs = b.sh(keys), a.sh(f"cd /srv/models/m; {LOOK}")
    run = copy(hosts, through_controller=through)
    assert copied(run) == []
    run.place()
    assert run.verify(final=True) == []
    run.clean()
    assert b.sh(f"cd /srv/models/m; {LOOK}") == theirs == a.sh(f"cd /srv/models/m; {LOOK}")
    assert int(b.sh("du -k /srv/models/m/hole | cut -f1")) < 1024
    assert b.sh(keys) == before
    assert [line for line in left(hosts, run.run) if ".copy" not in line] == []
    assert run.verify(final=True) == []
    b.sh("touch /srv/models/m/config.json")
    assert run.verify(final=True) != []
    run.undo()
    assert left(hosts, run.run) == []
    assert b.sh("ls -A /srv/models").split() == []


def test_what_differs_is_named_never_put_in_place_and_mended_by_the_next_start(hosts: Pair) -> None:
    a, b = hosts.a, hosts.b
    model(a)
    run = copy(hosts)
    assert copied(run) == []
    staging = run.parts[0].target.staging(run.run)
    b.sh(
        f"cd {staging}; touch -r two.safetensors /tmp/when; {flip('two.safetensors', 7)}; "
        "touch -r /tmp/when two.safetensors; rm sub/link.json; echo > more; chmod 600 nothing"
    )
    with pytest.raises(CopyFailed, match="is not what was found equal"):
        run.place()
    found = "\n".join(run.verify())
    for line in ("two.safetensors has another content", "sub/link.json is missing", "more is too many"):
        assert line in found
    assert "nothing has mode 600 instead of 644" in found
    assert found.count("\n") == 3
    assert copied(copy(hosts, run=run.run)) == []
    run.place()
    b.sh("cd /srv/models; mv m x; cp -a x m; rm -r x")
    run.undo()
    assert b.sh("ls /srv/models").split() == ["m"], (
        "what somebody else put there since is not this run's to remove"
    )


def test_a_file_that_changes_while_it_is_copied_is_named_and_sent_again(hosts: Pair) -> None:
    a = hosts.a
    model(a)
    run = copy(hosts, bwlimit_mib=40)
    run.prepare()
    run.start()
    assert run.verify() == ["a: the copy is not at its end"]
    a.sh(
        f"cd /srv/models/m; touch -r one.safetensors /tmp/when; {flip('one.safetensors', 9)}; "
        "touch -r /tmp/when one.safetensors; rm nothing; echo 1 > new; mv config.json c"
    )
    run.wait(quiet)
    found = "\n".join(run.verify())
    for line in (
        "one.safetensors was changed",
        "nothing was removed",
        "new was added",
        "config.json was removed",
    ):
        assert line in found, found
    with pytest.raises(CopyFailed):
        run.place()
    assert copied(copy(hosts, run=run.run)) == []
    run.undo()


def test_what_is_at_the_place_already_is_compared_never_overwritten_and_never_removed(hosts: Pair) -> None:
    a, b = hosts.a, hosts.b
    random(a, "/srv/models/m/one", 1)
    b.sh("mkdir -p /srv/models/m", stdin=None)
    b.sh("cat > /srv/models/m/one", stdin=a.sh("base64 -w0 /srv/models/m/one").encode())
    run = copy(hosts)
    found = copied(run)
    assert len(found) == 1
    assert "one has" in found[0]
    run.place()
    b.sh("cd /srv/models/m; base64 -d one > two; mv two one; chmod 600 one")
    assert copied(run) == []
    run.place()
    run.undo()
    assert b.sh("ls /srv/models/m").split() == ["one"]


def test_a_manifest_that_the_folder_carries_is_held_to(hosts: Pair) -> None:
    a = hosts.a
    random(a, "/srv/models/m/one", 1)
    digest = a.sh("sha256sum /srv/models/m/one").split()[0]
    for text, wrong in ((digest, 0), ("0" * 64, 1)):
        kept = json.dumps({"one": {"size": 2**20, "sha256": text}})
        a.sh("cat > /srv/models/m/kpro-manifest.json", stdin=kept.encode())
        run = copy(hosts)
        found = copied(run)
        assert len(found) == wrong
        assert all("than its MANIFEST says" in line for line in found)
        run.undo()


def test_folders_and_files_that_are_written_to_are_copied_once_more_after_the_drain(hosts: Pair) -> None:
    a, b = hosts.a, hosts.b
    random(a, "/srv/models/m/one", 1)
    a.sh("cd /srv/models; mkdir data; echo 1 > data/a; echo 2 > data/b; echo 3 > note.db")
    b.sh("mkdir -p /srv/models/data; echo old > /srv/models/data/old")
    run = copy(hosts, MODEL, DATA, NOTE)
    assert measure(end(a), (MODEL, DATA, NOTE)).files == 4
    assert copied(run) == []
    run.place()
    assert b.sh("cat /srv/models/data/*") == "old\n"
    a.sh("cd /srv/models; echo 4 > data/c; rm data/b; echo 5 >> note.db")
    assert any("was not copied after the drain" in line for line in run.verify(final=True))
    again = copy(hosts, MODEL, DATA, NOTE, run=run.run)
    again.delta(quiet)
    assert again.verify(final=True) == []
    again.place(final=True)
    again.clean()
    assert b.sh("cd /srv/models; grep . data/* note.db") == "data/a:1\ndata/c:4\nnote.db:3\nnote.db:5\n"
    assert again.verify(final=True) == []
    again.undo_delta()
    assert b.sh("cd /srv/models; ls; cat data/*").split() == ["data", "m", "old"]
    again.undo()
    assert b.sh("cd /srv/models; ls -A; cat data/*").split() == ["data", "old"]
    assert left(hosts, run.run) == []


@pytest.mark.parametrize("through", [False, True])
def test_links_into_the_hub_s_cache_are_followed_where_that_is_meant(hosts: Pair, through: bool) -> None:
    a, b = hosts.a, hosts.b
    random(a, "/srv/outside/blob", 20)
    a.sh(
        "mkdir -p /srv/models/m; ln -s ../../outside/blob /srv/models/m/x; ln -s ../../outside/blob /srv/models/m/y"
    )
    run = copy(hosts, Folder("/srv/models/m", "/srv/models/m", follow=True), through_controller=through)
    assert copied(run) == []
    run.place()
    assert run.verify() == []
    assert b.sh("cd /srv/models/m; find . -type f | sort").split() == ["./x", "./y"]
    run.undo()
