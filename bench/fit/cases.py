"""Measured layers, and what the cost model makes of them.

The measure of a set of constants is the sum of each layer's penalty: the logarithm of the first choice's time over the
fastest's, and a twentieth where that is more than 3 %.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bench.fit.layers import Layer, Operand
from cenote.compiler.tune import label
from cenote.core.sizes import plain
from cenote.core.target import Target
from cenote.core.types import TensorType

EQUAL = 1.03  # times the fastest
MISSED = 0.05


@dataclass(frozen=True)
class Case:
    """A measured layer: the seconds of its candidates by label."""

    layer: Layer
    types: tuple[TensorType | None, ...]
    seconds: Mapping[str, float]

    @staticmethod
    def of(layer: Layer, seconds: Mapping[str, float]) -> Case:
        return Case(
            layer, tuple(None if each is None else _shape_of(each) for each in layer.operands), seconds
        )

    def estimates(self, target: Target) -> dict[str, float]:
        """Seconds by the cost model, without conversions, in the order of the measured ones."""
        options = {label(each): plain(each.seconds) for each in self.layer.candidates(target, self.types)}
        return {name: options[name] for name in self.seconds if name in options}


def _shape_of(operand: Operand) -> TensorType:
    """The operand's type; a constant's content is one number again and again, for estimates do not depend on it."""
    if not operand.constant or operand.values is not None:
        return operand.type()
    return TensorType.known(np.broadcast_to(operand.dtype.type(0.01), operand.shape))


@dataclass(frozen=True)
class Outcome:
    """A layer's first choice: its algorithm, the fastest one, and how many times as long the first took."""

    kind: str
    first: str
    fastest: str
    loss: float

    @property
    def penalty(self) -> float:
        return math.log(self.loss) + MISSED * (self.loss > EQUAL)


def outcome(case: Case, target: Target) -> Outcome:
    """What the cost model as it stands makes of a case: conversions count for both, by estimate."""
    estimates, around = case.estimates(target), case.layer.conversions
    first = min(estimates, key=lambda name: estimates[name] + around[name])
    totals = {name: case.seconds[name] + around[name] for name in estimates}
    fastest = min(totals, key=totals.__getitem__)
    loss = totals[first] / totals[fastest]
    return Outcome(case.layer.kind, named(first), named(fastest), loss)


def named(text: str) -> str:
    """The algorithm of a label, and whether it works on plain memory."""
    return text.split()[0] + (" on plain memory" if text.endswith(" plain") else "")
