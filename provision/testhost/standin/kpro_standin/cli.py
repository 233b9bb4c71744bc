"""``kpro-standin``: starts the stand-in engine and serves until it is told to stop."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from pathlib import Path

from .engine import Engine
from .faults import FAULTS, take_memory
from .model import ModelError, read_model
from .server import NOTE, Server
from .speculation import SpeculationError, parse_speculation
from .version import VERSION

KEY_NAMES = ("KPRO_API_KEY", "VLLM_API_KEY")
DRAIN_SECONDS = 30.0
log = logging.getLogger("kpro-standin")


def main(argv: list[str] | None = None) -> int:
    """Exit status: 0 after SIGTERM or SIGINT, 1 when it could not start, 2 for wrong arguments."""
    options = _parser().parse_args(argv)
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(asctime)s [%(name)s] %(message)s"
    )
    log.info("kpro-standin %s: %s", VERSION, NOTE)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: _signalled(stop))
    try:
        speculation = parse_speculation(options.speculative_config)
        model = read_model(options.model)
        keys = _keys()
    except SpeculationError as error:
        log.error("--speculative-config is refused: %s", error)
        return 1
    except (ModelError, EmptyKey) as error:
        log.error("%s", error)
        return 1
    if options.fault:
        log.warning("fault %s: %s", options.fault, FAULTS[options.fault])
    name = options.served_model_name or str(options.model)
    engine = Engine(model, name, speculation, options.tok_s, options.max_num_seqs, options.fault)
    try:
        server = Server(options.host, options.port, engine, keys)
    except OSError as error:
        log.error("cannot listen on %s port %s: %s", options.host, options.port, error.strerror or error)
        return 1
    with server:
        return _serve(server, options, stop)


def _serve(server: Server, options: argparse.Namespace, stop: threading.Event) -> int:
    engine = server.engine
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    log.info("on %s port %d, starting: %s", options.host, server.server_port, _described(engine))
    stop.wait(options.start_seconds)
    if options.fault == "memory":
        take_memory(stop.is_set)
    if options.fault == "crash" and not stop.is_set():
        log.error("RuntimeError: Engine core initialization failed (fault: crash)")
        return 1
    if options.fault != "never-ready" and not stop.is_set():
        engine.ready.set()
        log.info("ready, serving %s", engine.name)
    stop.wait()
    server.draining.set()
    log.info("stopping: requests in flight may end within %g s", DRAIN_SECONDS)
    server.shutdown()
    clean = server.drain(0.0 if options.fault == "hang" else DRAIN_SECONDS)
    log.info("stopped %s: %s", "cleanly" if clean else "with requests aborted", engine.metrics.summary())
    return 0


def _described(engine: Engine) -> str:
    model, speculation = engine.model, engine.speculation
    text = f"{model.architecture}, {model.tensors} tensors, {len(model.tokens)} tokens, "
    if speculation is None:
        return text + "no speculation"
    return text + (
        f"speculation {speculation.method}, k={speculation.k}, stated acceptance length "
        f"{speculation.acceptance_length:.2f}, step cost {speculation.step_cost:g}"
    )


def _signalled(stop: threading.Event) -> None:
    if stop.is_set():
        # Asked twice: at once.
        os._exit(1)
    stop.set()


class EmptyKey(ValueError):
    """An API key variable is set and holds none."""


def _keys() -> tuple[str, ...]:
    keys = []
    for name in KEY_NAMES:
        value = os.environ.get(name)
        if value is None:
            continue
        if not value.strip():
            raise EmptyKey(
                f"{name} is set but empty, which would serve without a key: give a key, or unset it"
            )
        keys.append(value.strip())
    return tuple(keys)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kpro-standin",
        description=f"A {NOTE}. API keys: {' or '.join(KEY_NAMES)} in the environment.",
        epilog="faults: " + "; ".join(f"{name}: {text}" for name, text in FAULTS.items()),
    )
    parser.add_argument("--version", action="version", version=f"kpro-standin {VERSION}")
    parser.add_argument(
        "--model", type=Path, required=True, help="folder with config.json, tokenizer, weights"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=_port, default=8000, help="0 takes a free one (default: %(default)s)")
    parser.add_argument("--served-model-name", help="name in the API (default: the folder)")
    parser.add_argument("--speculative-config", metavar="JSON", help="as vLLM's, with stated acceptance")
    parser.add_argument("--start-seconds", type=_seconds, default=0.0, help="time at 503 before it is ready")
    parser.add_argument(
        "--tok-s", type=_rate, default=200.0, help="pace without speculation (default: %(default)s)"
    )
    parser.add_argument(
        "--max-num-seqs", type=_count, default=64, help="requests at once (default: %(default)s)"
    )
    parser.add_argument("--fault", choices=tuple(FAULTS), help="fail in this way")
    return parser


def _seconds(text: str) -> float:
    return _within(text, 0, 86400)


def _rate(text: str) -> float:
    return _within(text, 0.001, 1e6)


def _count(text: str) -> int:
    return int(_within(text, 1, 1e6))


def _port(text: str) -> int:
    return int(_within(text, 0, 65535))


def _within(text: str, least: float, most: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not least <= value <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from {least:g} to {most:g}")
    return value
