"""What adding up in float64, or keeping what additions lose, costs: ratios to the default, one thread, in turns."""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import cenote.functional as F
from bench.report import table

MODES = (None, "float64", "compensated")


def cases() -> dict[str, Callable[..., Any]]:
    """Calls that take `accumulate`."""
    rng = np.random.default_rng(0)
    maps, small = (rng.standard_normal(s).astype(np.float32) for s in ((1, 64, 112, 112), (1, 512, 14, 14)))
    row = rng.standard_normal(1 << 22).astype(np.float32)
    rows = row.reshape(2048, -1)
    wide = row[: 1 << 20].astype(np.float64)
    return {
        "avg_pool2d 2x2 s2, 64x112x112": lambda **how: F.avg_pool2d(maps, 2, **how),
        "avg_pool2d 3x3 s1 p1, 64x112x112": lambda **how: F.avg_pool2d(maps, 3, 1, 1, **how),
        "avg_pool2d 31x31 s1 p15, 64x112x112": lambda **how: F.avg_pool2d(maps, 31, 1, 15, **how),
        "avg_pool2d 3x3 s1 p1, 512x14x14": lambda **how: F.avg_pool2d(small, 3, 1, 1, **how),
        "lp_pool2d 2x2 s2, 64x112x112": lambda **how: F.lp_pool2d(maps, 2, 2, **how),
        "adaptive_avg_pool2d to 7x7, 64x112x112": lambda **how: F.adaptive_avg_pool2d(maps, 7, **how),
        "global_avg_pool, 64x112x112": lambda **how: F.global_avg_pool(maps, **how),
        "sum of 4 million": lambda **how: F.sum(row, **how),
        "mean of 2048 rows of 2048": lambda **how: F.mean(rows, 1, **how),
        "mean of 2048 columns of 2048": lambda **how: F.mean(rows, 0, **how),
        "norm of 2048 rows of 2048": lambda **how: F.norm(rows, 2, 1, **how),
        "var of 512 rows of 2048": lambda **how: F.var(rows[:512], 1, **how),
        "sum of 1 million float64": lambda **how: F.sum(wide, **how),
    }


def seconds(call: Callable[..., Any], runs: int) -> list[float]:
    """The least time of each mode, in turns."""
    least = [float("inf")] * len(MODES)
    for _ in range(runs):
        for index, mode in enumerate(MODES):
            start = time.perf_counter()
            call(accumulate=mode, threads=1)
            least[index] = min(least[index], time.perf_counter() - start)
    return least


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.accumulate", description=__doc__)
    parser.add_argument("--runs", type=int, default=60)
    chosen = parser.parse_args()
    rows = []
    for name, call in cases().items():
        first, *others = seconds(call, chosen.runs)
        rows.append([name, f"{first * 1e6:.0f} us", *(f"{other / first:.2f}" for other in others)])
    print(table(["", "default", *(str(mode) for mode in MODES[1:])], rows))


if __name__ == "__main__":
    main()
