"""Results of `cenote.quantize`, as data and as text."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from cenote.core.deferred import dataclass
from cenote.core.text import Report, aligned, digits
from cenote.quantization.page import page
from cenote.quantization.table import HEADS, LayerErrors, row


@dataclass(frozen=True, repr=False)
class QuantizationReport(Report):
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

    def html(self) -> str:
        """Return all of it as one page without external files, with a picture of the layers' errors."""
        return page(self.path, self.summary(), self.cells(), self.layers)

    def cells(self) -> list[tuple[str, ...]]:
        """Return the table of errors: its head, and a row for each layer."""
        return [HEADS, *map(row, self.layers)]

    def summary(self) -> list[str]:
        """Return what was gained and lost, as lines of text."""
        lines = [f"in float32: {name}" for name in self.floats]
        lines += [f"note: {note}" for note in self.notes]
        lines.append(f"{self.metric}: {self.before:.5g} before, {self.after:.5g} after")
        if self.ms_before is not None and self.ms_after is not None:
            lines.append(
                f"a call of {self.examples}: {digits(self.ms_before)} ms before, {digits(self.ms_after)} ms after"
            )
        sizes = " before, ".join(
            f"{digits(size / 1e6)} MB" for size in (self.weights_before, self.weights_after)
        )
        lines.append(f"constants: {sizes} after")
        lines.append(f"{len(self.layers)} layers on bytes ({self.method}), written to {self.path}")
        return lines

    def __str__(self) -> str:
        return "\n".join([*aligned(self.cells(), (0, 1)), "", *self.summary()])
