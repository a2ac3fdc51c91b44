"""`cenote compile`: a model as a plan file, which loads without parsing, packing or compiling."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

import cenote
from cenote.cli.console import say, say_json, seconds, size, waiting
from cenote.cli.options import Json, PrecisionOption, Shape, Threads, TuneOption
from cenote.cli.shapes import complete_shapes, parse_shapes


def compile_model(
    model: Annotated[Path, typer.Argument(help="An ONNX file.", metavar="MODEL", show_default=False)],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where to write it (default: MODEL with the ending .cenote)."),
    ] = None,
    shape: Shape = None,
    threads: Threads = None,
    precision: PrecisionOption = "fast",
    tune: TuneOption = "cached",
    as_json: Json = False,
) -> None:
    """Write a plan file for this machine: program, packed weights, kernels. Load it as you would load the model.

    It is executable content, like a shared library: load only plan files that you trust.
    """
    given = parse_shapes(shape or ())
    target = output or model.with_suffix(".cenote")
    start = time.perf_counter()
    with waiting(f"compiling {model.name}"):
        loaded = cenote.load(model, threads=threads, precision=precision, tune=tune)
        shapes = complete_shapes(loaded, given)
        loaded.plan_for(shapes)
        loaded.save(target, model)
    written = time.perf_counter()
    cenote.load(target, threads=threads)
    took = time.perf_counter() - written
    nbytes = target.stat().st_size
    if not as_json:
        say(f"{target}: {size(nbytes)}, loads in {seconds(took)}")
        return
    say_json(
        {
            "model": str(model),
            "plan": str(target),
            "bytes": nbytes,
            "inputs": {name: list(extents) for name, extents in shapes.items()},
            "threads": loaded.threads,
            "precision": loaded.precision,
            "compile_seconds": written - start,
            "load_seconds": took,
        }
    )
