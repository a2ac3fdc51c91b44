"""Results of `cenote.quantize`, as data and as text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class LayerErrors:
    """Errors of a layer on bytes. Ratios of signal to noise are in dB: 6 for each bit, inf where nothing is lost.

    `weights_sqnr`: of its weights, rounded (None: it has none). `own_sqnr`: of its result, rounded and clipped, with
    all before it in float (None: its result stays in float). `sqnr`, `largest_error`: of its result in the quantised
    model, which inherits the errors of layers before it; the latter relative to the result's largest number.
    """

    name: str
    op: str
    weights_sqnr: float | None
    own_sqnr: float | None
    sqnr: float
    largest_error: float


@dataclass(frozen=True)
class QuantizationReport:
    """A quantised model. `layers`: those that run on bytes, in order. `floats`: layers with weights that stay in
    float32.

    `metric`: its name; `before`, `after`: of the float and of the quantised model, more is better. `weights_before`,
    `weights_after`: bytes of constants. `ms_before`, `ms_after`: least time of a call on the first run of the data, of
    `examples` examples, in Cenote on this machine (None: not measured). `notes`: what else was done or found.
    """

    path: str
    method: str
    layers: tuple[LayerErrors, ...]
    floats: tuple[str, ...]
    metric: str
    before: float
    after: float
    weights_before: int
    weights_after: int
    ms_before: float | None
    ms_after: float | None
    examples: int
    notes: tuple[str, ...] = ()

    @property
    def drop(self) -> float:
        """The part of the metric that is lost."""
        return self.before - self.after

    def as_dict(self) -> dict[str, Any]:
        """Return the content for JSON, which has no infinity: None stands for it."""
        content = asdict(self)
        for layer in content["layers"]:
            layer.update(
                {key: None for key, x in layer.items() if isinstance(x, float) and not math.isfinite(x)}
            )
        return {**content, "drop": self.drop}

    def __str__(self) -> str:
        lines = [*table(self.layers), ""]
        lines += [f"in float32: {name}" for name in self.floats]
        lines += [f"note: {note}" for note in self.notes]
        lines.append(f"{self.metric}: {self.before:.5g} before, {self.after:.5g} after")
        if self.ms_before is not None and self.ms_after is not None:
            lines.append(
                f"a call of {self.examples}: {self.ms_before:.3g} ms before, {self.ms_after:.3g} ms after"
            )
        sizes = " before, ".join(f"{size / 1e6:.3g} MB" for size in (self.weights_before, self.weights_after))
        lines.append(f"constants: {sizes} after")
        lines.append(f"{len(self.layers)} layers on bytes ({self.method}), written to {self.path}")
        return "\n".join(lines)


HEADS = ("layer", "operator", "weights", "own", "SQNR, dB", "largest error")


def rows(layers: Sequence[LayerErrors]) -> list[tuple[str, ...]]:
    """Return the cells of the table of errors."""
    return [
        (
            layer.name,
            layer.op,
            decibels(layer.weights_sqnr),
            decibels(layer.own_sqnr),
            decibels(layer.sqnr),
            f"{layer.largest_error:.2%}",
        )
        for layer in layers
    ]


def table(layers: Sequence[LayerErrors]) -> list[str]:
    """Return the table of errors as lines of plain text."""
    cells = [HEADS, *rows(layers)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEADS))]
    return [
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def decibels(ratio: float | None) -> str:
    """Return a ratio of signal to noise as text."""
    return "" if ratio is None else f"{ratio:.1f}"
