"""Random layers planned, costed, executed and checked on all machines of the package; and how good the plans are.

    python -m bench.tiling --layers 1000           infeasible plans, wrong cells, model against simulator
    python -m bench.tiling --layers 1000 --exhaustive 100   also the gap to all sizes of tiles, where those are few
    python -m bench.tiling --layers 2000 --newer   gradients, transposed convolutions, products, norms, large windows

Prints one line per property, and the distribution of three-stage cycles over the search's, per machine. With --policies
also per setting of the policy.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import cenote
from bench.tiling_layers import newer_layer, random_layer
from cenote.tiling.layer import Tile
from cenote.tiling.problem import Problem
from cenote.tiling.search import EXHAUSTIVE
from cenote.tiling.sizes import channel_sizes

MACHINES = ("npu", "npu-small", "npu-large", "host")
SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"aligned_rest": "whole"},
    {"pad_space": "padded"},
    {"batch": "apart"},
    {"buffers": 1},
    {"enough": "waves"},
)


def data(plan: cenote.tiling.TilingPlan, seed: int) -> np.ndarray[Any, Any]:
    """Noise of the layer's input type."""
    kind = plan.layer.inputs[0]
    assert kind is not None
    noise = np.random.default_rng(seed).standard_normal(kind.shape)
    return (noise if kind.dtype.kind not in "iu" else np.abs(noise) * 20).astype(kind.dtype)


def difference(values: Any, right: Any, exact: bool) -> float:
    """Of outputs, relative to the largest (0 where the bits are the same); all of it counts where bits must be."""
    worst = 0.0
    pairs = zip(values, right, strict=True) if isinstance(values, tuple) else [(values, right)]
    for y, r in pairs:
        if y.tobytes() == r.tobytes():
            continue
        wide, true = y.astype(np.float64), r.astype(np.float64)
        gap = float(np.abs(wide - true).max()) / max(1e-30, float(np.abs(true).max()))
        worst = max(worst, float("inf") if exact else gap)
    return worst


def limit_of(plan: cenote.tiling.TilingPlan) -> float:
    """The largest difference of sums, relative to the largest. What several passes round in between may cancel."""
    narrow = {"float16": 1e-3, "bfloat16": 1e-2}
    several = isinstance(plan, cenote.tiling.ReductionPlan)
    return narrow.get(plan.layer.dtype.name, 1e-5 if several else 1e-6)


def must_be_exact(plan: cenote.tiling.TilingPlan) -> bool:
    """Maxima, and whatever is computed in integers."""
    return "max" in plan.layer.op.name or "min" in plan.layer.op.name or plan.layer.dtype.kind in "iu"


@dataclass
class Findings:
    infeasible: int = 0
    wrong: list[str] = field(default_factory=list)
    worst_sum: float = 0.0
    bytes_off: int = 0
    cycles_off: list[float] = field(default_factory=list)
    ratio: dict[str, list[float]] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    unproven: int = 0
    passes: int = 0
    gaps: list[float] = field(default_factory=list)
    executed: int = 0
    refused: list[str] = field(default_factory=list)
    exhausted: int = 0
    beaten: int = 0


def look(found: Findings, kind: str, given: dict[str, Any], machine: str, execute: bool, seed: int) -> None:
    """One layer on one machine: both strategies, executed."""
    cycles = {}
    for strategy in ("three-stage", "search"):
        start = time.process_time()
        try:
            plan = cenote.tiling.plan(kind, **given, hardware=machine, strategy=strategy)  # type: ignore[arg-type]  # words of a table
        except cenote.CapacityError as error:
            found.refused.append(f"{kind} {given} {machine}: {error}")
            return
        spent = time.process_time() - start
        pool = f"{len(given['input']) - 2}-D pool"
        family = pool if kind.endswith(("pool", "backward")) else kind
        found.seconds.setdefault(f"{strategy}, {family}", []).append(spent)
        cycles[strategy] = plan.cycles
        found.infeasible += not plan.fits
        if strategy == "search" and isinstance(plan, cenote.tiling.ReductionPlan):
            found.passes += 1
        elif strategy == "search":
            found.unproven += not plan.is_optimal
            found.gaps.append(plan.cycles / max(1, plan.lower_bound) - 1)
        if not execute or plan.tasks > 3000:
            continue
        x = data(plan, seed)
        values, counts = cenote.tiling.simulate(plan, x)
        found.executed += 1
        gap = difference(values, cenote.tiling.reference(plan, x), must_be_exact(plan))
        limit = limit_of(plan)
        found.worst_sum = max(found.worst_sum, gap if limit <= 1e-5 else 0.0)
        if gap > limit:
            found.wrong.append(f"{kind} {given} {machine} {strategy}: {gap:.3g}")
        found.bytes_off += any(counts[name] != plan.to_dict()[name] for name in ("bytes_in", "bytes_out"))
        found.cycles_off.append(abs(counts["cycles"] - plan.cycles) / counts["cycles"])
    found.ratio.setdefault(machine, []).append(cycles["three-stage"] / cycles["search"])


def exhaust(found: Findings, kind: str, given: dict[str, Any], machine: str) -> None:
    """The search against the cycles of every tile that fits, where there are at most a million of all sizes."""
    plan = cenote.tiling.plan(kind, **given, hardware=machine, strategy="search")
    if plan.layer.most_planes * math.prod(axis.out for axis in plan.layer.axes) > EXHAUSTIVE:
        return
    found.exhausted += 1
    least = min(int(plan.problem.cycles(tiles).min()) for tiles in every_tile(plan.problem))
    if least < plan.cycles:
        found.beaten += 1
        print(f"  all sizes are better: {plan.cycles / least:.4f} {kind} {given} {machine}")


def every_tile(problem: Problem) -> Iterator[list[Tile]]:
    """All tiles that fit, in lists that make equal parts."""
    layer = problem.layer
    for channels in channel_sizes(layer):
        most = layer.most_planes
        if layer.conv and channels < layer.conv.group_channels:
            most = layer.conv.group_filters  # parts of several groups' channels are not neighbours in memory
        alike: dict[Any, list[int]] = {}
        whole = [range(1, most + 1), *(range(1, axis.out + 1) for axis in layer.axes)]
        for place, sizes in enumerate(whole):
            for size in sizes:
                one = [1, 1, 1, 1]
                one[place] = size
                nc, d, h, w = one
                alike.setdefault((place, problem.parts(Tile(nc, d, h, w, channels))), []).append(size)
        axes = [[group for (at, _), group in alike.items() if at == place] for place in range(4)]
        for groups in itertools.product(*axes):
            tiles = [Tile(nc, d, h, w, channels) for nc, d, h, w in itertools.product(*groups)]
            fit = [tile for tile in tiles if problem.fits(tile)]
            for first in range(0, len(fit), 100):
                yield fit[first : first + 100]


def spread(numbers: list[float], scale: float = 1.0, unit: str = "") -> str:
    """Median, nine tenths, worst."""
    ordered = sorted(numbers)
    picks = [statistics.median(ordered), ordered[int(0.9 * (len(ordered) - 1))], ordered[-1]]
    return " / ".join(f"{pick * scale:.3g}{unit}" for pick in picks)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layers", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-execution", action="store_true", help="plan only")
    parser.add_argument("--exhaustive", type=int, default=0, help="layers that are compared with all sizes")
    parser.add_argument(
        "--newer", action="store_true", help="the kinds beside pools and convolutions, and large windows"
    )
    parser.add_argument("--policies", action="store_true", help="compare the settings of the policy")
    chosen = parser.parse_args()
    chance, found = random.Random(chosen.seed), Findings()
    make = newer_layer if chosen.newer else random_layer
    layers = [make(chance) for _ in range(chosen.layers)]
    settings: dict[str, list[float]] = {}
    for number, (kind, given) in enumerate(layers):
        for machine in MACHINES:
            look(found, kind, given, machine, not chosen.no_execution, number)
            if number < chosen.exhaustive:
                exhaust(found, kind, given, machine)
            for setting in SETTINGS if chosen.policies else ():
                three, best = (
                    cenote.tiling.plan(kind, **given, hardware=machine, strategy=strategy, **setting)  # type: ignore[arg-type]  # words of a table
                    for strategy in ("three-stage", "search")
                )
                settings.setdefault(f"{machine} {setting}", []).append(three.cycles / best.cycles)
        if number % 100 == 99:
            print(f"{number + 1} layers, {len(found.wrong)} wrong", file=sys.stderr, flush=True)
    for line in found.refused[:20]:
        print("REFUSED", line)
    for line in found.wrong[:20]:
        print("WRONG", line)
    print(
        f"layers x machines {len(layers) * len(MACHINES)}, refused {len(found.refused)}, infeasible {found.infeasible}"
    )
    print(
        f"executed {found.executed}, wrong {len(found.wrong)}, "
        f"largest difference of sums (float32, float64) {found.worst_sum:.2g}"
    )
    if found.cycles_off:
        mean = statistics.mean(found.cycles_off)
        print(
            f"model against simulator: bytes off {found.bytes_off}, cycles {mean:.3%}, {max(found.cycles_off):.3%}"
        )
    dearer = sum(ratio < 1 for ratios in found.ratio.values() for ratio in ratios)
    print(f"search: dearer than three stages {dearer}, in several passes {found.passes}")
    print(f"search: not proven optimal {found.unproven}, gap to the bound {spread(found.gaps, 100, '%')}")
    if found.exhausted:
        print(f"search against all sizes: {found.exhausted} compared, beaten {found.beaten}")
    for machine, ratios in {**found.ratio, **settings}.items():
        print(f"three stages / search, {machine}: {spread(ratios)} (median / 90 % / worst)")
    for strategy, seconds in found.seconds.items():
        print(f"time, {strategy}: {spread(seconds, 1e3, ' ms')}")


if __name__ == "__main__":
    main()
