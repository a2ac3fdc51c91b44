"""Constants by which the first choice is most often the fastest: one at a time, up or down, as long as it pays.

Estimates are those of the lowerings themselves: whatever a formula in `ops` or `kernels` says is what is fitted.
A constant moves only where that makes up for half of a layer whose first choice is not the fastest, so that those that
decide nothing stay as they are. Those of pools are fitted together (`pools`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from bench.fit.cases import MISSED, Case, named, outcome
from bench.fit.pools import fit_pools, rounded
from cenote.core.target import Target
from cenote.kernels.constants import CONSTANTS, CostConstants, kind_of

STEPS = (0.5, 0.7, 0.85, 0.95, 1.05, 1.18, 1.4)
ZERO_STEPS = (1e-8, 5e-8, 0.3)  # of constants that are 0: seconds, or a part
SWEEPS = 2
# What constants that are shares, parts or rates may be at most and at least.
LIMITS = {
    "winograd_exposed": (0.0, 1.0),
    "winograd_alone": (1.0, 1.25),
    "direct_regions": (0.5, 1.2),
    "grouped_share": (0.1, 1.0),
    **{f"direct_shares[{index}]": (least, 1.1) for index, least in enumerate((0.9, 0.85, 0.75, 0.5, 0.2))},
}


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

    def pools(self) -> list[Case]:
        """The cases of pools."""
        found = (case for name in CONSTANTS[self.kind].pools for case in self.concerned[name])
        return list({id(case): case for case in found}.values())

    def run(self) -> CostConstants:
        """Fit: pools, whose estimates are linear, together, then sweeps over all others, until one changes nothing."""
        CONSTANTS[self.kind] = fit_pools(self.pools(), self.target)
        for _ in range(SWEEPS):
            before = CONSTANTS[self.kind]
            for name in names(before):
                self._improve(name)
            if CONSTANTS[self.kind] == before:
                break
        return CONSTANTS[self.kind]

    def _improve(self, name: str) -> None:
        family = name.split("_")[0]
        if not self.concerned[family]:
            return
        best, least = CONSTANTS[self.kind], self.penalty(family)
        start, steps = best, STEPS if number(best, name) else ZERO_STEPS
        low, high = LIMITS.get(name, (0.0, math.inf))
        for step in steps:
            value = min(max(number(start, name) * step or step, low), high)
            CONSTANTS[self.kind] = changed(start, name, rounded(value))
            found = self.penalty(family)
            if found < least - MISSED / 2:
                best, least = CONSTANTS[self.kind], found
        CONSTANTS[self.kind] = best


def family_of(name: str) -> str:
    """The first word of the constants that a candidate's estimate depends on, or the pooling algorithm's name."""
    word = named(name).split()[0]
    if word.startswith(("winograd", "direct")):
        return word.split("_")[0]
    return "row" if word in ("rows", "panels") else word


def names(constants: CostConstants) -> Iterator[str]:
    """The names of all constants but those of pools; those of several numbers with an index."""
    for name, value in vars(constants).items():
        if name.startswith("pool"):
            continue
        if isinstance(value, tuple):
            yield from (f"{name}[{index}]" for index, _ in enumerate(value))
        else:
            yield name


def number(constants: CostConstants, name: str) -> float:
    """A constant by its name."""
    if name.endswith("]"):
        word, _, index = name[:-1].partition("[")
        return float(getattr(constants, word)[int(index)])
    return float(getattr(constants, name))


def changed(constants: CostConstants, name: str, value: float) -> CostConstants:
    """The constants with another value of one."""
    field: dict[str, Any] = {name: value}
    if name.endswith("]"):
        word, _, index = name[:-1].partition("[")
        values = list(getattr(constants, word))
        values[int(index)] = value
        field = {word: tuple(values)}
    return replace(constants, **field)
