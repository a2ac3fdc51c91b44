"""`cenote compare`: differences between two profiles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

import cenote
from cenote.cli.console import say, say_json
from cenote.cli.options import Json

FileArgument = Annotated[
    Path, typer.Argument(help="What `cenote profile --json` printed.", show_default=False, dir_okay=False)
]


def compare(
    before: FileArgument,
    after: FileArgument,
    check: Annotated[
        bool, typer.Option("--check", help="Exit code 1 where a step has become slower.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Compare two profiles of a model step by step; differences that are noise are left out."""
    comparison = cenote.compare_profiles(_read(before), _read(after))
    if as_json:
        say_json(comparison.to_dict())
    else:
        say(str(comparison))
    if check and comparison.slower:
        raise typer.Exit(1)


def _read(path: Path) -> cenote.Profile:
    """A profile out of a file."""
    try:
        return cenote.Profile.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, RecursionError) as error:
        raise cenote.ArgumentError(f"{path}: no profile ({error})") from error
