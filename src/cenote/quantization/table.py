"""Errors of layers, and the cells of their table."""

from __future__ import annotations

from cenote.core.deferred import dataclass


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


HEADS = ("layer", "operator", "weights", "own", "SQNR, dB", "largest error")


def row(layer: LayerErrors) -> tuple[str, ...]:
    """Return the cells of a layer's row."""
    ratios = (layer.weights_sqnr, layer.own_sqnr, layer.sqnr)
    shown = ("" if ratio is None else f"{ratio:.1f}" for ratio in ratios)
    return (layer.name, layer.op, *shown, f"{layer.largest_error:.2%}")
