"""Constants by which the first choice is most often the fastest: one at a time, up or down, as long as it pays.

Estimates are those of the lowerings themselves: whatever a formula in `ops` or `kernels` says is what is fitted.
The measure of a set of constants is the sum of each layer's penalty: the logarithm of the first choice's time over the
fastest's, and a twentieth where that is more than 3 %. A constant moves only where that makes up for half of one such
layer, so that those that decide nothing stay as they are.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import nnls

from bench.fit.layers import Layer, Operand
from cenote.compiler.tune import label
from cenote.core.sizes import plain
from cenote.core.target import Target
from cenote.core.types import TensorType
from cenote.kernels.constants import CONSTANTS, CostConstants, PoolRates, kind_of

EQUAL = 1.03  # times the fastest
MISSED = 0.05
STEPS = (0.7, 0.85, 0.95, 1.05, 1.18, 1.4)
ZERO_STEPS = (1e-8, 5e-8, 0.3)  # of constants that are 0: seconds, or a part
SWEEPS = 2
# What constants that are shares, parts or rates may be at most and at least.
LIMITS = {
    "winograd_exposed": (0.0, 1.0),
    "winograd_alone": (1.0, 1.25),
    "direct_regions": (0.5, 1.2),
    **{f"direct_shares[{index}]": (least, 1.1) for index, least in enumerate((0.9, 0.85, 0.75, 0.5, 0.2))},
}
LEAST_STEP = 1e-12  # seconds of a step of a pool: more than ten a cycle


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


class Fit:
    """CostConstants of a target while they are fitted to cases."""

    def __init__(self, cases: Sequence[Case], target: Target) -> None:
        self.target, self.kind = target, kind_of(target)
        self.concerned: dict[str, list[Case]] = defaultdict(list)
        for case in cases:
            for family in {family_of(name) for name in case.seconds}:
                self.concerned[family].append(case)

    def penalty(self, family: str) -> float:
        """The sum of the penalties of the cases that a family of constants concerns."""
        return sum(outcome(case, self.target).penalty for case in self.concerned[family])

    def run(self) -> CostConstants:
        """Fit: sweeps over all constants, until one changes nothing."""
        self._begin_pools()
        for _ in range(SWEEPS):
            before = CONSTANTS[self.kind]
            for name in names(before):
                self._improve(name)
            if CONSTANTS[self.kind] == before:
                break
        return CONSTANTS[self.kind]

    def _begin_pools(self) -> None:
        """Set the constants of pools, on which estimates depend linearly, to the least squares of relative errors, if
        choices are better by them."""
        begun = CONSTANTS[self.kind]
        pools = [each for each in names(begun) if each.startswith("pools.")]
        concerned = [each for each in pools if self.concerned[each.split(".")[1]]]
        found = (case for name in concerned for case in self.concerned[name.split(".")[1]])
        cases = list({id(case): case for case in found}.values())
        if not cases:
            return
        before = sum(outcome(case, self.target).penalty for case in cases)
        nothing = replace(begun, pool_stream=math.inf, pools=dict.fromkeys(begun.pools, PoolRates(0, 0, 0)))
        ones = (replace(nothing, pool_stream=1.0), *(changed(nothing, name, 1.0) for name in concerned))
        columns = [self._relative(cases, one) for one in ones]
        best, _ = nnls(np.array(columns).T, np.ones(len(columns[0])))
        fitted = replace(begun, pool_stream=_rounded(1 / best[0]))
        for name, value in zip(concerned, best[1:], strict=True):
            fitted = changed(fitted, name, _rounded(max(value, LEAST_STEP)))
        CONSTANTS[self.kind] = fitted
        if sum(outcome(case, self.target).penalty for case in cases) > before:
            CONSTANTS[self.kind] = begun

    def _relative(self, cases: Sequence[Case], constants: CostConstants) -> list[float]:
        """Estimates by constants over measured seconds."""
        CONSTANTS[self.kind] = constants
        return [x / case.seconds[name] for case in cases for name, x in case.estimates(self.target).items()]

    def _improve(self, name: str) -> None:
        family = name.split(".")[1] if "." in name else name.split("_")[0]
        if not self.concerned[family]:
            return
        best, least = CONSTANTS[self.kind], self.penalty(family)
        start, steps = best, STEPS if number(best, name) else ZERO_STEPS
        low, high = LIMITS.get(name, (0.0, math.inf))
        for step in steps:
            value = min(max(number(start, name) * step or step, low), high)
            CONSTANTS[self.kind] = changed(start, name, _rounded(value))
            found = self.penalty(family)
            if found < least - MISSED / 2:
                best, least = CONSTANTS[self.kind], found
        CONSTANTS[self.kind] = best


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


def family_of(name: str) -> str:
    """The first word of the constants that a candidate's estimate depends on, or the pooling algorithm's name."""
    word = named(name).split()[0]
    if word.startswith(("winograd", "direct")):
        return word.split("_")[0]
    return "row" if word in ("rows", "panels") else word


def names(constants: CostConstants) -> Iterator[str]:
    """The names of all constants; those of several numbers with an index, pools' with algorithm and field."""
    for name, value in vars(constants).items():
        if name == "pools":
            yield from (f"pools.{each}.{field}" for each in value for field in PoolRates._fields)
        elif isinstance(value, tuple):
            yield from (f"{name}[{index}]" for index, _ in enumerate(value))
        else:
            yield name


def number(constants: CostConstants, name: str) -> float:
    """A constant by its name."""
    if name.startswith("pools."):
        _, algorithm, field = name.split(".")
        return float(getattr(constants.pools[algorithm], field))
    if name.endswith("]"):
        word, _, index = name[:-1].partition("[")
        return float(getattr(constants, word)[int(index)])
    return float(getattr(constants, name))


def changed(constants: CostConstants, name: str, value: float) -> CostConstants:
    """The constants with another value of one."""
    field: dict[str, Any] = {name: value}
    if name.startswith("pools."):
        _, algorithm, rate = name.split(".")
        rates = constants.pools[algorithm]._replace(**{rate: value})
        field = {"pools": {**constants.pools, algorithm: rates}}
    elif name.endswith("]"):
        word, _, index = name[:-1].partition("[")
        values = list(getattr(constants, word))
        values[int(index)] = value
        field = {word: tuple(values)}
    return replace(constants, **field)
