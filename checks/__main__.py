"""``python -m checks`` and the entry of the single-file provcheck."""

if __name__ == "__main__":
    if isinstance(archive := getattr(globals().get("__loader__"), "archive", None), str):
        from checks import zipped

        zipped.install(archive)
    from checks.cli import main

    raise SystemExit(main())
