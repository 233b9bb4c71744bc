"""The folders that a guest is given: what no container could be given is told, all of it at once."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from provision.spec import Guest


def wrong(backend: str, *mounts: tuple[str, str]) -> list[str]:
    given = [{"source": source, "target": target} for source, target in mounts]
    try:
        Guest.model_validate({"name": "llm", "backend": backend, "id": "105", "mounts": given})
    except ValidationError as error:
        return [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
    return []


@pytest.mark.parametrize("target", ["/srv/models/", "//srv/models", "/srv//models"])
def test_one_place_in_another_spelling_is_the_same_place(target: str) -> None:
    (text,) = wrong("pct", ("/a", "/srv/models"), ("/b", target))
    assert text == f"mounts.1.target: {target} is already the target of mounts[0]"


@pytest.mark.parametrize(
    "path", ["/srv/./a", "/srv/.", "/./srv", "/srv/../a", "/srv/a,b", "/srv/a b", "/srv/\x01", "/\0"]
)
def test_a_path_that_proxmox_or_a_program_could_not_be_given_is_no_path(path: str) -> None:
    assert len(wrong("pct", (path, path))) == 2


def test_a_folder_with_an_equals_sign_reaches_plain_containers_alone() -> None:
    (text,) = wrong("pct", ("/srv/a=b", "/srv/c=d"))
    assert text.startswith("mounts.0.source: '/srv/a=b' holds '='")
    assert wrong("lxc", ("/srv/a=b", "/srv/c=d")) == []


@pytest.mark.parametrize("source", ["/dev/sdb1", "//dev/shm", "/dev", "/dev/"])
def test_what_is_below_dev_is_a_disk_to_proxmox(source: str) -> None:
    (text,) = wrong("pct", (source, "/data"))
    assert "takes what is below /dev for a disk" in text
    assert wrong("lxc", (source, "/data")) == []
    assert wrong("pct", (f"/srv{source}", "/data"), ("/developers", "/x")) == []


def test_nothing_is_mounted_over_a_guest_s_root_and_all_is_told_at_once() -> None:
    texts = wrong("pct", ("/dev/a=b", "/"), ("/x", "//"))
    assert [text.split(": ")[0] for text in texts] == [
        "mounts.1.target",
        "mounts.0.target",
        "mounts.0.source",
        "mounts.0.source",
        "mounts.1.target",
    ]
