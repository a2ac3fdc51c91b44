"""`cenote run`: a model on files, or the model inside the package on its pictures."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

import cenote
from cenote.cli.answers import answer_data, answer_lines, read_labels, split_labels
from cenote.cli.console import say, say_json, seconds, waiting, write
from cenote.cli.embedded import run_embedded
from cenote.cli.inputs import Inputs, read_runs
from cenote.cli.options import Json
from cenote.cli.preprocess import Pictures

Runs = list[tuple[str, Inputs]]


def run(
    options: cenote.LoadOptions,
    pictures: Pictures,
    model: Annotated[
        Path | None,
        typer.Argument(
            help="A model in any format, or a plan file. Without one: the model and pictures in the package.",
            metavar="MODEL",
        ),
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Pictures, .npy or .npz. A model with several inputs takes NAME=FILE, NAME=NUMBER, or one .npz.",
            metavar="INPUT",
            show_default=False,
        ),
    ] = None,
    top: Annotated[int | None, typer.Option(min=1, help="Print so many classes (default: 5).")] = None,
    labels: Annotated[
        Path | None, typer.Option(help="Names of the classes: a line each, or a JSON list.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Write the outputs to this .npz.")] = None,
    as_json: Json = False,
) -> None:
    """Run a model on pictures or arrays and print what it answers."""
    if model is None:
        run_embedded(options, as_json)
        return
    settings = pictures.settings()
    names = read_labels(labels) if labels else ()
    start = time.perf_counter()
    with waiting(f"loading {model.name}"):
        loaded = cenote.load_with(model, options)
    if loaded.inputs and not inputs:
        shown = ", ".join(map(str, loaded.inputs))
        raise typer.BadParameter(
            f"the model needs an input ({shown}): name pictures, .npy or .npz files, or try `cenote bench {model}`"
        )
    runs = read_runs(loaded, inputs or (), settings) if loaded.inputs else [("no input", {})]
    # "character" is what models of the Paddle family call it.
    names = names or split_labels(loaded.metadata.get("labels") or loaded.metadata.get("character", ""))
    results: list[Result] = []
    for result in _results(loaded, runs, start):
        results.append(result)
        if not as_json:
            _tell(result, names, top, first=len(results) == 1)
    if save is not None:
        _save(results, save)
    if as_json:
        say_json(_data(model, loaded, results, names, top))
    elif save is not None:
        say(f"outputs written to {save}")


@dataclass(frozen=True)
class Result:
    """One run. `ready`: seconds from the start of loading to the end of the first run, which compiles."""

    title: str
    ready: float
    seconds: float
    outputs: dict[str, NDArray[Any]]


def _results(model: cenote.Model, runs: Runs, start: float) -> Iterator[Result]:
    """Run each input twice, and time the second run: the first of a shape compiles."""
    ready = 0.0
    for title, inputs in runs:
        with waiting(f"compiling for {title}"):
            model.run(inputs)
        ready = ready or time.perf_counter() - start
        begin = time.perf_counter()
        outputs = model.run(inputs)
        yield Result(title, ready, time.perf_counter() - begin, outputs)


def _tell(result: Result, labels: tuple[str, ...], top: int | None, first: bool) -> None:
    if first:
        say(f"loaded and compiled in {seconds(result.ready)}")
    say(f"{result.title}: {seconds(result.seconds)}")
    for line in answer_lines(result.outputs, labels, top):
        say(line)


def _data(
    path: Path, model: cenote.Model, results: Sequence[Result], labels: tuple[str, ...], top: int | None
) -> dict[str, Any]:
    """Return all runs, for JSON."""
    return {
        "model": str(path),
        "threads": model.threads,
        "precision": model.precision,
        "load_seconds": results[0].ready,
        "runs": [
            {
                "input": result.title,
                "seconds": result.seconds,
                "outputs": answer_data(result.outputs, labels, top),
            }
            for result in results
        ],
    }


def _save(results: Sequence[Result], path: Path) -> None:
    kept = {}
    for number, result in enumerate(results):
        suffix = f".{number}" if len(results) > 1 else ""
        kept.update({f"{name}{suffix}": array for name, array in result.outputs.items()})
    write(path, lambda file: np.savez(file, **kept))  # type: ignore[arg-type]  # an array is no allow_pickle
