"""``python -m checks`` and the entry of the single-file provcheck."""

from checks.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
