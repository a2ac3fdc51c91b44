"""`cenote compile`: a model as a plan file, which loads without parsing, packing or compiling."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

import cenote
from cenote.cli.console import say, seconds, size, waiting
from cenote.cli.options import Precision, PrecisionOption, Shape, Threads, Tune, TuneOption
from cenote.cli.shapes import complete_shapes, parse_shapes


def compile_model(
    model: Annotated[Path, typer.Argument(help="An ONNX file.", metavar="MODEL", show_default=False)],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where to write it (default: MODEL with the ending .cenote)."),
    ] = None,
    shape: Shape = None,
    threads: Threads = None,
    precision: PrecisionOption = Precision.FAST,
    tune: TuneOption = Tune.CACHED,
) -> None:
    """Write a plan file for this machine: program, packed weights, kernels. Load it as you would load the model.

    It is executable content, like a shared library: load only plan files that you trust.
    """
    given = parse_shapes(shape or ())
    target = output or model.with_suffix(".cenote")
    with waiting(f"compiling {model.name}"):
        loaded = cenote.load(model, threads=threads, precision=precision, tune=tune)
        loaded.plan_for(complete_shapes(loaded, given))
        loaded.save(target, model)
    start = time.perf_counter()
    cenote.load(target, threads=threads)
    took = time.perf_counter() - start
    say(f"{target}: {size(target.stat().st_size)}, loads in {seconds(took)}")
