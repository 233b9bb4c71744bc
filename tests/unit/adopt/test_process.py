"""The engine processes of a guest, and which files they were started with."""

from __future__ import annotations

import base64

import pytest

from checks.snapshot import CouldNotLook
from provision.adopt import models, process
from provision.adopt.process import Process
from tests.unit.plan.seen import Seen

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def block(pid: int, words: list[str], *rows: str) -> str:
    raw = base64.b64encode(("\0".join(words) + "\0").encode()).decode()
    return "\n".join([f"pid={pid}", f"words={raw}", *rows]) + "\n\n"


def seen(*blocks: str) -> Seen:
    return Seen().cmd(process.NAME, "".join(blocks))


def running(**more: object) -> Process:
    values: dict[str, object] = {
        "pid": 1,
        "words": ("vllm", "serve", "m"),
        "cgroup": "",
        "user": "llm",
        "home": "/home/llm",
        "cwd": "/data",
        "names": (),
        "values": {},
        "dists": (),
    }
    return Process(**{**values, **more})  # type: ignore[arg-type]


def test_a_process_is_read_with_its_unit_and_install() -> None:
    text = block(
        42,
        [
            "/opt/v/bin/python",
            "-m",
            "vllm.entrypoints.openai.api_server",
            "--model",
            "m",
            "--api-key",
            "secret",
        ],
        "cgroup=0::/system.slice/llm.service/payload",
        "name=HOME",
        "name=HF_TOKEN",
        "value=VLLM_USE_V1=1",
        "dist=/opt/v/bin/../lib/python3.12/site-packages/vllm-0.20.1.dist-info",
    )
    (found,) = process.processes(seen(text).snapshot)
    assert (found.pid, found.unit, found.words[-1]) == (42, "llm.service", "***")
    assert (found.names, found.values) == (("HF_TOKEN", "HOME"), {"VLLM_USE_V1": "1"})
    assert found.install(("vllm",)) == ("0.20.1", "3.12", "/opt/v")
    assert found.install(("sglang",)) is None


@pytest.mark.parametrize(
    ("cgroup", "unit"),
    [
        ("0::/system.slice/a.service", "a.service"),
        ("0::/lxc.payload.x/system.slice/a.service ", "a.service"),
        ("1:name=systemd:/system.slice/a.service 0::/", "a.service"),
        ("0::/user.slice/user-0.slice/session-1.scope", None),
        ("0::/user.slice/user@0.service/app.slice/b.service", "b.service"),
        ("", None),
    ],
)
def test_the_unit_is_that_of_the_control_group(cgroup: str, unit: str | None) -> None:
    assert running(cgroup=cgroup).unit == unit


@pytest.mark.parametrize("text", ["pid=1\nwords=@@\n\n", "pid=x\nwords=\n\n", "pid=1\n\n"])
def test_what_is_unreadable_is_never_taken_for_no_process(text: str) -> None:
    with pytest.raises(CouldNotLook):
        process.processes(seen(text).snapshot)


def test_a_look_that_failed_is_never_taken_for_no_process() -> None:
    with pytest.raises(CouldNotLook):
        process.processes(Seen().cmd(process.NAME, "", 1).snapshot)


def test_units_are_read() -> None:
    text = "Id=a.service\nUnitFileState=enabled\nActiveState=active\nFragmentPath=/etc/x\n\nId=b.service\n"
    found = process.units(Seen().cmd("units", text).snapshot)
    assert (found["a.service"].state, found["a.service"].at_boot, found["b.service"].state) == (
        "active",
        "enabled",
        "unknown",
    )


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({}, "/home/llm/.cache/huggingface/hub"),
        ({"HF_HOME": "/tank/hf"}, "/tank/hf/hub"),
        ({"HF_HUB_CACHE": "/tank/hub", "HF_HOME": "/x"}, "/tank/hub"),
    ],
)
def test_the_hub_s_cache_is_where_the_process_reads_it(values: dict[str, str], place: str) -> None:
    assert models.cache_of(running(values=values)) == place


def test_a_repository_is_identified_by_its_ref() -> None:
    one = running()
    absent, request = models.requests(one, "Qwen/Qwen3")
    path = request.removeprefix("file:")
    look = Seen().cmd(absent.split(":")[1], "sh: 1: cd: can't cd to /data/Qwen/Qwen3\n")
    found = models.identity(one, "Qwen/Qwen3", look.put("file", path, f"{COMMIT}\n").snapshot)
    assert (found.repo, found.revision, found.recorded) == ("Qwen/Qwen3", COMMIT, True)
    with pytest.raises(CouldNotLook):
        models.identity(one, "Qwen/Qwen3", look.put("file", path, None).snapshot)


def test_a_folder_that_is_called_like_a_repository_is_the_folder() -> None:
    look = Seen().cmd("model-/data/Qwen/Qwen3", "/data/Qwen/Qwen3\n3 config.json\n")
    found = models.identity(running(), "Qwen/Qwen3", look.snapshot)
    assert (found.folder, found.recorded) == ("/data/Qwen/Qwen3", False)


@pytest.mark.parametrize(
    ("folder", "real", "repo", "revision"),
    [
        ("/srv/models/kpro--tiny@" + COMMIT, None, "kpro/tiny", COMMIT),
        ("/m/q", "/x/models--Qwen--Q/snapshots/" + COMMIT, "Qwen/Q", COMMIT),
        ("/m/my weights", None, "local/my-weights", None),
    ],
)
def test_a_folder_is_identified_by_what_it_records(
    folder: str, real: str | None, repo: str, revision: str | None
) -> None:
    def look(files: str) -> models.Identity:
        return models.identity(
            running(), folder, Seen().cmd(f"model-{folder}", f"{real or folder}\n{files}").snapshot
        )

    found = look("3 config.json\n")
    assert found.repo == repo
    assert found.recorded == (revision is not None)
    assert revision in (None, found.revision)
    if revision is None:
        assert look("3 config.json\n").revision == found.revision
        assert look("4 config.json\n").revision != found.revision


def test_a_download_to_a_folder_is_identified_by_its_recorded_commit() -> None:
    text = f"/m/q\n3 config.json\ncommit={COMMIT}\n"
    found = models.identity(running(), "/m/q", Seen().cmd("model-/m/q", text).snapshot)
    assert (found.revision, found.recorded) == (COMMIT, True)


@pytest.mark.parametrize("text", ["", "/m/q\n", "sh: cd: can't cd to /m/q\n"])
def test_a_folder_that_is_not_there_is_no_model(text: str) -> None:
    with pytest.raises(CouldNotLook):
        models.identity(running(), "/m/q", Seen().cmd("model-/m/q", text).snapshot)


def test_a_relative_folder_is_seen_from_the_process_s_own() -> None:
    (request,) = models.requests(running(cwd="/data"), "./q")
    assert request.startswith("cmd:model-/data/q:")
