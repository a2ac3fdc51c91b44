"""`cenote profile`: where the time of a call goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

import cenote
from cenote.cli.console import err, say, say_json, write
from cenote.cli.insight.function import profile_function
from cenote.cli.loaded import InputGroup, load
from cenote.cli.options import Json

Subject = Annotated[
    list[str] | None,
    typer.Argument(
        help="A model or a plan file; with --op further arguments of the function: 3, padding=1.",
        metavar="MODEL",
        show_default=False,
    ),
]


def profile(
    given: InputGroup,
    options: cenote.LoadOptions,
    what: Subject = None,
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
    op: Annotated[
        str | None,
        typer.Option(
            "--op", help="A function of cenote.functional in place of a model: conv2d.", show_default=False
        ),
    ] = None,
    shapes: Annotated[
        str | None,
        typer.Option(
            "--shapes",
            help="Arrays for --op: 32x3x224x224,64x3x3x3; of other types: int64:10.",
            show_default=False,
        ),
    ] = None,
    metrics: Annotated[
        bool,
        typer.Option("--metrics", help="Show computing, bandwidth, cache hits and pipeline of each step."),
    ] = False,
    accuracy: Annotated[
        bool,
        typer.Option("--accuracy", help="Show the error of each step's algorithm, and no times."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show where the time of a call goes: every step in place and on each thread, beside what the machine can do."""
    if op is not None:
        profile_function(op, shapes, what or (), duration, as_json)
        return
    if shapes is not None or what is None or len(what) != 1:
        raise typer.BadParameter("one MODEL, or --op FUNCTION with --shapes", param_hint="MODEL")
    model = Path(what[0])
    loaded = load(model, options, given)
    if accuracy:
        _show(cenote.accuracy(model, options, inputs=loaded.inputs()), as_json)
        return
    measured = replace(loaded.model.profile(loaded.inputs(), seconds=duration), model=model.name)
    _show(measured, as_json, measured.table(top, metrics))
    for path, content in ((html, measured.html), (trace, measured.trace)):
        _write(path, content)


def _write(path: Path | None, content: Callable[[], str]) -> None:
    if path is not None:
        write(path, content())
        err().print(f"written: {path}", markup=False, soft_wrap=True)


def _show(found: cenote.Profile | cenote.Accuracy, as_json: bool, text: str | None = None) -> None:
    if as_json:
        say_json(found.to_dict())
    else:
        say(str(found) if text is None else text)
