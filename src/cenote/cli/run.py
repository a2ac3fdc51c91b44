"""`cenote run`: a model on files, or the model inside the package on its pictures."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

import cenote
from cenote.cli.answers import answer_lines, read_labels, split_labels
from cenote.cli.console import say, seconds, waiting
from cenote.cli.embedded import run_embedded
from cenote.cli.inputs import Inputs, read_runs
from cenote.cli.options import DenormalsOption, Precision, PrecisionOption, Threads, Tune, TuneOption
from cenote.cli.preprocess import Preprocess, numbers_flag, read_preprocess, size_flag

PICTURES = "Pictures"
Runs = list[tuple[str, Inputs]]


def run(
    model: Annotated[
        Path | None,
        typer.Argument(
            help="An ONNX file or a plan file. Without one: the model and pictures in the package.",
            metavar="MODEL",
        ),
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Pictures, .npy or .npz. A model with several inputs takes NAME=FILE, or one .npz.",
            metavar="INPUT",
            show_default=False,
        ),
    ] = None,
    top: Annotated[int | None, typer.Option(min=1, help="Print so many classes (default: 5).")] = None,
    labels: Annotated[
        Path | None, typer.Option(help="Names of the classes: a line each, or a JSON list.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Write the outputs to this .npz.")] = None,
    threads: Threads = None,
    precision: PrecisionOption = Precision.FAST,
    denormals: DenormalsOption = None,
    tune: TuneOption = Tune.CACHED,
    preprocess: Annotated[
        Path | None,
        typer.Option(help="A .json or .toml with the settings below; flags win.", rich_help_panel=PICTURES),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            help="Resize to 224 or 480x640 (height x width); with --crop, one number is the shorter side.",
            rich_help_panel=PICTURES,
        ),
    ] = None,
    crop: Annotated[
        str | None, typer.Option(help="Then keep the middle: 224 or 480x640.", rich_help_panel=PICTURES)
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(
            help="Multiply the bytes by this (default: 1/255 for float inputs).", rich_help_panel=PICTURES
        ),
    ] = None,
    mean: Annotated[
        str | None, typer.Option(help="Then subtract: 0.485,0.456,0.406.", rich_help_panel=PICTURES)
    ] = None,
    std: Annotated[
        str | None, typer.Option(help="Then divide by: 0.229,0.224,0.225.", rich_help_panel=PICTURES)
    ] = None,
    layout: Annotated[
        str | None, typer.Option(help="nchw or nhwc (default: as the input looks).", rich_help_panel=PICTURES)
    ] = None,
    color: Annotated[
        str | None, typer.Option(help="rgb, bgr or gray (default: by the input).", rich_help_panel=PICTURES)
    ] = None,
) -> None:
    """Run a model on pictures or arrays and print what it answers."""
    if model is None:
        run_embedded(threads, precision)
        return
    flags = {
        "size": size_flag("--size", size),
        "crop": size_flag("--crop", crop),
        "mean": numbers_flag("--mean", mean),
        "std": numbers_flag("--std", std),
        "scale": (numbers_flag("--scale", scale) or (None,))[0],
        "layout": layout,
        "color": color,
    }
    try:
        settings = (read_preprocess(preprocess) if preprocess else Preprocess()).merged(flags)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    names = read_labels(labels) if labels else ()
    start = time.perf_counter()
    with waiting(f"loading {model.name}"):
        loaded = cenote.load(model, threads=threads, precision=precision, tune=tune, denormals=denormals)
    if loaded.inputs and not inputs:
        shown = ", ".join(map(str, loaded.inputs))
        raise typer.BadParameter(
            f"the model needs an input ({shown}): name pictures, .npy or .npz files, or try `cenote bench {model}`"
        )
    runs = read_runs(loaded, inputs or (), settings) if loaded.inputs else [("no input", {})]
    # "character" is what models of the Paddle family call it.
    names = names or split_labels(loaded.metadata.get("labels") or loaded.metadata.get("character", ""))
    _report(loaded, runs, names, top, save, start)


def _report(
    model: cenote.Model,
    runs: Runs,
    labels: tuple[str, ...],
    top: int | None,
    save: Path | None,
    start: float,
) -> None:
    """Run, print and save. The first run of a shape compiles; its time stands apart."""
    kept = {}
    for number, (title, inputs) in enumerate(runs):
        with waiting(f"compiling for {title}"):
            outputs = model.run(inputs)
        if not number:
            say(f"loaded and compiled in {seconds(time.perf_counter() - start)}")
        begin = time.perf_counter()
        outputs = model.run(inputs)
        say(f"{title}: {seconds(time.perf_counter() - begin)}")
        for line in answer_lines(outputs, labels, top):
            say(line)
        suffix = f".{number}" if len(runs) > 1 else ""
        kept.update({f"{name}{suffix}": array for name, array in outputs.items()})
    if save is not None:
        with save.open("wb") as file:
            np.savez(file, **kept)  # type: ignore[arg-type]  # the stub takes allow_pickle for one of the arrays
        say(f"outputs written to {save}")
