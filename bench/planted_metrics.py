"""The four measures of a step beside what is known by construction: `python -m bench.planted_metrics`.

Each case is a chain of equal steps whose operations, bytes and nearest cache are known, on one thread. The time of a
step is what a chain takes longer than one of half as many steps, by a clock outside and without recording. From it, the
known work and the roofs follows what each measure must be. Beside each measure of the profile stands its ratio to that;
cache hits are compared as they are.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

import cenote
from bench.report import table

TURNS, CALLS = 9, 12


@dataclass(frozen=True)
class Planted:
    """A chain of `count` steps, each of which executes `operations` and moves `nbytes` from and to the level."""

    name: str
    model: Callable[[int], bytes]
    x: np.ndarray[Any, Any]
    count: int
    operations: int
    read: int
    written: int
    level: str


def chain(node: Any, shape: tuple[int, ...], weights: dict[str, np.ndarray[Any, Any]], count: int) -> bytes:
    """A model of `count` nodes, each of which reads what the one before wrote; `node` makes one of two names."""
    names = ["x", *(f"h{n}" for n in range(count - 1)), "y"]
    nodes = [node(first, second) for first, second in pairwise(names)]
    ends = [helper.make_tensor_value_info(name, 1, shape) for name in "xy"]
    graph = helper.make_graph(
        nodes, "chain", ends[:1], ends[1:], [numpy_helper.from_array(w, n) for n, w in weights.items()]
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    ).SerializeToString()


def pool(first: str, second: str) -> Any:
    """A pool that copies."""
    return helper.make_node("MaxPool", [first], [second], kernel_shape=[1, 1])


def cases() -> list[Planted]:
    """A step bound by the second cache, by memory, by multiply-adds, and by waiting for results. A pool of windows of
    one element copies, and counts as an operation per element."""
    rng = np.random.default_rng(0)

    def product(first: str, second: str) -> Any:
        return helper.make_node("MatMul", [first, "w"], [second])

    def sums(first: str, second: str) -> Any:
        return helper.make_node("CumSum", [first, "axis"], [second])

    n = 1024
    side = int((cenote.info().machine.l2_bytes * 0.45 / 4) ** 0.5)
    near = rng.standard_normal((1, 1, side, side)).astype(np.float32)
    many = rng.standard_normal((n, n)).astype(np.float32) / 32
    maps = rng.standard_normal((1, 1, 4096, 4096)).astype(np.float32)
    ahead = rng.standard_normal((1, 16384)).astype(np.float32)
    return [
        Planted(
            "copies of 0.45 of the second cache",
            partial(chain, pool, near.shape, {}), near, 64, near.size, near.nbytes, near.nbytes, "L2",
        ),
        Planted(
            "copies of 64 MiB (memory)",
            partial(chain, pool, maps.shape, {}), maps, 4, maps.size, maps.nbytes, maps.nbytes, "memory",
        ),
        Planted(
            "products of 1024x1024 numbers (multiply-adds)",
            partial(chain, product, many.shape, {"w": many}), many, 4, 2 * n**3, 2 * many.nbytes, many.nbytes, "L3",
        ),
        Planted(
            "running sums of 16384 numbers (waiting for results)",
            partial(chain, sums, ahead.shape, {"axis": np.array(1, np.int64)}), ahead, 64, ahead.size, ahead.nbytes,
            ahead.nbytes, "L2",
        ),
    ]  # fmt: skip


def seconds_of(model: cenote.Model, x: np.ndarray[Any, Any]) -> float:
    """The median time of a call."""
    taken = []
    for _ in range(CALLS):
        begin = time.perf_counter()
        model(x)
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def measured(case: Planted) -> dict[str, str]:
    """The profile's measures of a case over those that its work, its time and the roofs give: medians of several turns,
    in each of which the clock runs before and after the profile."""
    model, half = (cenote.load(case.model(count), threads=1) for count in (case.count, case.count // 2))
    turns = []
    for _ in range(TURNS):
        before = seconds_of(model, case.x) - seconds_of(half, case.x)
        profile = model.profile(case.x, seconds=0.3)
        both = before + seconds_of(model, case.x) - seconds_of(half, case.x)
        turns.append((profile, both / 2 / (case.count - case.count // 2)))
    steps = [each for each in profile.steps if each.kind == "kernel"]
    row = {
        "case": case.name,
        "steps": f"{len(steps)} of {case.count}",
        "us a step": f"{statistics.median(step for _, step in turns) * 1e6:.1f}",
    }
    for name in ("compute", "bandwidth", "pipeline"):
        found = [
            (getattr(_middle(profile).metrics, name), _known(case, profile, step)[name])
            for profile, step in turns
        ]
        ratios = [a / b for a, b in found if a is not None and b]
        shown = statistics.median(a for a, _ in found if a is not None) if ratios else None
        row[name] = "none" if shown is None else f"{shown:.1%}, {statistics.median(ratios):.2f}"
    hits = _middle(profile).metrics.cache_hits
    row["cache hits"] = (
        f"{'none' if hits is None else f'{hits:.0%}'}, known {0 if case.level == 'memory' else 1:.0%}"
    )
    return row


def _middle(profile: Any) -> Any:
    steps = [each for each in profile.steps if each.kind == "kernel"]
    return steps[len(steps) // 2]


def _known(case: Planted, profile: Any, step: float) -> dict[str, float]:
    levels = {each.level: each for each in profile.roofs.levels(1)}
    moving = levels[case.level].seconds(case.read, case.written)
    computing = case.operations / (profile.roofs.gigaops(_middle(profile).dtype, 1) or 1.0) / 1e9
    return {
        "compute": computing / step,
        "bandwidth": moving / step,
        "pipeline": min(1.0, (computing + moving) / step),
    }


def main() -> None:
    rows = [measured(case) for case in cases()]
    print(table(list(rows[0]), [list(row.values()) for row in rows]))


if __name__ == "__main__":
    main()
