"""The looks of the preflight: the real script on this machine, read back; and answers that make no sense."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks import snapshot
from checks.snapshot import CouldNotLook, Snapshot
from provision.host.transport import Completed
from provision.migrate import looks, reading, standing
from provision.migrate.folders import extra, folder, identified
from provision.migrate.preflight import look
from provision.migrate.seen import (
    Clock,
    GuestLook,
    Listener,
    MachineLook,
    Place,
    Rrsync,
    Rsync,
    Sshd,
    UnitLook,
    Unseen,
)
from provision.run.errors import RunError
from tests.unit.migrate import preflight_pair as pairs
from tests.unit.plan.seen import Seen

KEY = "sk-very-secret"
BOOT = "/proc/sys/kernel/random/boot_id"


def taken(*requests: str, path: Path | None = None) -> Snapshot:
    """A look at this machine; ``path``: programs that come first."""
    words = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}" if path else os.environ["PATH"]}
    done = subprocess.run(["sh", "-c", looks.script(requests)], capture_output=True, env=words, check=True)
    return snapshot.parse(done.stdout)


def requested(path: Path, role: str = "model") -> str:
    return f"cmd:folder-{role}:{looks._FOLDER % (looks.quoted(str(path)), looks.MOST_FILES)}"


def asked_extra(path: Path) -> str:
    return f"cmd:extra-0:{looks._EXTRA % looks.quoted(str(path))}"


def test_a_folder_is_told_with_every_file_and_its_size(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b/it's.bin").write_bytes(b"x" * 700)
    (tmp_path / "config.json").write_bytes(b"{}")
    found = folder(taken(requested(tmp_path)), "model", str(tmp_path))
    assert found is not None
    assert found.files == {"a b/it's.bin": 700, "config.json": 2}
    assert (found.count, found.size, found.outside, found.odd) == (2, 702, 0, 0)


def test_a_folder_that_is_not_there_is_none_and_an_empty_one_has_no_files(tmp_path: Path) -> None:
    assert folder(taken(requested(tmp_path / "no")), "model", "/no") is None
    empty = folder(taken(requested(tmp_path)), "model", str(tmp_path))
    assert empty is not None
    assert (empty.count, empty.size) == (0, 0)


def test_links_of_the_hub_s_cache_count_as_files_that_lie_outside(tmp_path: Path) -> None:
    blobs, snap = tmp_path / "blobs", tmp_path / "snapshots/c"
    blobs.mkdir()
    snap.mkdir(parents=True)
    (blobs / "x").write_bytes(b"x" * 10)
    (snap / "model.safetensors").symlink_to("../../blobs/x")
    found = folder(taken(requested(snap)), "model", str(snap))
    assert found is not None
    assert (found.count, found.size, found.outside, found.odd) == (1, 10, 1, 0)
    (snap / "gone").symlink_to("../../blobs/none")
    broken = folder(taken(requested(snap)), "model", str(snap))
    assert broken is not None
    assert broken.odd == 1


def test_a_file_that_is_not_as_its_manifest_says_is_damaged(tmp_path: Path) -> None:
    model = tmp_path / f"kpro--tiny@{pairs.REVISION}"
    model.mkdir()
    (model / "a").write_bytes(b"12345")
    (model / "kpro-manifest.json").write_text(json.dumps({"a": {"size": 5, "sha256": "0"}}))
    asked = (requested(model), f"file:{model}/kpro-manifest.json")
    whole = identified(taken(*asked), "model", str(model), pairs.service())
    assert whole is not None
    assert (whole.revision, whole.damaged) == (pairs.REVISION, ())
    (model / "a").write_bytes(b"123")
    cut = identified(taken(*asked), "model", str(model), pairs.service())
    assert cut is not None
    assert cut.damaged == ("a",)
    (model / "kpro-manifest.json").unlink()
    with pytest.raises(CouldNotLook, match="not known to be whole"):
        identified(taken(*asked), "model", str(model), pairs.service())


def test_extra_paths_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"123")
    (tmp_path / "l").symlink_to("f")
    (tmp_path / "d").mkdir()
    (tmp_path / "d/in").symlink_to("own")
    (tmp_path / "d/own").write_bytes(b"1")

    def told(name: str) -> object:
        found = extra(taken(asked_extra(tmp_path / name)), 0, str(tmp_path / name))
        return found and (found.kind, found.count, found.size, found.outside)

    assert told("f") == ("file", 1, 3, 0)
    assert told("l") == ("link", 0, 0, 0)
    assert told("d") == ("folder", 1, 1, 0)
    assert told("none") is None
    (tmp_path / "d/out").symlink_to("/etc/hostname")
    assert told("d") == ("folder", 1, 1, 1)
    os.mkfifo(tmp_path / "p")
    assert told("p") == ("other", 0, 0, 0)


def test_a_place_is_the_nearest_folder_that_is_there(tmp_path: Path) -> None:
    machine = pairs.machine("kpro5", 5, pairs.service()).model_copy(update={"models": str(tmp_path)})
    end = pairs.end("target", machine)
    deep = f"{tmp_path}/a/b"
    seen = taken(f"cmd:place-models:{looks._PLACE % looks.quoted(deep)}")
    found = reading._place(seen, end, "models")
    assert (found.nearest, found.folder, found.writable) == (str(tmp_path), True, True)
    assert found.free > 0
    (tmp_path / "a").write_text("a file in the way")
    assert not reading._place(
        taken(f"cmd:place-models:{looks._PLACE % looks.quoted(deep)}"), end, "models"
    ).folder


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[tuple[Path, int, list[str]]]:
    """A server that wants the key of a process, and a systemctl that names it: folder, port, what was asked."""
    heard: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def _answer(self, body: dict[str, object]) -> None:
            heard.append(self.path)
            good = self.headers.get("Authorization") == f"Bearer {KEY}"
            self.send_response(200 if good else 401)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def do_GET(self) -> None:
            self._answer({"data": [{"id": "chat"}]})

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._answer({"choices": [{"text": " 5" if asked["model"] == "chat" else ""}]})

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    process = subprocess.Popen(
        ["sleep", "600"],
        env={"VLLM_API_KEY": KEY, "KPRO_DIGEST": pairs.DIGEST, "HF_HOME": "/x", "PATH": os.environ["PATH"]},
    )
    (tmp_path / "unit").write_text(f"[Service]\nEnvironment=KPRO_DIGEST={pairs.TRIED}\n")
    rows = f"Id=kpro-chat.service\nLoadState=loaded\nActiveState=active\nSubState=running\nUnitFileState=enabled\n\
MainPID={process.pid}\nNRestarts=2\nActiveEnterTimestamp=Mon\nFragmentPath={tmp_path}/unit\nDropInPaths=/a /b\n"
    double = tmp_path / "systemctl"
    double.write_text(
        f"#!/bin/sh\ncase $* in *'MainPID --value'*) echo {process.pid} ;;\n"
        f"*'FragmentPath --value'*) echo {tmp_path}/unit ;;\n"
        f"*) cat <<'X'\n{rows}X\n;; esac\n"
    )
    double.chmod(0o755)
    yield tmp_path, server.server_address[1], heard
    process.kill()
    process.wait()
    server.shutdown()
    server.server_close()


def _pair(port: int) -> tuple[pairs.Pair, pairs.End]:
    given = pairs.green().pair
    spoilt = pairs.written(pairs.green(), "source", pairs.with_service(port=port))
    return given, spoilt.pair.source


def test_the_service_is_asked_with_its_own_key_which_is_never_told(
    serving: tuple[Path, int, list[str]],
) -> None:
    path, port, heard = serving
    given, source = _pair(port)
    asked = [
        one for one in looks.guest_requests(given, source) if one.startswith(("cmd:generates", "cmd:unit:"))
    ]
    seen = taken(*asked, path=path)
    assert reading._generates(seen) is None
    assert heard == ["/v1/models", "/v1/completions"]
    found = reading._unit(seen)
    assert found is not None
    assert (found.digest, found.running) == (pairs.TRIED, pairs.DIGEST)
    assert (found.restarts, found.drop_ins) == (2, ("/a", "/b"))
    assert "VLLM_API_KEY" in found.names
    assert all(KEY.encode() not in (one.data or b"") for one in seen.sections.values())
    assert KEY not in looks.script(asked)


def test_a_service_that_turns_the_request_away_does_not_generate(
    serving: tuple[Path, int, list[str]],
) -> None:
    path, port, _ = serving
    given, source = _pair(port)
    (path / "systemctl").write_text("#!/bin/sh\necho 0\n")
    (request,) = [one for one in looks.guest_requests(given, source) if one.startswith("cmd:generates")]
    assert "401" in str(reading._generates(taken(request, path=path)))


def test_a_guest_without_python_leaves_it_unknown_whether_it_generates(tmp_path: Path) -> None:
    seen = Seen().cmd("generates", "", 3).snapshot
    with pytest.raises(CouldNotLook, match="no python3"):
        reading._generates(seen)


class Here:
    """This machine, as an end without a running guest."""

    def __init__(self, code: int = 0, out: bytes | None = None) -> None:
        self.code, self.out = code, out

    def host(self, script: str, *, stdin: bytes = b"", timeout: float | None = 60) -> Completed:
        if self.out is not None:
            return Completed(self.code, self.out, b"sh: it is gone")
        done = subprocess.run(["sh", "-c", script], input=stdin, capture_output=True, check=False)
        return Completed(done.returncode, done.stdout, done.stderr)

    inside = host


def test_the_whole_script_runs_on_a_machine_and_is_read() -> None:
    given = pairs.green().pair
    found = look(given, given.target, Here())
    assert found.state == "absent"
    seen = found.machine
    assert seen.boot == Path(BOOT).read_text().strip()
    assert isinstance(seen.clock, Clock)
    assert seen.clock.least <= 0.5
    assert seen.clock.most >= -0.5
    assert seen.clock.most - seen.clock.least < 5
    assert isinstance(seen.models, Place)
    assert seen.incoming == {"model": None}
    assert json.loads(json.dumps(found.as_dict()))["machine"]["boot"] == seen.boot


@pytest.mark.parametrize(("code", "out"), [(1, b""), (0, b"half of it"), (0, b"")])
def test_a_machine_that_gives_no_look_ends_the_preflight(code: int, out: bytes) -> None:
    given = pairs.green().pair
    with pytest.raises(RunError, match="kpro5 could not be looked at"):
        look(given, given.target, Here(code, out))


def test_the_time_of_the_way_is_no_difference_of_clocks() -> None:
    seen = Seen().cmd("clock-first", "1000.5\n").cmd("clock-last", "1010.5\n").snapshot
    # Ten seconds of looking, half a second of way on either side.
    assert reading.clock(seen, 1000.0, 1011.0) == Clock(-0.5, 0.5)


SSHD = """\
port 22
port 2222
permitrootlogin prohibit-password
pubkeyauthentication yes
ciphers aes128-ctr,aes128-gcm@openssh.com
key 256 SHA256:abc root@kpro5 (ED25519)
"""


def test_the_forms_of_answers_are_read() -> None:
    seen = Seen().cmd("sshd", SSHD).cmd("rrsync", "/usr/bin/rrsync #!/usr/bin/env python3\n")
    seen.cmd("rsync", "rsync  version 3.2.7  protocol version 31\n3.2.7-1+deb12u6\n")
    seen.cmd(
        "listening", 'owners\nLISTEN 0 9 [::]:22 [::]:* users:(("sshd",pid=7,fd=3))\nLISTEN 0 9 *:80 *:*\n'
    )
    found = seen.snapshot
    assert reading._sshd(found) == Sshd(
        (22, 2222), "prohibit-password", True, ("aes128-ctr", "aes128-gcm@openssh.com"), ("SHA256:abc",)
    )
    assert reading._rrsync(found) == Rrsync("/usr/bin/rrsync", True)
    assert reading._rsync(found) == Rsync("3.2.7", "3.2.7-1+deb12u6")
    assert reading.listening(found) == (Listener(22, "[::]", "sshd (pid 7)"), Listener(80, "*"))
    assert reading._rrsync(Seen().cmd("rrsync", "packed\n").snapshot) is None
    assert reading._sshd(Seen().cmd("sshd", "none\n").snapshot) is None
    assert reading._rsync(Seen().cmd("rsync", "").snapshot) is None


def test_ports_are_known_without_ss_too() -> None:
    rows = (
        "  sl  local_address rem_address   st\n   0: 0100007F:1F40 0:0 0A 0\n   1: 0100007F:1F41 0:0 01 0\n"
    )
    assert reading.listening(Seen().cmd("listening", f"none\n{rows}").snapshot) == (Listener(8000),)


def test_numbers_of_a_proxmox_cluster_are_those_of_all_nodes() -> None:
    text = '{"ids": {"105": {"node": "kpro5", "type": "lxc", "version": 7}, "130": {"node": "b", "type": "qemu"}}}'
    seen = Seen().put("file", "/etc/pve/.vmlist", text).snapshot
    assert reading._ids(seen) == {"105": "lxc on node kpro5", "130": "qemu on node b"}


def test_a_state_file_that_is_none_of_ours_may_be_an_open_migration() -> None:
    for text in ("{", "[]", '{"schema": "other/1"}'):
        seen = Seen().put("file", f"{standing.FOLDER}/chat.json", text).snapshot
        with pytest.raises(CouldNotLook, match=r"chat\.json"):
            reading._migrations(seen, ".json")
    (record,) = pairs.opened().values()
    good = Seen().put("file", standing.path("chat"), record.dump())
    good = good.put("file", standing.former("talk"), record.dump())
    assert reading._migrations(good.snapshot, ".json") == {"chat": record}
    assert reading._migrations(good.snapshot, standing.FORMER) == {"talk": record}


COMMANDS = (
    *("clock-first", "clock-last", "namespace", "hostname", "ntp", "systemd", "rsync", "rrsync", "sshd"),
    *("place-models", "place-staging", "place-state", "listening", "lock-held", "lxc-ls", "lxc-info-llm"),
    *("unit", "generates", "folder-model", "extra-0"),
)


@given(st.lists(st.text(max_size=60), min_size=len(COMMANDS), max_size=len(COMMANDS)), st.integers(0, 3))
def test_whatever_a_machine_answers_is_read_or_unseen_and_never_raises(texts: list[str], code: int) -> None:
    seen = (
        Seen()
        .tools("lxc-ls", "python3")
        .put("file", BOOT, texts[0])
        .put("file", "/etc/pve/.vmlist", texts[1])
    )
    for name, text in zip(COMMANDS, texts, strict=True):
        seen.cmd(name, text, code)
    seen.put("file", f"{standing.FOLDER}/chat.json", texts[2])
    pair = pairs.green().pair
    for end in pair.ends:
        assert isinstance(reading.machine_look(end, seen.snapshot, 0, 1), MachineLook)
        reading.guest_state(end, seen.snapshot)
        assert isinstance(reading.guest_look(pair, end, seen.snapshot), GuestLook)


def test_of_what_was_never_looked_at_nothing_is_known() -> None:
    pair = pairs.green().pair
    found = reading.machine_look(pair.target, Seen().snapshot, 0, 1)
    known = {one.name for one in fields(found) if not isinstance(getattr(found, one.name), Unseen)}
    assert known == {"ntp", "gpus", "incoming", "migrations", "former"}
    assert isinstance(reading.guest_look(pair, pair.source, Seen().snapshot).unit, Unseen)
    assert not isinstance(found.incoming["model"], UnitLook | None)
