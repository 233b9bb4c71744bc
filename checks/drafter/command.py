"""``provcheck drafter``: judges a drafter's files against its target and one engine version, before any GPU time."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("drafter")
@click.argument("drafter_dir", type=click.Path(path_type=Path))
@click.option("--target", "target_dir", type=click.Path(path_type=Path), required=True)
@click.option("--engine", "engine_text", required=True)
def command(drafter_dir: Path, target_dir: Path, engine_text: str) -> None:
    """x"""
    import json

    from checks.drafter.doctor import judge
    from checks.drafter.engine import Engine
    from checks.drafter.files import BadInput
    from checks.drafter.observe import observe
    from checks.model import Report

    try:
        case = observe(drafter_dir, target_dir, Engine.parse(engine_text))
    except (BadInput, ValueError) as error:
        raise click.UsageError(str(error)) from None
    findings, facts = judge(case)
    click.echo(json.dumps(Report("drafter", findings, facts=facts).as_dict(), indent=1))
