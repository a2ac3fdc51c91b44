"""`cenote profile`: where the time of a call goes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

import cenote
from cenote.cli.bench import filled
from cenote.cli.console import err, say, say_json, waiting
from cenote.cli.inputs import read_inputs
from cenote.cli.options import (
    DenormalsOption,
    Feed,
    Fetch,
    Input,
    Json,
    PrecisionOption,
    Shape,
    Threads,
    TuneOption,
)
from cenote.cli.preprocess import Preprocess
from cenote.cli.shapes import complete_shapes, parse_shapes, shapes_of


def profile(
    model: Annotated[
        Path, typer.Argument(help="A model or a plan file.", metavar="MODEL", show_default=False)
    ],
    shape: Shape = None,
    input: Input = None,
    threads: Threads = None,
    duration: Annotated[float, typer.Option("--seconds", min=0.01, help="How long to measure, about.")] = 2.0,
    precision: PrecisionOption = "fast",
    denormals: DenormalsOption = None,
    tune: TuneOption = "cached",
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
    feed: Feed = None,
    fetch: Fetch = None,
    as_json: Json = False,
) -> None:
    """Show where the time of a call goes: every step in place and on each thread, beside what the machine can do."""
    given = parse_shapes(shape or ())
    with waiting(f"loading {model.name}"):
        loaded = cenote.load(
            model,
            threads=threads,
            precision=precision,
            tune=tune,
            denormals=denormals,
            inputs=feed,
            outputs=fetch,
        )
        real = read_inputs(loaded, input or (), Preprocess())
        shapes = complete_shapes(loaded, given, shapes_of(real))
        loaded.plan_for(shapes)
    found = replace(loaded.profile(filled(loaded, shapes, real), seconds=duration), model=model.name)
    if as_json:
        say_json(found.to_dict())
    else:
        say(found.table(top))
    for path, content in ((html, found.html), (trace, found.trace)):
        if path is not None:
            path.write_text(content(), encoding="utf-8")
            err().print(f"written: {path}", markup=False, soft_wrap=True)
