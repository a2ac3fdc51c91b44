"""Axes of which places are taken by a rule: rolled, reversed, repeated. Functions on arrays have it; ONNX has Slice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from cenote.core.computed import computed
from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, ShapeError
from cenote.core.target import Target
from cenote.core.types import PLAIN, Array, TensorType
from cenote.kernels.base import Call, View, dense_strides, present
from cenote.kernels.cost_model import pass_seconds
from cenote.kernels.layout.copy import can_copy
from cenote.kernels.layout.take import TakenAxis, TakenRow, take_call
from cenote.ops.base import Arrays, Lowering, Op, Sample, Types
from cenote.ops.values import seeded

KEPT = ("keep", 0)
_LONGEST_ROW = 1 << 14  # elements: threads share rows, and rows have a table


@dataclass(frozen=True)
class Take(Op):
    """Selection along each axis by a rule and a number: ("keep", 0), ("roll", shift), ("flip", 0), ("repeat", n)."""

    rules: tuple[tuple[str, int], ...]

    name = "take"
    selects = True
    operands = ("data",)

    def types(self, data: TensorType) -> Types:
        if len(self.rules) != data.rank:
            raise ShapeError(f"{self.name}: {len(self.rules)} rules for {data}; one per axis is needed")
        for rule, number in self.rules:
            if rule not in ("keep", "roll", "flip", "repeat") or (rule == "repeat" and number < 0):
                raise ArgumentError(f"{self.name}: rule {rule} {number} is not known")
        pairs = zip(data.shape, self.rules, strict=True)
        return (TensorType(data.dtype, tuple(n * k if rule == "repeat" else n for n, (rule, k) in pairs)),)

    def compute(self, data: Array) -> Arrays:
        self.declared(data)
        for axis, (rule, number) in enumerate(self.rules):
            data = np.take(data, places(rule, number, data.shape[axis], 1), axis=axis)
        return (data,)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        data, (output,) = present(inputs[0]), self.infer(*inputs)
        if not can_copy(data.dtype) or not output.rank or not output.size:
            return
        shape, rules = self._joined(data.shape)
        made = (*output.shape[: len(shape) - 1], prod(output.shape[len(shape) - 1 :]))
        changed = [axis for axis, rule in enumerate(rules) if rule != KEPT]
        first = min([*changed, len(shape) - 1])

        def call(*views: View) -> Call:
            x, y = (
                replace(view, type=TensorType(data.dtype, extents), strides=dense_strides(extents))
                for view, extents in zip(views, (shape, made), strict=True)
            )
            axes = []
            for axis, (rule, number) in enumerate(rules):
                step = x.strides[axis]
                table = computed(places, rule, number, shape[axis], step) if axis >= first else None
                axes.append(TakenAxis(made[axis], step, table))
            return take_call(x, y, axes, _row(rules[-1], shape[-1]), target)

        yield Lowering.of_call("tables", (PLAIN,), (PLAIN,), call, pass_seconds(2 * output.nbytes))

    def _joined(self, shape: Sequence[int]) -> tuple[tuple[int, ...], list[tuple[str, int]]]:
        """The shape and rules with the last axes that are kept joined to a rolled or kept one before: long rows."""
        extents, rules = list(shape), list(self.rules)
        while len(rules) > 1 and rules[-1] == KEPT and rules[-2][0] in ("keep", "roll"):
            if prod(extents[-2:]) > _LONGEST_ROW:
                break
            extent, (rule, number) = extents.pop(), rules[-2]
            rules[-2:] = [(rule, number * extent)]
            extents[-1] = extents[-1] * extent
        return tuple(extents), rules

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for shape in ((3, 5, 70), (2, 3, 1)):
            for rules in (
                (KEPT, KEPT, ("roll", 3)), (("roll", -1), KEPT, KEPT), (("roll", 4), ("flip", 0), ("roll", -70)),
                (KEPT, ("flip", 0), ("flip", 0)), (KEPT, ("repeat", 3), ("repeat", 2)), (KEPT, ("repeat", 0), KEPT),
            ):  # fmt: skip
                yield Sample(cls(rules), (seeded(shape),))
        yield Sample(cls((KEPT, ("roll", 3), ("roll", -2), KEPT)), (seeded((2, 5, 7, 24)),), "windows")
        yield Sample(cls((KEPT, ("roll", 1))), (seeded((4, 33), 1, np.uint8),))
        for dtype in (np.int64, np.uint8, np.float16):
            yield Sample(cls((("flip", 0),)), (seeded((141,), 1, np.dtype(dtype)),))


def _row(last: tuple[str, int], extent: int) -> TakenRow:
    """Runs of contiguous elements along the last axis."""
    rule, number = last
    if rule == "keep":
        return TakenRow(0, extent, 0)
    if rule == "roll":
        before = number % extent
        return TakenRow(before, extent - before, 0, "rolled")
    return TakenRow(0, 0, 0, "flipped" if rule == "flip" else "table")


def places(rule: str, number: int, extent: int, step: int) -> Array:
    """Offset of the input element that each output place of an axis takes, elements `step` apart: int64."""
    indices = np.arange(extent, dtype=np.int64)
    if rule == "roll":
        indices = np.roll(indices, number)
    elif rule == "flip":
        indices = indices[::-1]
    elif rule == "repeat":
        indices = np.repeat(indices, number)
    return np.ascontiguousarray(indices * step)
