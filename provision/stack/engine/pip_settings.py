"""What pip is set up with, in the words of uv, which reads no pip.conf. Run in the guest; standard library only.

Prints ``export NAME='value'`` lines for a shell. They may hold the password of an index: they go from this program into
the environment of uv and nowhere else.
"""

import configparser
import os
import sys
from collections.abc import Mapping
from pathlib import Path

WORDS = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "constraint": ("UV_CONSTRAINT", " "),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", " "),
    "client-cert": ("SSL_CLIENT_CERT", " "),
    "timeout": ("UV_HTTP_TIMEOUT", " "),
    "proxy": ("ALL_PROXY", " "),
}
"""pip's option, uv's variable, and what stands between several values there."""
ANY_INDEX = "unsafe-best-match"
"""pip looks for the best version in all of its indexes; uv by itself stops at the first one that has the package."""


def files(environ: Mapping[str, str], root: str = "") -> list[str]:
    """The configuration files that pip reads, the stronger ones later (pip user guide, "Configuration")."""
    home = environ.get("HOME") or "/root"
    user = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    system = (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")
    names = [*(f"{one}/pip/pip.conf" for one in reversed(system)), "/etc/pip.conf"]
    names += [f"{home}/.pip/pip.conf", f"{user}/pip/pip.conf"]
    chosen = environ.get("PIP_CONFIG_FILE")
    if chosen == os.devnull:
        return []
    return [root + name for name in (*names, chosen) if name]


def options(environ: Mapping[str, str], paths: list[str]) -> dict[str, str]:
    """pip's options as ``pip install`` sees them: a file's [install] over its [global], the environment over all.
    Raises configparser.Error and OSError."""
    found: dict[str, str] = {}
    for section in ("global", "install"):
        for path in paths:
            parser = configparser.RawConfigParser()
            if Path(path).is_file():
                parser.read_string(Path(path).read_text(encoding="utf-8"), path)
            if parser.has_section(section):
                found.update((key.replace("_", "-"), value) for key, value in parser.items(section))
    for key, value in environ.items():
        if key.startswith("PIP_") and value:
            found[key[4:].lower().replace("_", "-")] = value
    return found


def for_uv(given: Mapping[str, str]) -> dict[str, str]:
    """uv's variables for pip's options."""
    made = {
        name: between.join(given[option].split())
        for option, (name, between) in WORDS.items()
        if given.get(option, "").split()
    }
    if "UV_INDEX" in made:
        made["UV_INDEX_STRATEGY"] = ANY_INDEX
    if given.get("no-index", "").strip().lower() in ("1", "true", "yes", "on"):
        # uv has a flag for it and no variable.
        made["KPRO_UV_FLAGS"] = "--no-index"
    return made


def main() -> int:
    environ = dict(_system(Path("/etc/environment")))
    environ.update(os.environ)
    try:
        made = for_uv(options(environ, files(environ)))
    except (configparser.Error, OSError, UnicodeDecodeError) as error:
        # The text of the error may quote a line, and a line may hold a password.
        print(f"pip's configuration cannot be read: {type(error).__name__}", file=sys.stderr)  # noqa: T201
        return 1
    for name, value in sorted(made.items()):
        if name not in environ:
            quoted = value.replace("'", "'\\''")
            print(f"export {name}='{quoted}'")  # noqa: T201
    return 0


def _system(path: Path) -> list[tuple[str, str]]:
    """What every login of the guest has: PAM reads this file, and no login is made here."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    pairs = (line.strip().removeprefix("export ").partition("=") for line in lines)
    return [
        (key.strip(), value.strip().strip("\"'"))
        for key, equals, value in pairs
        if equals and key.strip().startswith(("PIP_", "UV_", "SSL_"))
    ]


if __name__ == "__main__":
    sys.exit(main())
