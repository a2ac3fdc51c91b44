"""Tuning: which of several algorithms is fastest for a layer, measured on this machine.

The cost model compares algorithms by operations and bytes. Where several come within a factor of two of each other, a
`Tuner` runs each on synthetic data, alone on one thread, and keeps the seconds in the cache under the layer's
operator and types, the bytes of the model's weights, the target and the generator's version. From then on every process
decides the same: the smallest sum of the measured seconds and the conversions around the layer. The number of threads
takes no part, so that a model's bits do not depend on it.

A trial finds the caches as its model leaves them: its input is fresh, and as many bytes as the model has of other
weights were read since its last run. With its weights in the caches, Winograd looks up to 1.55 times faster.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from cenote.codegen import cache, jit
from cenote.compiler.compile import Plan, assemble
from cenote.compiler.decide import Decide, PricedLowering
from cenote.compiler.schedule import Schedule
from cenote.core.errors import CenoteError
from cenote.core.options import TUNINGS
from cenote.core.sizes import is_size, plain
from cenote.core.target import Target, processor
from cenote.core.text import shown_seconds
from cenote.core.types import Array, Declared, Layout, TensorType
from cenote.graph.graph import Graph, Node
from cenote.ops.base import Lowering
from cenote.runtime.memory import aligned_bytes

OFF, _, FULL = TUNINGS

Types = Sequence[TensorType | None]
Measure = Callable[[Node, Types, Sequence[Lowering], int], list[float]]

# Seconds by the cost model below which a measurement is too coarse and there is nothing to gain.
_WORTH_MEASURING = 20e-6
_MOST_BYTES = 256 << 20  # inputs and weights of a layer that is measured
# Time relative to the cost model's choice that another lowering must reach, so that noise decides nothing.
_GAIN = 0.97
_CLOSE = 2.0  # times the cost model's choice: it errs less than that
_MOST = 3  # candidates, the first among them
_ROUNDS = 7
_LONGEST = 0.3  # seconds for all rounds of a layer, but one round at least
# Bytes of constants in plans beside a model's own: Winograd's transformed weights of 3x3 take up to four times as much.
_PACKED = 4


def measure(node: Node, types: Types, options: Sequence[Lowering], weights: int) -> list[float]:
    """Return the seconds of each option in a model with so many bytes of weights: the least of several runs, in turns
    so that a disturbance affects all of them."""
    runs = [Trial(node, types, option) for option in options]
    for run in runs:
        run.program()  # first touch
    others = np.ones(bytes_between(weights, jit.host_target()) // 8, np.int64)
    best = [math.inf] * len(runs)
    begin = time.perf_counter()
    for _ in range(_ROUNDS):
        others.sum()
        for index, run in enumerate(runs):
            best[index] = min(best[index], run.seconds())
        if time.perf_counter() - begin > _LONGEST:
            break
    return best


def bytes_between(weights: int, target: Target) -> int:
    """Return the bytes of other weights that a model reads between two runs of a layer: a power of two, so that models
    of about one size share what was measured, and no more than pushes all out of the last cache."""
    most = target.l3_bytes + target.l3_bytes // 2
    return min(1 << (_PACKED * weights).bit_length(), most)


class Trial:
    """One step's program, over memory of its own."""

    def __init__(self, node: Node, types: Types, option: Lowering, threads: int = 1) -> None:
        graph = _alone(node, types, option)
        plan = assemble(lambda: Schedule(graph, (option,)), threads)
        self.inputs = [_content(plan, declared) for declared in graph.inputs]
        self.program = partial(plan.program.run, self.inputs)

    def seconds(self) -> float:
        """Return the seconds of one run with fresh inputs."""
        for x in self.inputs:
            np.bitwise_or(x, 0, out=x)
        start = time.perf_counter()
        self.program()
        return time.perf_counter() - start


def _alone(node: Node, types: Types, option: Lowering) -> Graph:
    """Return the node as a graph. Its inputs have the option's layouts; its outputs are values of the arena."""
    inputs, constants, known, layouts = {}, {}, {}, {}
    for name, type, layout in zip(node.inputs, types, option.inputs, strict=True):
        if not name or type is None:
            continue
        known[name] = TensorType(type.dtype, type.shape)
        if type.value is not None and (layout is None or not layout.is_blocked):
            constants[name] = type.value
            continue
        inputs[name] = Declared(name, type.dtype, type.shape)
        layouts[name] = Layout(layout.lanes if layout is not None else 0)
    for name, type, layout in zip(node.outputs, node.op.infer(*types), option.outputs, strict=False):
        if name:
            known[name], layouts[name] = TensorType(type.dtype, type.shape), Layout(layout.lanes)
    return Graph(tuple(inputs.values()), (), (node,), constants, known, layouts, "trial")


def _content(plan: Plan, declared: Declared) -> Array:
    """Return memory for an input in its layout: small numbers, for zeros and denormals take other times."""
    nbytes = plan.memory.buffer_of[declared.name].nbytes
    block = aligned_bytes(-(-nbytes // 64) * 64, "an input of a layer that is measured")
    if declared.dtype == np.float32:
        block.view(np.float32)[:] = np.random.default_rng(0).random(block.nbytes // 4, np.float32) - 0.5
    return block


class Tuner(Decide):
    """Decision by measured seconds; pass it to `schedule` as `decide`.

    "cached" uses the measurements in the cache; "full" adds missing ones. Without any, the cost model decides.
    """

    def __init__(self, mode: str, measure: Measure = measure) -> None:
        self.mode, self.measure = mode, measure
        self.known: dict[str, dict[str, float]] = {}  # measurements of this process, where there is no cache

    def __call__(
        self, node: Node, types: Types, rivals: Sequence[PricedLowering], weights: int
    ) -> tuple[int, str] | None:
        """Return the index of the best rival and the measured times, or None."""
        rivals = [rival for rival in rivals[:_MOST] if rival.seconds <= _CLOSE * rivals[0].seconds]
        if self.mode == OFF or len(rivals) < 2 or plain(rivals[0].option.seconds) < _WORTH_MEASURING:
            return None
        labels = [label(rival.option) for rival in rivals]
        record = self._record(node, types, rivals, labels, weights)
        measured = [index for index, text in enumerate(labels) if text in record]
        if 0 not in measured or len(measured) < 2:
            return None  # nothing to compare the cost model's choice with
        totals = {index: record[labels[index]] + rivals[index].conversions for index in measured}
        best = min(measured, key=totals.__getitem__)
        best = best if totals[best] < _GAIN * totals[0] else 0
        others = ", ".join(
            f"{shown_seconds(record[labels[i]])} {rivals[i].option.name}" for i in measured if i != best
        )
        return best, f"measured: {shown_seconds(record[labels[best]])} against {others}"

    def _record(
        self,
        node: Node,
        types: Types,
        rivals: Sequence[PricedLowering],
        labels: Sequence[str],
        weights: int,
    ) -> dict[str, float]:
        """Return the seconds by label."""
        name = record_name(node, types, weights)
        record = self.known.get(name)
        if record is None:
            record = self.known[name] = _parsed(cache.read_text(name))
        if self.mode != FULL or all(text in record for text in labels):
            return record
        if any(is_size(extent) for type in types if type is not None for extent in type.shape):
            return record  # a trial needs sizes
        if sum(type.nbytes for type in types if type is not None) > _MOST_BYTES:
            return record
        try:
            seconds = self.measure(node, types, [rival.option for rival in rivals], weights)
        except CenoteError:
            return record  # no memory for it, for example: the cost model decides
        record.update(zip(labels, seconds, strict=True))
        cache.write_text(name, json.dumps(record))
        cache.write_text(cache.TUNED, f"{time.time_ns()} {name}")  # makes plans chosen by older figures stale
        return record


def label(option: Lowering) -> str:
    """Return a lowering's name with the layouts of its operands, and of a user's algorithm the digest of its source."""
    version = "" if option.extension is None else f" {option.extension.reference.digest}"
    read = ",".join("-" if layout is None else str(Layout(layout.lanes)) for layout in option.inputs)
    return (
        f"{option.name} {read} -> {','.join(str(Layout(layout.lanes)) for layout in option.outputs)}{version}"
    )


def record_name(node: Node, types: Types, weights: int) -> str:
    """Return the name in the cache of a layer's measurements: operator, its inputs' types, bytes of other weights in
    the model, processor and generator."""
    inputs = ",".join("-" if type is None else f"{type}{'=' * (type.value is not None)}" for type in types)
    target = jit.host_target()
    between = bytes_between(weights, target)
    return f"tune-{cache.key(f'{node.op!r} {inputs} {between} {target!r} {processor()}', target)}.json"


def _parsed(text: str | None) -> dict[str, float]:
    try:
        record = json.loads(text or "{}")
        return {str(name): float(seconds) for name, seconds in record.items()}
    except (ValueError, TypeError, AttributeError):
        return {}
