"""Folders from host to host: what arrives is what was sent, and what is left when it is over is nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.migrate.copies import MODEL, copy, left, random
from tests.migrate.rig import Pair


@pytest.fixture
def hosts(pair: Pair) -> Iterator[Pair]:
    yield pair
    for host in (pair.a, pair.b):
        host.mend()
        host.sh("rm -rf /srv/models/m /srv/models/.incoming /srv/data /var/lib/kpro/migrations")


def test_a_model_arrives_whole_and_nothing_else_is_left(hosts: Pair) -> None:
    a, b = hosts.a, hosts.b
    random(a, "/srv/models/m/one.safetensors", 40)
    random(a, "/srv/models/m/two.safetensors", 24)
    a.sh(
        "cd /srv/models/m; echo '{}' > config.json; mkdir -p sub/empty; ln config.json sub/same.json; "
        "ln -s ../config.json sub/link.json; chown 8100:8100 config.json; chmod 640 config.json; "
        "touch -d 2020-02-03T04:05:06.789 two.safetensors; printf x > 'sub/a name\twith\nall'"
    )
    before = b.sh("cat /root/.ssh/authorized_keys; stat -c '%a %u:%g' /root/.ssh/authorized_keys")
    run = copy(hosts)
    run.prepare()
    run.start()
    run.wait(print)
    assert run.verify() == []
    run.place()
    assert run.verify(final=True) == []
    run.clean()
    look = (
        "cd /srv/models/m; find . ! -type d -printf '%p %s %T@ %m %U:%G %n %l\\n' | sort; find . -type d | sort; "
        "find . -type f -print0 | sort -z | xargs -0 sha256sum"
    )
    assert a.sh(look) == b.sh(look)
    assert b.sh("cat /root/.ssh/authorized_keys; stat -c '%a %u:%g' /root/.ssh/authorized_keys") == before
    assert [line for line in left(hosts, run.run) if ".copy" not in line] == []
    assert run.verify(final=True) == []
    run.undo()
    assert left(hosts, run.run) == []
    assert b.sh("ls -A /srv/models").split() == []
    assert a.sh("ls /srv/models/m")
    assert MODEL.immutable
