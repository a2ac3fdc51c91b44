"""`cenote warm`: models made ready ahead of time, as for the image of a container."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

import cenote
from cenote.cli.bench import filled
from cenote.cli.console import say, say_json, seconds, size, waiting
from cenote.cli.inputs import read_inputs
from cenote.cli.options import Feed, Fetch, Input, Json, PrecisionOption, Shape, TuneOption
from cenote.cli.preprocess import Preprocess
from cenote.cli.shapes import complete_shapes, parse_shapes, shapes_of


def warm(
    models: Annotated[list[Path], typer.Argument(help="ONNX files.", metavar="MODEL...", show_default=False)],
    shape: Shape = None,
    input: Input = None,
    precision: PrecisionOption = "fast",
    tune: TuneOption = "cached",
    feed: Feed = None,
    fetch: Fetch = None,
    as_json: Json = False,
) -> None:
    """Prepare the cache: load each model and run it once, so that later processes compile nothing.

    Programs find what is prepared when they load the same content with the same precision and tune, from the same
    cache (CENOTE_CACHE), as the same user. Run it once for each size that a model with symbolic dimensions should know.
    """
    state = cenote.info().cache
    if not state.folder or state.problem:
        raise cenote.ArgumentError(f"there is no cache to prepare: {state.problem or 'CENOTE_CACHE is off'}")
    given = parse_shapes(shape or ())
    ends = {"inputs": feed, "outputs": fetch}
    results = [_warmed(path, given, input or (), precision, tune, as_json, ends) for path in models]
    unknown = sorted(given.keys() - {name for each in results for name in each["inputs"]})
    if unknown:
        raise typer.BadParameter(f"no model has an input '{unknown[0]}'", param_hint="--shape")
    after = cenote.info().cache
    if as_json:
        say_json({"folder": after.folder, "bytes": after.nbytes + after.plan_bytes, "models": results})
    else:
        say(f"{after.folder}: {size(after.nbytes + after.plan_bytes)}")


def _warmed(
    path: Path, given: Any, real: Any, precision: Any, tune: Any, quiet: bool, ends: Mapping[str, Any]
) -> dict[str, Any]:
    compiled = 0

    def progress(done: int, total: int) -> None:
        nonlocal compiled
        compiled += 1

    start = time.perf_counter()
    with waiting(f"preparing {path.name}"), cenote.watch_compilation(progress):
        model = cenote.load(path, precision=precision, tune=tune, **ends)
        inputs = read_inputs(model, real, Preprocess())
        names = [declared.name for declared in model.inputs]
        wanted = {name: extents for name, extents in given.items() if name in names}
        shapes = complete_shapes(model, wanted, shapes_of(inputs))
        model.run(filled(model, shapes, inputs))
    took = time.perf_counter() - start
    if not quiet:
        say(f"{path}: {seconds(took)}, {compiled} kernels compiled")
    return {
        "model": str(path),
        "inputs": {name: list(extents) for name, extents in shapes.items()},
        "kernels_compiled": compiled,
        "seconds": took,
    }
