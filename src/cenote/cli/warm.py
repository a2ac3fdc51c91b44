"""`cenote warm`: models made ready ahead of time, as for the image of a container."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import cenote
from cenote.cli.console import say, say_json, seconds, size, waiting
from cenote.cli.loaded import InputGroup, completed
from cenote.cli.options import Json
from cenote.cli.shapes import Shapes, parse_shapes


def warm(
    models: Annotated[
        list[Path], typer.Argument(help="Models in any format.", metavar="MODEL...", show_default=False)
    ],
    given: InputGroup,
    options: cenote.LoadOptions,
    as_json: Json = False,
) -> None:
    """Prepare the cache: load each model and run it once, so that later processes compile nothing.

    Programs find what is prepared when they load the same content with the same options, from the same
    cache (CENOTE_CACHE), as the same user. Run it once for each size that a model with symbolic dimensions should know.
    """
    state = cenote.info().cache
    if not state.folder or state.problem:
        raise cenote.ArgumentError(f"there is no cache to prepare: {state.problem or 'CENOTE_CACHE is off'}")
    shapes = parse_shapes(given.shape or ())
    results = [_warmed(path, options, shapes, given.input or (), as_json) for path in models]
    unknown = sorted(shapes.keys() - {name for each in results for name in each["inputs"]})
    if unknown:
        raise typer.BadParameter(f"no model has an input '{unknown[0]}'", param_hint="--shape")
    after = cenote.info().cache
    if as_json:
        say_json({"folder": after.folder, "bytes": after.nbytes + after.plan_bytes, "models": results})
    else:
        say(f"{after.folder}: {size(after.nbytes + after.plan_bytes)}")


def _warmed(
    path: Path, options: cenote.LoadOptions, shapes: Shapes, inputs: Sequence[str], quiet: bool
) -> dict[str, Any]:
    compiled = 0

    def progress(done: int, total: int) -> None:
        nonlocal compiled
        compiled += 1

    start = time.perf_counter()
    with waiting(f"preparing {path.name}"), cenote.watch_compilation(progress):
        model = cenote.load_with(path, options)
        names = [declared.name for declared in model.inputs]
        ready = completed(model, {name: each for name, each in shapes.items() if name in names}, inputs)
        model.run(ready.inputs())
    took = time.perf_counter() - start
    if not quiet:
        say(f"{path}: {seconds(took)}, {compiled} kernels compiled")
    return {
        "model": str(path),
        "inputs": {name: list(extents) for name, extents in ready.shapes.items()},
        "kernels_compiled": compiled,
        "seconds": took,
    }
