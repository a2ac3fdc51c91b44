"""`cenote run` without a model: the network in the package classifies the package's pictures of clothes."""

from __future__ import annotations

import statistics
import time
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.text import Text

import cenote
from cenote.cli.answers import probabilities, split_labels
from cenote.cli.console import out, say, say_json, seconds, waiting

RUNS = 20
GAP = 3
SHADES = " .:-=+*#%@"
GREY_ENOUGH = ("256", "truecolor", "windows")  # 16 colours have four greys


def run_embedded(options: cenote.LoadOptions, as_json: bool = False) -> None:
    """Classify the bundled pictures, draw them with the answers, and say how long it took."""
    data = resources.files("cenote") / "data"
    start = time.perf_counter()
    with waiting("loading the model in the package"):
        model = cenote.load_with((data / "fashion.onnx").read_bytes(), options)
        with (data / "pictures.npz").open("rb") as file, np.load(file, allow_pickle=False) as content:
            pictures, truth = content["pictures"], content["labels"]
        batch = pictures[:, None].astype(np.float32) / np.float32(255)
        scores = model(batch)
    ready = time.perf_counter() - start
    took = statistics.median(_timed(model, batch) for _ in range(RUNS))
    labels = split_labels(model.metadata["labels"])
    chances = probabilities(scores)
    right = int((chances.argmax(axis=1) == truth).sum())
    count = len(pictures)
    if as_json:
        answers = [_answer(labels, row, int(true)) for row, true in zip(chances, truth, strict=True)]
        say_json(
            {
                "threads": model.threads,
                "load_seconds": ready,
                "seconds": took,
                "right": right,
                "count": count,
                "pictures": answers,
            }
        )
        return
    captions = [_caption(labels, row, int(true)) for row, true in zip(chances, truth, strict=True)]
    _draw(out(), pictures, captions)
    say(f"{right} of {count} right, on {model.threads} thread(s)")
    say(f"ready after {seconds(ready)} (read, compile or fetch from the cache, first run)")
    say(f"then {seconds(took)} for {count} pictures: {seconds(took / count)} each (median of {RUNS} runs)")


def _timed(model: cenote.Model, batch: NDArray[Any]) -> float:
    start = time.perf_counter()
    model(batch)
    return time.perf_counter() - start


def _answer(labels: tuple[str, ...], chances: NDArray[Any], truth: int) -> dict[str, Any]:
    best = int(chances.argmax())
    return {"label": labels[best], "probability": float(chances[best]), "truth": labels[truth]}


def _caption(labels: tuple[str, ...], chances: NDArray[Any], truth: int) -> tuple[str, str]:
    """Caption such as `Sneaker 99.8 %`, with the true class below it."""
    best = int(chances.argmax())
    verdict = "right" if best == truth else f"wrong: {labels[truth]}"
    return f"{labels[best]} {chances[best]:.1%}", verdict


def _draw(console: Console, pictures: NDArray[Any], captions: list[tuple[str, str]]) -> None:
    """Pictures side by side, as many as fit."""
    width = pictures.shape[2]
    coloured = console.color_system in GREY_ENOUGH and console.encoding.lower().startswith("utf")
    per_row = max(1, (console.width + GAP) // (width + GAP))
    for first in range(0, len(pictures), per_row):
        row = pictures[first : first + per_row]
        for y in range(0, pictures.shape[1], 2):
            line = Text(no_wrap=True, overflow="crop")
            for picture in row:
                line.append_text(
                    _half_blocks(picture[y : y + 2]) if coloured else _shades(picture[y : y + 2])
                )
                line.append(" " * GAP)
            console.print(line)
        for part in range(2):
            cells = [caption[part][:width].ljust(width) for caption in captions[first : first + per_row]]
            console.print((" " * GAP).join(cells).rstrip(), markup=False, no_wrap=True, overflow="crop")
        console.print()


def _half_blocks(rows: NDArray[Any]) -> Text:
    """Two rows of pixels as one row of characters: the upper pixel in front, the lower behind."""
    line = Text()
    for above, below in rows.T.tolist():
        style = Style(color=Color.from_rgb(above, above, above), bgcolor=Color.from_rgb(below, below, below))
        line.append("▀", style)
    return line


def _shades(rows: NDArray[Any]) -> Text:
    """Picture without colours: one character per pair of pixels, denser for brighter pixels."""
    levels = rows.astype(np.float64).mean(axis=0) / 256 * len(SHADES)
    return Text("".join(SHADES[int(level)] for level in levels))
