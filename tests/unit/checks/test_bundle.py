"""``provcheck bundle``: secrets are planted in all that it reads, and none comes out; what is missing is said."""

from __future__ import annotations

import base64
import io
import json
import stat
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from checks import child, record
from checks.bundle import archive, command, gather
from checks.bundle.redact import GONE, Redactor
from checks.child import Ended
from checks.gpus import node
from checks.record import Record, Section

UUID = "GPU-6f1d0e2a-1b2c-4d5e-8f90-a1b2c3d4e5f6"
SECRETS = (
    "hf_AbCdEfGhIjKlMnOp",
    "sk-proj-1234567890abcdef",
    "ghp_0123456789abcdefABCDEF",
    "AKIAIOSFODNN7EXAMPLE",
    "eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSM",
    "hunter2hunter2",
    "MIIEvQIBADANBg",
    "0324618012345",
    "48-b0-2d-03-00-12-34-56",
    "kpro5-secret-host",
    "/home/alice",
    "dbpassword77",
    "plainvalue99",
    UUID,
)
PLANTED = f"""Authorization: Bearer hunter2hunter2
HF_TOKEN=hf_AbCdEfGhIjKlMnOp and alone hf_AbCdEfGhIjKlMnOp
args: ['--api-key', 'hunter2hunter2'] --api-key hunter2hunter2 --api-key=hunter2hunter2 api_key=['hunter2hunter2']
{{"api_key": "hunter2hunter2", "password": 'dbpassword77'}} sk-proj-1234567890abcdef ghp_0123456789abcdefABCDEF
postgres://bob:dbpassword77@db.example/x AKIAIOSFODNN7EXAMPLE eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSM
Serial Number                         : 0324618012345
serial: 0324618012345
Capabilities: [100 v1] Device Serial Number 48-b0-2d-03-00-12-34-56
{UUID} on kpro5-secret-host.example, weights in /home/alice/models
-----BEGIN OPENSSH PRIVATE KEY-----
MIIEvQIBADANBg
-----END OPENSSH PRIVATE KEY-----
harmless last line 42
"""
UNIT = """[Service]
Environment=NCCL_DEBUG=INFO DB_URL=plainvalue99 "OTHER=plainvalue99 with blank" \\
    LAST=plainvalue99
Environment=VLLM_API_KEY=hunter2hunter2
SetCredential=key:plainvalue99
EnvironmentFile=/etc/kpro/chat.env
ExecStart=/opt/vllm serve --max-num-batched-tokens 8192 --api-key hunter2hunter2
"""


def gpu_record() -> bytes:
    nvml = {
        "nvmlInit": None,
        "nvmlDeviceGetCount": 1,
        "devices": [
            {"nvmlDeviceGetSerial": "0324618012345", "nvmlDeviceGetUUID": UUID, "nvmlDeviceGetName": PLANTED}
        ],
    }
    sections = (
        Section("log", "kernel", PLANTED.encode()),
        Section("file", "/proc/driver/nvidia/version", PLANTED.encode()),
        Section("file", "/etc/x", None, PLANTED),
    )
    return Record("kpro5-secret-host", "2026-11-29T00:00:00+00:00", sections, nvml).dump()


def machine(argv: Sequence[str], deadline: float) -> Ended:
    """Every program there is, and each says everything that it must not."""
    assert deadline <= gather.TIME_LIMIT
    if "judged" in argv:
        return Ended(PLANTED.encode(), "", 0)
    if "_probe" in argv:
        return Ended(gpu_record(), "", 0)
    if "--record" in argv:
        serve = {
            "log": PLANTED,
            "config": {"api_key": "hunter2hunter2", "nested": [{"auth_token": "plainvalue99"}]},
        }
        Path(argv[argv.index("--record") + 1]).write_bytes(Record("kpro5-secret-host", serve=serve).dump())
        return Ended(b"{}", "", 0)
    if argv[0] == "lspci":
        raise FileNotFoundError
    if argv[0] == "dpkg-query":
        return Ended(b"", f"failed with {PLANTED.splitlines()[1]}", 1)
    text = UNIT if argv[:2] == ("systemctl", "cat") else PLANTED
    return Ended(text.encode(), "", 0)


def redactor() -> Redactor:
    return Redactor(("kpro5-secret-host", "kpro5-secret-host.example"))


def everything(files: dict[str, bytes]) -> str:
    """All text in the bundle, what is coded in records decoded."""
    parts = []
    for name, data in files.items():
        parts.append(data.decode())
        if name.endswith(".record.json"):
            for section in json.loads(data)["sections"]:
                parts.append(base64.b64decode(section["b64"] or "").decode())
    return "\n".join(parts)


def gathered(tmp_path: Path) -> archive.Content:
    for path in gather.FILES:
        (tmp_path / path.strip("/")).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path.strip("/")).write_text(PLANTED)
    return gather.gather(redactor(), machine, "http://127.0.0.1:8000", str(tmp_path))


def test_nothing_that_is_planted_anywhere_comes_out(tmp_path: Path) -> None:
    content = gathered(tmp_path)
    said = everything(content.files) + json.dumps(content.left_out)
    assert len(content.files) >= 12
    assert "harmless last line 42" in content.files["gpus.txt"].decode()
    assert [secret for secret in SECRETS if secret in said] == []
    assert said.count("harmless last line 42") > 8, "and what tells something is still there"


@pytest.mark.parametrize("line", [line for line in PLANTED.splitlines() if any(s in line for s in SECRETS)])
def test_each_kind_of_secret_is_found_by_itself(line: str) -> None:
    cut = redactor().text(line)
    if "MIIE" not in line:
        assert not [secret for secret in SECRETS if secret in cut], cut


def test_a_units_environment_keeps_names_and_what_is_about_gpus() -> None:
    cut = redactor().text(UNIT)
    assert f"Environment=NCCL_DEBUG=INFO DB_URL={GONE} OTHER={GONE} LAST={GONE}" in cut
    assert f"Environment=VLLM_API_KEY={GONE}" in cut
    assert f"SetCredential={GONE}" in cut
    assert "EnvironmentFile=/etc/kpro/chat.env" in cut
    assert f"--max-num-batched-tokens 8192 --api-key {GONE}" in cut


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=100 tokenizer=x tokens_per_second: 73.5 pad_token_id=3",
        "author: someone; authors=2",
        "NVRM: Xid (PCI:0000:17:00): 79, pid=1, GPU has fallen off the bus.",
        'vllm:generation_tokens_total{model_name="m"} 5.0',
        "PCI BDF 0000:17:00.0 and https://127.0.0.1:8000/v1",
        "the serial console is on",
    ],
)
def test_what_tells_something_stays(text: str) -> None:
    assert redactor().text(text) == text


def test_gpus_stay_apart_when_their_uuids_go() -> None:
    one, other = UUID, UUID.replace("6f1d", "7a7a")
    cut = Redactor(()).text(f"{one} {other} {one}").split()
    assert cut[0] == cut[2] != cut[1]
    assert UUID not in cut


def test_names_stay_when_they_are_asked_for_and_secrets_do_not() -> None:
    cut = Redactor(None).text(PLANTED)
    assert "/home/alice" in cut
    assert "kpro5-secret-host" in cut
    assert "hunter2hunter2" not in cut


@pytest.mark.parametrize("name", ["vm", "a1", "x", "gpu-node-17"])
def test_a_host_name_is_removed_however_short(name: str) -> None:
    cut = Redactor((name,)).text(
        f"Nov 29 10:00:00 {name} kernel: on {name}: {name}.example.org my-{name} {name}s"
    )
    assert cut == f"Nov 29 10:00:00 {GONE} kernel: on {GONE}: {GONE}.example.org my-{name} {name}s"


def test_the_report_in_a_bundle_is_no_replay(tmp_path: Path, healthy: Callable[..., Any]) -> None:
    """The machine was looked at just now; what is missing could not be read."""
    kept = Record("kpro5-secret-host", "2026-11-29T00:00:00+00:00", (), healthy(2)).dump()

    def run(argv: Sequence[str], deadline: float) -> Ended:
        return Ended(kept, "", 0) if "record" in argv else child.run(argv, deadline)

    content = gather.Content()
    gather._gpus(content, redactor(), run, 30.0)
    said = content.files["gpus.txt"].decode()
    assert "REPLAYED" not in said
    assert "(provcheck gpus on (removed))" in said
    assert "gpu1  0000:11:00.0" in said
    assert "gpu.ecc" in said, "green lines too"


def test_a_record_in_a_bundle_can_still_be_replayed(tmp_path: Path) -> None:
    content = gathered(tmp_path)
    kept = record.parse(content.files["gpus.record.json"], "bundle")
    assert kept.nvml is not None
    assert kept.nvml["nvmlDeviceGetCount"] == 1
    assert node.parse(kept.sections, "bundle") is not None


def test_what_is_left_out_is_in_the_manifest_with_the_reason(tmp_path: Path) -> None:
    content = gathered(tmp_path)
    whole = json.loads(content.manifest("now", {"token": 3}))
    assert whole["left_out"]["lspci-nvidia.txt"] == "there is no lspci here"
    assert "ended with 1" in whole["left_out"]["packages.txt"]
    assert "environment files" in whole["left_out"]
    assert set(whole["files"]) == set(content.files)
    assert whole["removed"] == {"token": 3}


def test_a_machine_on_which_nothing_answers_still_gives_a_bundle(tmp_path: Path) -> None:
    content = gather.gather(
        redactor(), lambda *_: Ended(b"", "", None, timed_out=True), "http://x", str(tmp_path)
    )
    assert set(content.files) == {"versions.txt"}
    assert "gave no answer in time" in content.left_out["gpus.record.json"]
    assert (
        "did not end within" in content.left_out["journal.txt"]
        or "no answer" in content.left_out["journal.txt"]
    )


def test_the_time_is_bounded_and_what_was_not_reached_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "TIME_LIMIT", 0.0)
    content = gather.gather(redactor(), machine)
    assert content.files == {}
    assert "were over" in content.left_out["gpus.record.json"]


def test_size_is_bounded_and_logs_keep_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "ITEM_LIMIT", 100)
    monkeypatch.setattr(archive, "TOTAL_LIMIT", 400)
    content = archive.Content()
    content.add("log", b"a" * 200 + b"END", tail=True)
    content.add("text", b"START" + b"a" * 200)
    content.add("more", b"x" * 99)
    content.add("last", b"x" * 99)
    assert content.files["log"].endswith(b"END")
    assert content.files["text"].startswith(b"START")
    assert "last" not in content.files
    assert {"log", "text", "last"} == set(content.left_out)


def test_the_file_is_private_whole_and_below_one_folder(
    tmp_path: Path, provcheck: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_run", machine)
    path = tmp_path / "incident.tar.gz"
    said = provcheck("bundle", "--output", path)
    assert said.code == 0
    assert "there is no lspci here" in said.out
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["incident.tar.gz"]
    with tarfile.open(fileobj=io.BytesIO(path.read_bytes())) as tar:
        names = tar.getnames()
        assert all(entry.isfile() and entry.mode == 0o600 for entry in tar.getmembers())
    assert len({name.split("/")[0] for name in names}) == 1
    assert any(name.endswith("/MANIFEST.json") for name in names)


def test_a_bundle_goes_nowhere_else(provcheck: Callable[..., Any], tmp_path: Path) -> None:
    assert provcheck("bundle", "--output", tmp_path / "no/x.tar.gz").code == 2
    assert provcheck("bundle", "kpro5").code == 2
