"""A healthy dump to break, the judge on it, the command line as a function, servers that misbehave."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from checks.cli import main
from checks.gpus import dump, node
from checks.gpus.judge import judge
from checks.gpus.rule import Scene
from checks.model import Finding
from checks.record import Section

Dump = dict[str, Any]
NOT_SUPPORTED = {"err": 3, "cls": "NVMLError_NotSupported", "msg": "Not Supported"}


def _gpu(index: int) -> Dump:
    links = {str(link): {"state": 1, "remote_type": 2} for link in range(18)}
    return {
        "nvmlDeviceGetName": "NVIDIA H200",
        "nvmlDeviceGetUUID": f"GPU-00000000-0000-0000-0000-{index:012d}",
        "nvmlDeviceGetPciInfo": {"busId": f"00000000:{0x10 + index:02X}:00.0"},
        "nvmlDeviceGetArchitecture": 9,
        "nvmlDeviceGetMemoryInfo": {"total": 150754820096, "free": 150109880320, "used": 644939776},
        "nvmlDeviceGetEccMode": [1, 1],
        "nvmlDeviceGetRemappedRows": [0, 0, 0, 0],
        "nvmlDeviceGetCurrPcieLinkGeneration": 1,
        "nvmlDeviceGetCurrPcieLinkWidth": 16,
        "nvmlDeviceGetMaxPcieLinkWidth": 16,
        "nvmlDeviceGetCurrentClocksEventReasons": 1,
        "nvmlDeviceGetPowerUsage": 77000,
        "nvmlDeviceGetEnforcedPowerLimit": 700000,
        "nvmlDeviceGetPowerManagementLimit": 700000,
        "nvmlDeviceGetPowerManagementDefaultLimit": 700000,
        "nvmlDeviceGetUtilizationRates": {"gpu": 0, "memory": 0},
        "ecc_unc_vol": 0,
        "ecc_unc_agg": 0,
        "temp": 36,
        "tthr_slowdown": 89,
        "tthr_gpu_max": 87,
        "tthr_mem_max": 95,
        "fabricV": {"state": 3, "status": 0, "healthMask": 0x1AA, "healthSummary": 1},
        "sram_ecc": {"bThresholdExceeded": 0},
        "nvlink": links,
        "fields": {
            "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION": {"ret": 0, "type": 1, "ull": 0, "ui": 0},
            "NVML_FI_DEV_MEMORY_TEMP": {"ret": 0, "type": 1, "ull": 40, "ui": 40},
            "NVML_FI_DEV_NVLINK_LINK_COUNT": {"ret": 0, "type": 1, "ull": 18, "ui": 18},
        },
    }


@pytest.fixture
def healthy() -> Callable[..., Dump]:
    """``healthy(gpus)``: the dump of so many well H200."""

    def make(gpus: int = 2) -> Dump:
        return {
            "nvmlInit": None,
            "nvmlSystemGetDriverVersion": "580.159.04",
            "nvmlSystemGetNVMLVersion": "13.580.159.04",
            "nvmlDeviceGetCount": gpus,
            "devices": [_gpu(index) for index in range(gpus)],
        }

    return make


@pytest.fixture
def judged() -> Callable[..., dict[tuple[str, str], Finding]]:
    """``judged(dump, sections, expect)``: findings by id and subject."""

    def run(
        data: Dump, sections: tuple[Section, ...] = (), expect: int | None = None
    ) -> dict[tuple[str, str], Finding]:
        scene = Scene(dump.parse(data, "dump"), node.parse(sections, "record"), expect)
        findings = judge(scene)
        by = {(finding.id, finding.subject): finding for finding in findings}
        assert len(by) == len(findings), "one finding per check and subject"
        return by

    return run


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def report(self) -> Any:
        return json.loads(self.out)

    def status(self, identity: str, subject: str) -> str:
        findings = [f for f in self.report["findings"] if (f["id"], f["subject"]) == (identity, subject)]
        assert len(findings) == 1
        return str(findings[0]["status"])


@pytest.fixture
def provcheck(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """``provcheck("gpus", "--json")`` in this process."""

    def run(*args: object) -> Said:
        code = main([str(arg) for arg in args])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return Said(code, captured.out, captured.err)

    return run


Answer = Callable[[BaseHTTPRequestHandler], None]


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """``serve({("POST", path): answer})``: a server on loopback; ``answer`` writes to the handler."""
    servers = []

    def start(answers: dict[tuple[str, str], Answer]) -> str:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                answer = answers.get((self.command, self.path))
                if answer is None:
                    self.send_response(404)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                else:
                    answer(self)

            do_GET = do_POST = _answer

            def log_message(self, *_: object) -> None:
                return

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        servers.append((server, thread))
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield start
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()
