"""Normalisation of rows by their own statistics.

    for item in begin .. end:                      emitted; an item is a row
        sum, and from it the mean                  emitted, by vectors
        sums of differences and their squares      emitted, by vectors
        for part in the row: for element:          emitted, by vectors
            (x - mean) * factor * scale + bias

A row is a run of memory, or several apart from each other (a channel of all pictures). Scale and bias go along the row
(layer normalisation), or have one entry per part of it (group and instance normalisation).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F64, Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.core.types import Array
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named
from cenote.kernels.elementwise.elementwise import vector_lanes
from cenote.kernels.elementwise.statistics import (
    Centre,
    Moments,
    StridedRuns,
    compute_type,
    goes_past_caches,
    row_moments,
    write,
)
from cenote.kernels.strided_axes import axis_names, axis_pointers, axis_words, joined_axes, position_count

NOTES: dict[str, tuple[str, ...]] = {
    "": (),
    "given": ("mean", "spread"),
    "layer": ("mean", "spread"),
    "running": ("mean", "spread", "old_mean", "old_spread"),
}


@dataclass(frozen=True)
class RowNormalization:
    """Form of normalisation of each row.

    statistic   "layer" (mean and variance), or what values are divided by: "rms", "l1", "l2", "largest"
    outside     epsilon is added to the deviation, not to the variance
    noted       "given": mean and variance of each row are read, not computed; "layer": mean and 1 / deviation are
                written too; "running": mixtures of old means and variances with those of the rows
    wide        sums are float64 from the first term on
    """

    statistic: str
    outside: bool = False
    noted: str = ""
    wide: bool = False

    def numbers(self) -> tuple[Parameter, ...]:
        names = ("epsilon", *(("momentum", "correction") if self.noted == "running" else ()))
        return tuple(Parameter(name, F64) for name in names)

    def given(self, k: Kernel, place: Value, lanes: int, mask: Value | None) -> Moments:
        """Load the statistics of a row (or of columns from a place on) from memory."""
        mean, spread = (k.pointer(name).load(place, lanes, mask).to(F64) for name in ("mean", "spread"))
        return Moments(mean, spread)

    def note(self, k: Kernel, moments: Moments, factor: Value, place: Value, mask: Value | None) -> None:
        """Write the statistics of a row (or of columns from a place on)."""
        if self.noted in ("", "given") or moments.mean is None:
            return
        mean, spread, lanes = moments.mean, factor, moments.mean.lanes
        if self.noted == "running":
            momentum = k.number("momentum")

            def mixed(name: str, value: Value) -> Value:
                old = k.pointer(name).load(place, lanes, mask).to(F64)
                return old * momentum + value * (1.0 - momentum)

            spread = mixed("old_spread", moments.spread * k.number("correction"))
            mean = mixed("old_mean", mean)
        for name, value in (("mean", mean), ("spread", spread)):
            to = k.pointer(name)
            to.store(value.to(to.element), place, mask)


@dataclass(frozen=True)
class NormalizeRows(KernelSpec):
    """Kernel of rows. `along`: scale and bias lie along the row, else one entry per part. `dtypes` are those of y, x,
    scale and bias, and of the statistics that are noted."""

    form: RowNormalization
    along: bool
    scaled: bool
    biased: bool
    dtypes: tuple[np.dtype[Any], ...]
    outer: int
    past_caches: bool = False

    @property
    def words(self) -> tuple[Parameter, ...]:
        y, x, parameter, statistic = map(Scalar.of, self.dtypes)
        pairs = [("y", y), ("x", x), ("scale", parameter), ("bias", parameter)]
        pairs += [(name, statistic) for name in NOTES[self.form.noted]]
        pointers = [Parameter(name, scalar, pointer=True, may_alias=True) for name, scalar in pairs]
        numbers = (
            "runs",
            "run",
            "x_run",
            "parts",
            "inner",
            "x_part",
            "y_part",
            "groups",
            "group_step",
            "part_step",
        )
        axes = axis_names(self.outer, ("y", "x"))
        return (*pointers, *self.form.numbers(), *numbers_named([*numbers, *axes]))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        for item in k.range(k.begin, k.end):
            y, x = axis_pointers(k, self.outer, ("y", "x"), item)
            self._row(k, y, x, item)
        if self.past_caches:
            k.fence()
        return k

    def _row(self, k: Kernel, y: Pointer, x: Pointer, item: Value) -> None:
        compute, form = compute_type(x), self.form
        lanes = vector_lanes(self.dtypes[1], k.target)
        runs = StridedRuns(x, k.number("runs"), k.number("run"), k.number("x_run"))
        given = form.noted == "given"
        made = None if given else row_moments(k, form.statistic, runs, lanes, form.wide)
        moments = made or form.given(k, item, 1, None)
        factor = moments.factor(k, form.statistic, form.outside, k.number("epsilon"))
        form.note(k, moments, factor, item, None)
        centre = Centre(moments.mean, compute) if moments.mean is not None else None
        shift = None if centre is None else (-centre.low * factor).to(compute)
        finish = _Finish(self, centre, factor.to(compute), shift)
        entry = item % k.number("groups") * k.number("group_step")
        for part in k.range(0, k.number("parts")):
            place = entry if self.along else entry + part * k.number("part_step")
            source, to = x + part * k.number("x_part"), y + part * k.number("y_part")
            finish.emit_on(k, source, to, k.pointer("scale") + place, k.pointer("bias") + place, lanes)


@dataclass(frozen=True)
class _Finish:
    """Last pass over a row: from x to y, by the statistics and the parameters."""

    spec: NormalizeRows
    centre: Centre | None
    factor: Value
    shift: Value | None

    def emit_on(self, k: Kernel, x: Pointer, y: Pointer, scale: Pointer, bias: Pointer, lanes: int) -> None:
        compute, spec = self.factor.type, self.spec
        factor, shift = self.factor, self.shift
        if not spec.along and spec.scaled:
            one = scale.load(0).to(compute)
            factor, shift = factor * one, None if shift is None else shift * one
        if not spec.along and spec.biased:
            one = bias.load(0).to(compute)
            shift = one if shift is None else shift + one

        def finished(place: Value, width: int, mask: Value | None) -> Value:
            value = x.load(place, width, mask).to(compute)
            value = self.centre.of(value) if self.centre else value
            value = value * factor if shift is None else k.fma(value, factor, shift)
            if spec.along and spec.scaled and spec.biased:
                offset = bias.load(place, width, mask).to(compute)
                value = k.fma(value, scale.load(place, width, mask).to(compute), offset)
            elif spec.along and spec.scaled:
                value = value * scale.load(place, width, mask).to(compute)
            elif spec.along and spec.biased:
                value = value + bias.load(place, width, mask).to(compute)
            return value.to(y.element)

        write(k, x, y, k.number("inner"), lanes, spec.past_caches, finished)


@dataclass(frozen=True)
class Parameters:
    """Scale and bias, or None, and their layout: `groups` rows have entries of their own, `group_step` apart, and so
    have the parts of a row (`part_step`). Without any step they lie along the row."""

    scale: View | Array | None
    bias: View | Array | None
    groups: int = 1
    group_step: int = 0
    part_step: int = 0

    @property
    def along(self) -> bool:
        return not (self.group_step or self.part_step)

    def dtype(self, default: np.dtype[Any]) -> np.dtype[Any]:
        for each in (self.scale, self.bias):
            if each is not None:
                return each.type.dtype if isinstance(each, View) else each.dtype
        return default


@dataclass(frozen=True)
class NotedStatistics:
    """Destinations of statistics, and the words that running ones need."""

    words: dict[str, Argument]
    dtype: np.dtype[Any]


def normalize_rows_call(
    form: RowNormalization,
    x: View,
    y: View,
    first: int,
    parameters: Parameters,
    epsilon: float,
    parts: int = 1,
    notes: NotedStatistics | None = None,
) -> Call:
    """Normalise rows that hold the axes from `first` on, in so many parts (a group of channels of a picture)."""
    count = math.prod(x.shape[first:])
    inner = count // parts
    outer = joined_axes(x.shape[:first], (y.strides[:first], x.strides[:first]))
    layout = {
        "runs": 1,
        "run": count,
        "x_run": 0,
        "parts": parts,
        "inner": inner,
        "x_part": inner,
        "y_part": inner,
    }
    return _call(form, x, y, outer, layout, parameters, epsilon, notes)


def normalize_channels_call(
    form: RowNormalization,
    x: View,
    y: View,
    parameters: Parameters,
    epsilon: float,
    notes: NotedStatistics | None = None,
) -> Call:
    """Normalise each channel (axis 1) over all other axes."""
    inner = math.prod(x.shape[2:])
    outer = joined_axes(x.shape[1:2], (y.strides[1:2], x.strides[1:2]))
    n = x.shape[0]
    layout = {
        "runs": n,
        "run": inner,
        "x_run": x.strides[0],
        "parts": n,
        "inner": inner,
        "x_part": x.strides[0],
        "y_part": y.strides[0],
    }
    return _call(form, x, y, outer, layout, parameters, epsilon, notes)


def _call(
    form: RowNormalization,
    x: View,
    y: View,
    outer: list[tuple[int, list[int]]],
    layout: dict[str, int],
    parameters: Parameters,
    epsilon: float,
    notes: NotedStatistics | None,
) -> Call:
    parameter = parameters.dtype(np.dtype(np.float32))
    dtypes = (y.type.dtype, x.type.dtype, parameter, notes.dtype if notes else np.dtype(np.float32))
    scaled, biased = parameters.scale is not None, parameters.bias is not None
    spec = NormalizeRows(form, parameters.along, scaled, biased, dtypes, len(outer), goes_past_caches(x, y))
    words: dict[str, Argument] = {
        "y": y,
        "x": x,
        "scale": parameters.scale,
        "bias": parameters.bias,
        "epsilon": float(epsilon),
        "groups": parameters.groups,
        "group_step": parameters.group_step,
        "part_step": parameters.part_step,
        **layout,
        **axis_words(outer, ("y", "x")),
        **(notes.words if notes else {}),
    }
    items = position_count(outer) if y.type.size else 0
    work = layout["parts"] * layout["inner"]
    return Call.named(spec, words, items, grain=maximum(1, 16384 // maximum(work, 1)))
