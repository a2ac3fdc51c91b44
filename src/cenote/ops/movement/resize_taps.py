"""Which input places an output place of a resized axis reads, and with what weights.

The formulas are those of ONNX's Resize. Everything is float64: deciding nearest neighbours in float32, as
some runtimes do, moves ties.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cenote.core import limits
from cenote.core.sizes import is_size
from cenote.core.types import Array

COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)
MOST_REPEATS = 8  # of a place: more are not worth vectors
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@dataclass(frozen=True)
class ResizedAxis:
    """One axis: extents, scale (output over input, not always their ratio), region of interest."""

    extent: int
    size: int
    scale: float
    start: float = 0.0
    end: float = 1.0

    @property
    def is_identity(self) -> bool:
        return self.extent == self.size and self.scale == 1.0 and (self.start, self.end) == (0.0, 1.0)


@dataclass(frozen=True)
class Taps:
    """`index` (inside the input) and `weight`: (output places, taps); `outside`: places to extrapolate."""

    index: Array
    weight: Array
    outside: Array


def coordinates(axis: ResizedAxis, mode: str) -> Array:
    """Where each output place lies in the input, in input elements."""
    places = np.arange(len(limits.positions("resize", axis.size)), dtype=np.float64)
    length, resized = axis.extent, axis.scale * axis.extent  # not rounded: what ONNX's own data expects
    if mode == "align_corners":
        return places * 0.0 if resized == 1 else places * (length - 1) / (resized - 1)
    if mode == "asymmetric":
        return places / axis.scale
    if mode == "tf_crop_and_resize":
        if axis.size == 1:
            return 0.5 * (axis.start + axis.end) * (length - 1) + places
        step = (axis.end - axis.start) * (length - 1) / (axis.size - 1)
        return axis.start * (length - 1) + places * step
    if mode == "pytorch_half_pixel" and axis.size == 1:
        return places * 0.0
    offset = 0.0
    if mode == "half_pixel_symmetric":
        offset = 0.5 * length * (1.0 - axis.size / resized)
    return offset + (places + 0.5) / axis.scale - 0.5


def nearest_taps(axis: ResizedAxis, mode: str, nearest_mode: str) -> Taps:
    """One tap each."""
    if not axis.size:
        return _no_taps()
    x = coordinates(axis, mode)
    rounded = {
        "round_prefer_floor": lambda: np.ceil(x - 0.5),
        "round_prefer_ceil": lambda: np.floor(x + 0.5),
        "floor": lambda: np.floor(x),
        "ceil": lambda: np.ceil(x),
    }[nearest_mode]()
    index = np.clip(rounded, 0, max(axis.extent - 1, 0)).astype(np.int64)[:, None]
    return Taps(index, np.ones(index.shape), _outside(x, axis, mode))


def filter_taps(
    axis: ResizedAxis, mode: str, cubic: float | None, antialias: bool, exclude_outside: bool
) -> Taps:
    """Linear taps (`cubic` None) or Keys' cubic ones with that coefficient.

    With `antialias` the filter is stretched by 1 / scale where the axis shrinks. Places beyond the input take
    the edge's element, or with `exclude_outside` weigh nothing and the others are scaled to sum 1.
    """
    if not axis.size:
        return _no_taps()
    shrink = min(axis.scale, 1.0) if antialias else 1.0
    support = 1.0 if cubic is None else 2.0
    limits.positions("resize: taps of an axis", math.ceil(axis.size * 2 * support / shrink))
    x = coordinates(axis, mode)
    first = math.floor(-support / shrink) + 1
    offsets = np.arange(first, 2 - first)
    base = np.floor(x)
    index = base[:, None].astype(np.int64) + offsets
    distance = np.abs((offsets - (x - base)[:, None]) * shrink)
    weight = np.clip(1.0 - distance, 0.0, 1.0) if cubic is None else _keys(distance, cubic)
    if exclude_outside:
        weight = np.where((index >= 0) & (index < axis.extent), weight, 0.0)
    if exclude_outside or shrink < 1.0:
        total = weight.sum(axis=1, keepdims=True)
        weight = weight / np.where(total == 0.0, 1.0, total)
    return Taps(np.clip(index, 0, max(axis.extent - 1, 0)), weight, _outside(x, axis, mode))


def _no_taps() -> Taps:
    """Of an axis without places."""
    return Taps(np.zeros((0, 1), np.int64), np.zeros((0, 1)), np.zeros(0, np.bool_))


def _keys(distance: Array, a: float) -> Array:
    """R. Keys, Cubic convolution interpolation for digital image processing (1981), equation 4."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))


def _outside(x: Array, axis: ResizedAxis, mode: str) -> Array:
    """Places that tf_crop_and_resize fills with its extrapolation value."""
    if mode != "tf_crop_and_resize":
        return np.zeros(x.shape, np.bool_)
    return np.asarray((x < 0) | (x > axis.extent - 1))


# ---- axes whose extents are not known yet ---------------------------------------------------------------------------

Rule = tuple[str, str, str, float | None, bool, bool]
"""Mode, coordinates, nearest mode, cubic coefficient (None: linear), antialias, exclude_outside."""


def taps_of(axis: tuple[float, ...], rule: Rule) -> Taps:
    """The taps along an axis: the fields of ResizedAxis, and the rule; an unchanged axis reads what it is."""
    extent, size, *others = axis
    resized = ResizedAxis(int(extent), int(size), *others)
    mode, where, nearest_mode, cubic, antialias, exclude_outside = rule
    if resized.is_identity:
        places = np.arange(resized.size)
        return Taps(places[:, None], np.ones((resized.size, 1)), np.zeros(resized.size, np.bool_))
    if mode == "nearest":
        return nearest_taps(resized, where, nearest_mode)
    return filter_taps(resized, where, cubic, antialias, exclude_outside)


def tap_count(axis: tuple[float, ...], rule: Rule) -> int:
    """Taps of each place; 0 where some place is to be extrapolated."""
    found = taps_of(axis, rule)
    return 0 if found.outside.any() else found.index.shape[1]


def tap_offsets(axis: tuple[float, ...], rule: Rule, step: int) -> Array:
    """Where the taps of each place lie, elements `step` apart."""
    return np.ascontiguousarray(taps_of(axis, rule).index * step, np.int64)


def tap_weights(axis: tuple[float, ...], rule: Rule, dtype: str) -> Array:
    """What the taps of each place weigh."""
    return np.ascontiguousarray(taps_of(axis, rule).weight, np.dtype(dtype))


def repeats_of(axis: ResizedAxis, rule: Rule) -> int:
    """How often each place of an axis of nearest neighbours is there, if all are as often and in order; else 0."""
    _, where, nearest_mode, *_ = rule
    if is_size(axis.scale) or not 2 <= axis.scale <= MOST_REPEATS or axis.scale != int(axis.scale):
        return 0
    if axis.size != axis.extent * int(axis.scale):
        return 0
    centred = where in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel")
    ordered = (
        nearest_mode.startswith("round") if centred else (where, nearest_mode) == ("asymmetric", "floor")
    )
    return int(axis.scale) if ordered else 0


def scaled_size(extent: int, span: float, scale: float) -> float:
    """In float32, as ONNX's shape inference does it: 10 * 0.7 is 7 there, and 6.99… in float64."""
    return float(np.floor(np.float32(extent) * np.float32(span) * np.float32(scale)))
