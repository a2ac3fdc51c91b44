"""Errors of a quantised model's layers beside the float model, on the same runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.types import Array
from cenote.models.model import Model
from cenote.quantization.calibration import Tell, values_of
from cenote.quantization.data import Run
from cenote.quantization.network import Network
from cenote.quantization.placement import ByteLayer, BytePlacement
from cenote.quantization.qdq import WeightFormat, weights_of
from cenote.quantization.scales import ByteLevels
from cenote.quantization.table import LayerErrors


@dataclass
class _Noise:
    """Sums of squares of a value and of its error, and the largest of both."""

    signal: float = 0.0
    noise: float = 0.0
    largest: float = 0.0
    largest_error: float = 0.0

    def add(self, right: Array, other: Array) -> None:
        finite = np.isfinite(right)
        wide = right[finite].astype(np.float64)
        difference = np.abs(wide - other[finite])
        self.signal += float(np.square(wide).sum())
        self.noise += float(np.square(difference).sum())
        self.largest = max(self.largest, float(np.abs(wide).max(initial=0)))
        self.largest_error = max(self.largest_error, float(difference.max(initial=0)))

    @property
    def decibels(self) -> float:
        if not self.noise:
            return math.inf
        return 10 * math.log10(self.signal / self.noise) if self.signal else -math.inf

    @property
    def relative(self) -> float:
        return self.largest_error / self.largest if self.largest else float(self.largest_error > 0)


def errors_of(
    network: Network,
    models: tuple[Model, Model],
    placement: BytePlacement,
    behind: Mapping[str, str],
    levels: Mapping[str, ByteLevels],
    form: WeightFormat,
    runs: Sequence[Run],
    tell: Tell,
) -> tuple[LayerErrors, ...]:
    """Return the errors of each layer. `models`: the float and the quantised one; `behind`: names of values in the
    latter, behind their 8 bits."""
    names = {layer.result: behind.get(layer.result, layer.result) for layer in placement.layers}
    own = {name: _Noise() for name in names if name in levels}
    inherited = {name: _Noise() for name in names}
    for done, run in enumerate(runs):
        tell("comparing layers", done, len(runs))
        right, other = values_of(models[0], run, names), values_of(models[1], run, names.values())
        for name, theirs in names.items():
            inherited[name].add(right[name], other[theirs])
            if name in own:
                own[name].add(right[name], levels[name].rounded(right[name]))
    tell("comparing layers", len(runs), len(runs))
    return tuple(
        LayerErrors(
            layer.name,
            layer.node.op_type,
            _weights(network, layer, levels, form),
            own[layer.result].decibels if layer.result in own else None,
            inherited[layer.result].decibels,
            inherited[layer.result].relative,
        )
        for layer in placement.layers
    )


def _weights(
    network: Network, layer: ByteLayer, levels: Mapping[str, ByteLevels], form: WeightFormat
) -> float | None:
    if not layer.weighted:
        return None
    made, _ = weights_of(network, layer.node, levels[layer.node.input[0]], form)
    noise = _Noise()
    noise.add(network.constants[layer.node.input[1]], made.numbers())
    return noise.decibels
