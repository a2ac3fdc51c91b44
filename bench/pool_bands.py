"""Pooling kernels whose bands of rows are those of the tile planner (half of the level 2 cache) beside bands of a fixed
number of bytes, in turns on one machine.

    python -m bench.pool_bands [--threads 2] [--seconds 2] [part of a case's name …]

Only cases with a band that differs are measured; of each the least times, and planner over fixed.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import Any

from bench.cases import POOL_CASES, PoolCase, average_case, max_case
from bench.pool_choices import operator
from cenote.codegen import jit
from cenote.compiler.tune import Trial
from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.core.types import TensorType
from cenote.graph.graph import Node
from cenote.kernels.pool import argmax_generic, argmax_separable, generic, separable, small_window
from cenote.kernels.pool.problem import PoolProblem, default_band
from cenote.ops.base import Lowering

FIXED_BYTES = 256 << 10
MODULES: tuple[Any, ...] = (argmax_generic, argmax_separable, generic, separable, small_window)
MORE = (
    max_case((1, 16, 512, 512), 3, 1, 1),
    max_case((1, 16, 512, 512), 3, 2, 1),
    max_case((1, 16, 512, 512), 3, 2, 1, indices=True),
    max_case((1, 4, 512, 512), 7, 2, 3),
    max_case((1, 4, 1024, 1024), 2, 2),
    average_case((1, 4, 1024, 1024), 5, 2),
    max_case((1, 1, 2048, 2048), 3, 1, 1),
    max_case((1, 8, 400, 400), 5, 1, 2),
    max_case((1, 16, 16, 56, 56), 3, 1, 1),
)
Band = Callable[[PoolProblem, Target], int]


def fixed_band(problem: PoolProblem, target: Target) -> int:
    """Rows of so many bytes of input."""
    geometry = problem.geometry
    rows = maximum(1, FIXED_BYTES // maximum(1, geometry.size[2] * geometry.stride[1] * 4))
    pieces = -(-geometry.out[1] // rows)
    return -(-geometry.out[1] // pieces)


def with_band(case: PoolCase, band: Band, blocked: bool) -> tuple[Lowering | None, int]:
    """The case's fastest algorithm in plain memory, or in blocks, and its band."""
    asked: dict[str, int] = {}

    def noted(name: str) -> Band:
        def function(problem: PoolProblem, target: Target) -> int:
            rows = int(band(problem, target))
            if problem.memory.step == 1 if not blocked else problem.fixed_step:
                asked[name] = rows
            return rows

        return function

    kept = [module.default_band for module in MODULES]
    for module in MODULES:
        module.default_band = noted(module.__name__.rsplit(".", 1)[-1])
    try:
        x = TensorType.of("float32", case.shape)
        options = operator(case).lowerings((x,), jit.host_target())
        chosen = [o for o in options if o.inputs[0] is not None and o.inputs[0].is_blocked == blocked]
        best = min(chosen, key=lambda option: option.seconds, default=None)
        return best, asked.get(best.name, 0) if best else 0
    finally:
        for module, function in zip(MODULES, kept, strict=True):
            module.default_band = function


def compare(case: PoolCase, blocked: bool, threads: int, seconds: float) -> float | None:
    """Planner's time over that of fixed bands; None where bands are equal."""
    chosen = [with_band(case, band, blocked) for band in (fixed_band, default_band)]
    (fixed, asked), (planned, other) = chosen
    if fixed is None or planned is None or asked == other:
        return None
    op, x = operator(case), TensorType.of("float32", case.shape)
    node = Node(op, ("x",), tuple(f"y{index}" for index, _ in enumerate(op.infer(x))))
    # Two programs of each, as where a program's memory lies decides up to half of its time.
    runs = [(kind, Trial(node, (x,), (fixed, planned)[kind], threads).program) for kind in (0, 1, 1, 0)]
    for _, run in runs:
        run()
    best, end = [math.inf, math.inf], time.perf_counter() + seconds
    while time.perf_counter() < end:
        for kind, run in runs:
            start = time.perf_counter()
            run()
            best[kind] = min(best[kind], time.perf_counter() - start)
    layout = "blocked" if blocked else "plain"
    print(
        f"{case.name:44} {layout:8} {fixed.name:18} {asked:4} {other:4} rows {best[0] * 1e3:8.3f} "
        f"{best[1] * 1e3:8.3f} ms  {best[1] / best[0]:.3f}", flush=True,
    )  # fmt: skip
    return best[1] / best[0]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    ratios, equal = [], 0
    for case in (*POOL_CASES, *MORE):
        if options.names and not any(name in case.name for name in options.names):
            continue
        for blocked in (False, True):
            ratio = compare(case, blocked, options.threads, options.seconds)
            ratios += [ratio] if ratio is not None else []
            equal += ratio is None
    mean = math.exp(sum(map(math.log, ratios)) / max(1, len(ratios)))
    print(f"{equal} with equal bands, {len(ratios)} with others: planner over fixed {mean:.3f}, at worst "
          f"{max(ratios, default=1.0):.3f}")  # fmt: skip


if __name__ == "__main__":
    main()
