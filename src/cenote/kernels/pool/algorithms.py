"""The pooling algorithms: one file each, in the order in which they are tried when estimates are equal.

A new algorithm is a file with `plan(problem, target) -> Candidate | None` and a line here:
docs/add_a_pooling_algorithm.md adds one. A plan says None where the algorithm does not serve the problem, else its
estimated seconds and what builds the call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cenote.core.target import Target
from cenote.kernels.pool import (
    adaptive,
    adaptive_small,
    argmax_generic,
    argmax_separable,
    generic,
    separable,
    small_map,
    small_window,
    van_herk,
    window_3x3x3,
)
from cenote.kernels.pool.problem import Candidate, PoolProblem

Plan = Callable[[PoolProblem, Target], Candidate | None]


@dataclass(frozen=True)
class Algorithm:
    """One way to pool, by the name of its file, which inspect, tuning and plans show. `wins`: when it is the fastest;
    `cost`: work per vector of outputs, for windows of r rows by k columns."""

    name: str
    plan: Plan
    wins: str
    cost: str


WINDOWS = (
    Algorithm(
        "small_window", small_window.plan,
        "3 columns (in rows of at most 32 outputs 2 to 5), up to 5 rows, plain, one plane: all in registers",
        "r k / 4 loads and as many steps; no scratch memory",
    ),
    Algorithm(
        "window_3x3x3", window_3x3x3.plan,
        "3x3x3 in volumes, one apart, plain, vectors of at most 32 bytes: what planes share is kept",
        "3 loads and 5 steps for 27 elements",
    ),
    Algorithm(
        "small_map", small_map.plan,
        "3 and more columns in rows of at most 20 elements (40 for 5 and more): loops over planes, not rows",
        "2 sqrt(r) + 2 sqrt(k) loads and steps",
    ),
    Algorithm(
        "van_herk", van_herk.plan,
        "8 and more rows that overlap: the cost does not grow with them",
        "3 steps down, log2(k) across",
    ),
    Algorithm(
        "separable", separable.plan,
        "up to 27 rows (of all planes): rows first, from memory, then columns; and windows that do not overlap",
        "r loads and steps down, k (log2(k) from 6 on) across",
    ),
    Algorithm(
        "generic", generic.plan,
        "the rest: many rows that are dilated, far apart or of many planes",
        "r loads and steps down in a scratch row, k (log2(k) from 6 on) across",
    ),
)  # fmt: skip

ARGMAX = (
    Algorithm(
        "argmax_separable", argmax_separable.plan,
        "undilated windows in one plane: the best of each row, then of those",
        "r + k comparisons (log2(k) from 7 on)",
    ),
    Algorithm(
        "argmax_generic", argmax_generic.plan,
        "dilated windows, and those of volumes",
        "r k comparisons",
    ),
)  # fmt: skip

RANGES = (
    Algorithm(
        "adaptive_small", adaptive_small.plan,
        "ranges of at most 96 rows and 96 columns in all, plain, one plane: in registers, columns in lanes",
        "each element once down, transposed, once across",
    ),
    Algorithm("adaptive", adaptive.plan, "all other ranges", "each element once down, once across"),
)  # fmt: skip


# Windows that slide, windows whose maxima are asked for with their indices, and ranges of the input.
PROBLEMS = {"windows": WINDOWS, "windows, with indices": ARGMAX, "ranges": RANGES}


def algorithms_for(problem: PoolProblem) -> tuple[Algorithm, ...]:
    """Those that may serve such a problem."""
    if problem.bounds is not None:
        return RANGES
    return WINDOWS if problem.index is None else ARGMAX


def candidates(problem: PoolProblem, target: Target) -> dict[str, Candidate]:
    """What serves the problem, by name, the quickest by estimate first. Empty when some window has no input at all, or
    when there is nothing to compute: that is no work for a kernel."""
    if not problem.planes * problem.geometry.out[1] * problem.geometry.out[2] * problem.memory.step:
        return {}
    plans = {each.name: each.plan(problem, target) for each in algorithms_for(problem)}
    found = {name: candidate for name, candidate in plans.items() if candidate is not None}
    return dict(sorted(found.items(), key=lambda item: item[1].seconds))


def planned(name: str, problem: PoolProblem, target: Target) -> Candidate:
    """The named algorithm's candidate. In memory that it does not serve (rows with a halo between them), the best that
    does."""
    for each in algorithms_for(problem):
        if each.name == name:
            candidate = each.plan(problem, target)
            if candidate is not None:
                return candidate
    return next(iter(candidates(problem, target).values()))
