"""Constants of pools. Estimates depend linearly on them, so that many sets can be tried at once.

One constant after the other, as the rest is fitted, ends where no single one helps: 77 % of 94 pools right where a
search by several constants at a time finds 89 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import nnls

from bench.fit.cases import EQUAL, MISSED, Case, named
from cenote.core.target import Target
from cenote.kernels.constants import CONSTANTS, DEFAULT, CostConstants, PoolRates, kind_of

Numbers = np.ndarray[Any, np.dtype[np.float64]]

STREAMS = (20e9, 40e9, 80e9)  # bytes per second from which the search starts
# Rates stay within this factor of those of `default`: the networks' windows are small, and a rate that hardly counts in
# them would be anything, zero too, where larger ones ask.
RANGE = 4.0
STEPS = (0.3, 0.6, 0.8, 0.9, 0.95, 1.05, 1.1, 1.25, 1.6, 3.0)
SWEEPS, JOINT = 40, 300  # at most; changes of several constants in each
ACCURACY = (
    0.02  # of the root mean square error of a layer's logarithm: of sets that choose alike the truer one wins
)


def fit_pools(cases: Sequence[Case], target: Target) -> CostConstants:
    """Return the constants of a target with those of pools fitted to cases; as they stand where no set is better."""
    begun = CONSTANTS[kind_of(target)]
    if not cases:
        return begun
    search = _Search(cases, target)
    found = min((search.run(stream) for stream in STREAMS), key=search.penalty)
    return search.constants(found) if search.penalty(found) < search.penalty(search.begun) else begun


class _Search:
    """Estimates of all candidates as a matrix: a column for the bytes, and one for each rate of an algorithm."""

    def __init__(self, cases: Sequence[Case], target: Target) -> None:
        kind = kind_of(target)
        self.start = begun = CONSTANTS[kind]
        present = {named(label).split()[0] for case in cases for label in case.seconds}
        self.rates = [(name, field) for name in begun.pools if name in present for field in PoolRates._fields]
        nothing = replace(begun, pool_stream=math.inf, pools=dict.fromkeys(begun.pools, PoolRates(0, 0, 0)))
        ones = [replace(nothing, pool_stream=1.0), *(_changed(nothing, *rate, 1.0) for rate in self.rates)]
        columns = []
        for one in ones:
            CONSTANTS[kind] = one
            columns.append([x for case in cases for x in case.estimates(target).values()])
        CONSTANTS[kind] = begun
        self.columns = np.array(columns).T
        labels = [[*case.estimates(target)] for case in cases]
        seconds = [case.seconds[label] for case, each in zip(cases, labels, strict=True) for label in each]
        around = [
            case.layer.conversions[label] for case, each in zip(cases, labels, strict=True) for label in each
        ]
        self.seconds, self.around = np.array(seconds), np.array(around)
        ends = np.cumsum([len(each) for each in labels])
        self.layers = [slice(end - len(each), end) for end, each in zip(ends, labels, strict=True)]
        rates = (getattr(begun.pools[name], field) for name, field in self.rates)
        self.begun = np.array([1 / begun.pool_stream, *rates])
        usual = [getattr(CONSTANTS[DEFAULT].pools[name], field) for name, field in self.rates]
        self.least, self.most = (np.array([1e-12, *usual]) / RANGE, np.array([1e-9, *usual]) * RANGE)

    def penalty(self, numbers: Numbers) -> float:
        """Return the sum of the layers' penalties, and the error of the estimates."""
        estimates = self.columns @ numbers
        totals, expected = self.seconds + self.around, estimates + self.around
        losses = np.array([totals[at][expected[at].argmin()] / totals[at].min() for at in self.layers])
        error = math.sqrt(np.mean(np.log(estimates / self.seconds) ** 2))
        missed = MISSED * np.count_nonzero(losses > EQUAL)
        return float(np.log(losses).sum() + missed + ACCURACY * error * len(losses))

    def run(self, stream: float) -> Numbers:
        """Return the best numbers from a start: the least squares of relative errors at this rate of bytes."""
        rest = np.maximum(self.seconds - self.columns[:, 0] / stream, self.seconds / 5)
        rates, _ = nnls(self.columns[:, 1:] / self.seconds[:, None], rest / self.seconds)
        best = np.clip([1 / stream, *rates], self.least, self.most)
        least, chance = self.penalty(best), np.random.default_rng(0)
        for _ in range(SWEEPS):
            before = least
            singly = [(index, step) for index in range(len(best)) for step in STEPS]
            for number in range(len(singly) + JOINT):
                factors = np.ones(len(best))
                if number < len(singly):
                    index, factors[index] = singly[number]
                else:
                    factors = np.exp(chance.normal(0, 0.25, len(best)) * (chance.random(len(best)) < 0.3))
                tried = np.clip(best * factors, self.least, self.most)
                if (found := self.penalty(tried)) < least:
                    best, least = tried, found
            if before - least < 1e-4:
                break
        return best

    def constants(self, numbers: Numbers) -> CostConstants:
        """Return the constants with these numbers."""
        made = replace(self.start, pool_stream=rounded(1 / numbers[0]))
        for rate, value in zip(self.rates, numbers[1:], strict=True):
            made = _changed(made, *rate, rounded(float(value)))
        return made


def rounded(value: float) -> float:
    """Return a constant as it is stored."""
    return float(f"{value:.3g}")


def _changed(constants: CostConstants, name: str, field: str, value: float) -> CostConstants:
    rates = constants.pools[name]._replace(**{field: value})
    return replace(constants, pools={**constants.pools, name: rates})
