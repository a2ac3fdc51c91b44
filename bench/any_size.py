"""The networks that take any batch and picture size, and seeded sizes for them."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from bench.files import MODEL_FOLDER, ModelFiles

Shape = tuple[int, ...]
BATCHES = (1, 16)
SIDES = (96, 640)
LINE_WIDTHS = (48, 1200)  # of a text line, at the height that the recogniser takes
LINE_HEIGHT = 48
# Elements of the largest input in pixels (batch x height x width): 21 pictures of 224 x 224. It holds the heaviest
# run on one core to 4 s (the recogniser; 1.5 s the others) and a process to 0.6 GB.
PIXELS = 1 << 20


@dataclass(frozen=True)
class AnySize:
    """A network whose file leaves batch and picture size open."""

    name: str
    # Height and width must be multiples of this; 1: any size.
    multiple: int = 1
    # This many rows of the output (axis 1) have another unit than the rest: errors are relative to the largest of each.
    rows_apart: int = 0
    # Reads lines of text: only the width varies (and the batch).
    lines: bool = False
    folder: Path = MODEL_FOLDER

    @property
    def onnx(self) -> Path:
        """The model: one input, one output."""
        return ModelFiles(self.name, self.folder).of_open_sizes.onnx

    def error(self, found: np.ndarray, truth: np.ndarray) -> float:
        """Largest difference / largest value; infinite where shapes differ or a value is not a number."""
        if found.shape != truth.shape:
            return float("inf")
        if self.rows_apart:
            parts = [(array[:, : self.rows_apart], array[:, self.rows_apart :]) for array in (found, truth)]
            return max(difference(*pair) for pair in zip(*parts, strict=True))
        return difference(found, truth)

    def shape(self, rng: np.random.Generator, batch: int) -> Shape:
        """One size."""
        if self.lines:
            return batch, 3, LINE_HEIGHT, int(rng.integers(LINE_WIDTHS[0], LINE_WIDTHS[1] + 1))
        sides = [
            -(-int(side) // self.multiple) * self.multiple for side in rng.integers(SIDES[0], SIDES[1] + 1, 2)
        ]
        return batch, 3, *sides

    def shapes(self, count: int, seed: int, pixels: int = PIXELS) -> list[Shape]:
        """So many different sizes, every batch as likely as another; those of more pixels are drawn again."""
        return self._draw(
            count, seed, lambda rng: self.shape(rng, int(rng.integers(BATCHES[0], BATCHES[1] + 1))), pixels
        )

    def pictures(self, count: int, seed: int) -> list[Shape]:
        """So many sizes of one picture each, as they come: the same one may come again."""
        rng = np.random.default_rng(seed)
        return [self.shape(rng, 1) for _ in range(count)]

    def _draw(
        self, count: int, seed: int, draw: Callable[[np.random.Generator], Shape], pixels: int
    ) -> list[Shape]:
        rng = np.random.default_rng(seed)
        found: dict[Shape, None] = {}
        while len(found) < count:
            shape = draw(rng)
            if prod(shape) // shape[1] <= pixels:
                found[shape] = None
        return list(found)


def difference(found: np.ndarray, truth: np.ndarray) -> float:
    """Largest difference / largest value."""
    largest = float(np.abs(found - truth).max() / np.abs(truth).max())
    return largest if np.isfinite(largest) else float("inf")


# The detector joins maps that it has halved and enlarged again, which fit only at multiples of 32: its users pad.
ANY_SIZE = {
    network.name: network
    for network in (
        AnySize("mobilenet_v2"),
        AnySize("resnet18"),
        AnySize("densenet121"),
        AnySize("inception_v3"),
        AnySize("yolov8n", multiple=32, rows_apart=4),
        AnySize("recogniser", lines=True),
    )
}


def chosen_networks(parser: argparse.ArgumentParser, text: str) -> list[AnySize]:
    """The networks that were asked for; stops early if one is unknown or was not exported."""
    names = text.split(",")
    unknown = sorted(set(names) - set(ANY_SIZE))
    if unknown:
        parser.error(f"no such network: {', '.join(unknown)}; there are {', '.join(ANY_SIZE)}")
    missing = [name for name in names if not ANY_SIZE[name].onnx.exists()]
    if missing:
        parser.error(
            f"not there: {', '.join(missing)}; first run python -m bench.export_any_size {' '.join(missing)}"
        )
    return [ANY_SIZE[name] for name in names]
