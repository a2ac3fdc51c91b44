"""`cenote compile`: a model as a plan file, which loads without parsing, packing or compiling."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

import cenote
from cenote.cli.console import say, say_json, seconds, size, waiting
from cenote.cli.loaded import InputGroup, Loaded, load
from cenote.cli.options import Json, Model


def compile_model(
    model: Model,
    given: InputGroup,
    options: cenote.LoadOptions,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where to write it (default: MODEL with the ending .cenote)."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a plan file for this machine: program, packed weights, kernels. Load it as you would load the model.

    Where sizes follow from content (boxes that are kept), the model runs once, and the file holds the plan for what was
    found, which serves other numbers of it, too: name an --input in which there is something to find.

    It is executable content, like a shared library: load only plan files that you trust.
    """
    target = output or model.with_suffix(".cenote")
    start = time.perf_counter()
    ready = load(model, options, given, "compiling")
    loaded = ready.model
    with waiting(f"writing {target.name}"):
        _save(ready, target, model)
    written = time.perf_counter()
    cenote.load(target, threads=options.threads)
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
            "inputs": {name: list(extents) for name, extents in ready.shapes.items()},
            "threads": loaded.threads,
            "precision": loaded.precision,
            "compile_seconds": written - start,
            "load_seconds": took,
        }
    )


def _save(ready: Loaded, target: Path, source: Path) -> None:
    """Write the plan file, after a run if inputs are given, or if it takes one to know all sizes."""
    if not ready.given:
        try:
            ready.model.save(target, source)
            return
        except cenote.InputError:
            pass
    ready.model.run(ready.inputs())
    ready.model.save(target, source)
