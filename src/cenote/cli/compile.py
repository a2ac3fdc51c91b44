"""`cenote compile`: a model as a plan file, which loads without parsing, packing or compiling."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

import cenote
from cenote.cli.bench import filled
from cenote.cli.console import say, say_json, seconds, size, waiting
from cenote.cli.inputs import Inputs, read_inputs
from cenote.cli.options import Feed, Fetch, Input, Json, PrecisionOption, Shape, Threads, TuneOption
from cenote.cli.preprocess import Preprocess
from cenote.cli.shapes import Shapes, complete_shapes, parse_shapes, shapes_of


def compile_model(
    model: Annotated[Path, typer.Argument(help="An ONNX file.", metavar="MODEL", show_default=False)],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where to write it (default: MODEL with the ending .cenote)."),
    ] = None,
    shape: Shape = None,
    input: Input = None,
    threads: Threads = None,
    precision: PrecisionOption = "fast",
    tune: TuneOption = "cached",
    feed: Feed = None,
    fetch: Fetch = None,
    as_json: Json = False,
) -> None:
    """Write a plan file for this machine: program, packed weights, kernels. Load it as you would load the model.

    Where sizes follow from content (boxes that are kept), the model runs once, and the file holds the plan for what was
    found, which serves other numbers of it, too: name an --input in which there is something to find.

    It is executable content, like a shared library: load only plan files that you trust.
    """
    given = parse_shapes(shape or ())
    target = output or model.with_suffix(".cenote")
    start = time.perf_counter()
    with waiting(f"compiling {model.name}"):
        loaded = cenote.load(
            model, threads=threads, precision=precision, tune=tune, inputs=feed, outputs=fetch
        )
        real = read_inputs(loaded, input or (), Preprocess())
        shapes = complete_shapes(loaded, given, shapes_of(real))
        loaded.plan_for(shapes)
        _save(loaded, target, model, shapes, real)
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


def _save(loaded: cenote.Model, target: Path, model: Path, shapes: Shapes, real: Inputs) -> None:
    """Write the plan file, after a run if inputs are given, or if it takes one to know all sizes."""
    if not real:
        try:
            loaded.save(target, model)
            return
        except cenote.InputError:
            pass
    loaded.run(filled(loaded, shapes, real))
    loaded.save(target, model)
