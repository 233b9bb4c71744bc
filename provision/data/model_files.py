"""Which files of a repository an engine reads, and which are the same weights once more in another form.

Each row says what is left out, and what has to be there for it to be left out: nothing is left out that has no
replacement.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.pth", "*.gguf")
"""Forms of weights that one of the engines can read."""

SAFETENSORS = "*.safetensors"


@dataclass(frozen=True)
class Redundant:
    """``patterns`` (fnmatch; ``*`` crosses ``/``) are not fetched where a file matches ``instead``."""

    patterns: tuple[str, ...]
    instead: str
    why: str
    source: str


REDUNDANT = (
    Redundant(
        ("*.bin", "*.pt", "*.pth"),
        SAFETENSORS,
        "the same weights as safetensors are there",
        "vLLM, default_loader.py: safetensors come first, .bin and .pt are tried where there are none",
    ),
    Redundant(
        (
            "*.h5",
            "*.msgpack",
            "*.ot",
            "*.tflite",
            "*.mlmodel",
            "*.onnx",
            "*.onnx_data",
            "onnx/*",
            "openvino/*",
            "coreml/*",
        ),
        "config.json",
        "no form that vLLM or SGLang reads",
        "vLLM, default_loader.py; SGLang, loader.py: safetensors, .bin, .pt and GGUF",
    ),
    Redundant(
        ("*.gguf",),
        SAFETENSORS,
        "quantised copies of the safetensors; name one with files=(…) to serve it",
        "vLLM, gguf_loader.py: read only where the model is named as a .gguf file",
    ),
    Redundant(
        ("original/*", "consolidated*.safetensors", "consolidated*.pth"),
        "model*.safetensors",
        "the publisher's own form of the same weights",
        "vLLM, arg_utils.py: ignore_patterns defaults to original/**/*; weight_utils.py: what the index does not name "
        "is a duplicate",
    ),
    Redundant(
        (".gitattributes", ".gitignore"),
        "*",
        "belongs to the repository, not to the model",
        "git",
    ),
)

NOT_READY = re.compile(
    r"still (?:under|in) training|still (?:being )?train(?:ed|ing)|(?:is|are|currently) under training"
    r"|training is (?:not finished|ongoing|still)|not (?:yet )?(?:fully )?trained|work[- ]in[- ]progress",
    re.IGNORECASE,
)
"""A model card that says that its weights are not final (the DFlash drafters of z-lab said "still under training" for
weeks after they were published)."""

LARGEST = 50 * 1000**3
"""Bytes of one file that the hub serves by plain HTTP (huggingface_hub 2.4.0, constants.py, MAX_HTTP_DOWNLOAD_SIZE)."""


def is_weights(path: str) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in WEIGHTS)
