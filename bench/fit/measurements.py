"""Times of the candidates of layers: appended to a file of JSON lines, so that a run can stop and go on."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from bench.fit.layers import Layer
from cenote.codegen import jit
from cenote.compiler.tune import Trial, bytes_between, label
from cenote.core.errors import CenoteError

ROUNDS = 8
LONGEST = 0.25  # seconds for the rounds of a layer, but four rounds at least


@dataclass(frozen=True)
class Measured:
    """The least seconds of each candidate of a layer, by label."""

    key: str
    target: str
    seconds: dict[str, float]


def read(path: Path, target: str) -> dict[str, dict[str, float]]:
    """Seconds by the layer's key and the candidate's label; the least where a layer was measured twice."""
    found: dict[str, dict[str, float]] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        one = Measured(**json.loads(line))
        if one.target == target:
            kept = found.setdefault(one.key, one.seconds)
            for name, seconds in one.seconds.items():
                kept[name] = min(seconds, kept.get(name, math.inf))
    return found


def trials(layer: Layer) -> dict[str, Trial]:
    """A trial of each candidate, by label; its kernels are compiled."""
    types = layer.types()
    return {
        label(option): Trial(layer.node(), types, option)
        for option in layer.candidates(jit.host_target(), types)
    }


def least(layer: Layer, runs: Sequence[Trial]) -> list[float]:
    """The least seconds of each, turn about. Each is the first of a round in its turn: behind the reading of other
    memory the first run takes up to 40 us more than it would in a model, where steps run before it."""
    others = np.ones(bytes_between(layer.model_bytes, jit.host_target()) // 8, np.int64)
    best, begin = [math.inf] * len(runs), time.perf_counter()
    for round_ in range(ROUNDS):
        others.sum()
        for place in range(len(runs)):
            index = (round_ + place) % len(runs)
            best[index] = min(best[index], runs[index].seconds())
        if round_ >= 3 and time.perf_counter() - begin > LONGEST:
            break
    return best


def measure(layers: Iterable[Layer], path: Path, seconds: float, times: int = 1) -> int:
    """Measure layers that the file has fewer than so many `times`, as long as so many seconds last; return how many
    are missing."""
    target, begin, missing = jit.host_target().name, time.perf_counter(), 0
    counts: dict[str, int] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        one = json.loads(line)
        if one["target"] == target:
            counts[one["key"]] = counts.get(one["key"], 0) + 1
    with path.open("a") as lines:
        for layer in layers:
            if counts.get(layer.key, 0) >= times:
                continue
            if time.perf_counter() - begin > seconds:
                missing += 1
                continue
            try:
                runs = trials(layer)
            except CenoteError as error:
                print(f"{layer.model}, {layer.kind}: {error}")
                runs = {}
            times_of = dict(zip(runs, least(layer, [*runs.values()]), strict=True))
            lines.write(json.dumps(asdict(Measured(layer.key, target, times_of))) + "\n")
            lines.flush()
    return missing
