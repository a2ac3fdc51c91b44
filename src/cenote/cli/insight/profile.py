"""`cenote profile`: where the time of a call goes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

import cenote
from cenote.cli.console import err, say, say_json, write
from cenote.cli.loaded import InputGroup, load
from cenote.cli.options import Json, Model


def profile(
    model: Model,
    given: InputGroup,
    options: cenote.LoadOptions,
    duration: Annotated[float, typer.Option("--seconds", min=0.01, help="How long to measure, about.")] = 2.0,
    top: Annotated[int, typer.Option("--top", min=0, help="Steps to show; 0: all.")] = 20,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write a page with pictures.", show_default=False)
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace",
            help="Write what each thread did in one call, for Perfetto or chrome://tracing.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show where the time of a call goes: every step in place and on each thread, beside what the machine can do."""
    loaded = load(model, options, given)
    measured = replace(loaded.model.profile(loaded.inputs(), seconds=duration), model=model.name)
    if as_json:
        say_json(measured.to_dict())
    else:
        say(measured.table(top))
    for path, content in ((html, measured.html), (trace, measured.trace)):
        if path is not None:
            write(path, content())
            err().print(f"written: {path}", markup=False, soft_wrap=True)
