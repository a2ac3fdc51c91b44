"""Taps of a resized axis: the input places that each output place reads, and their weights.

The formulas are those of ONNX's Resize. Places are decided in float32, operation by operation as ONNX Runtime does it
or, `by_step`, as PyTorch and TensorFlow do: place 3 of a map that shrinks by 0.3 is at 10 there, and at 9.99… in
float64, where the nearest neighbour is another. (ONNX's reference implementation computes in float64; its data has no
such places.) Filters of float64 have places of float64, as in PyTorch. What follows from a place is float64.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cenote.core import limits
from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size
from cenote.core.text import split_words
from cenote.core.types import Array

COORDINATES = split_words(
    "half_pixel half_pixel_symmetric pytorch_half_pixel align_corners asymmetric tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)
MOST_REPEATS = 8  # of a place: more are not worth vectors
# Distance from a half that ONNX Runtime 1.31 takes for a half: (4 + 0.5) * 20 / 6 - 0.5 misses it in float32.
_TIE = 1e-6
_REAL: dict[str, Any] = {"float32": np.float32, "float64": np.float64}
_EXACT = 1 << 18  # places of an axis up to which float32 keeps repeated ones apart from ties
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "floor_or_ceil")


class ResizedAxis(NamedTuple):
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
class ResizeTaps:
    """`index` (inside the input) and `weight`: (output places, taps); `outside`: places to extrapolate."""

    index: Array
    weight: Array
    outside: Array


class Rule(NamedTuple):
    """Attributes of Resize that decide taps. `cubic`: the coefficient (None: linear); `kind`: dtype of coordinates."""

    mode: str
    coordinates: str
    nearest_mode: str
    cubic: float | None
    antialias: bool
    exclude_outside: bool
    by_step: bool
    kind: str


def coordinates(axis: ResizedAxis, rule: Rule) -> Array:
    """Coordinate of each output place in the input, in input elements."""
    mode, real = rule.coordinates, _REAL[rule.kind]
    places: Array = np.arange(len(limits.positions("resize", axis.size)), dtype=real)
    if mode == "align_corners":
        return _between_corners(places, axis, rule.by_step)
    if mode == "tf_crop_and_resize":
        return _within_region(places, axis)
    if mode == "pytorch_half_pixel" and axis.size == 1:
        return np.zeros(1, real)
    shifted: Array = places if mode == "asymmetric" else places + real(0.5)
    if mode == "half_pixel_symmetric":
        extent = real(axis.extent)
        offset = extent / 2 * (1 - real(axis.size) / (real(axis.scale) * extent))
        wide = shifted.astype(np.float64) / float(real(axis.scale)) - 0.5 + float(offset)
        return np.asarray(wide, real)
    inside: Array = shifted * real(_step(axis)) if rule.by_step else shifted / real(axis.scale)
    return inside if mode in ("asymmetric", "tf_half_pixel_for_nn") else np.asarray(inside - real(0.5))


def _between_corners(places: Array, axis: ResizedAxis, by_step: bool) -> Array:
    """Coordinates whose first and last are those of the first and last elements."""
    real, last = _REAL[places.dtype.name], axis.extent - 1
    if by_step:
        return np.asarray(places * real(last / (axis.size - 1) if axis.size > 1 else 0.0))
    resized = real(axis.scale * axis.extent)  # not rounded to a whole number: what ONNX's own data expects
    return np.zeros_like(places) if resized == 1 else np.asarray(places * real(last) / (resized - 1))


def _within_region(places: Array, axis: ResizedAxis) -> Array:
    """Coordinates whose first and last are the ends of the region of interest."""
    real, last = _REAL[places.dtype.name], axis.extent - 1
    if axis.size == 1:
        return np.asarray([0.5 * (axis.start + axis.end) * last], real)
    start, end = real(axis.start), real(axis.end)
    return np.asarray(start * real(last) + places * (end - start) * real(last) / real(axis.size - 1))


def _step(axis: ResizedAxis) -> float:
    """Input elements from place to place: by the extents, if the scale is theirs."""
    return axis.extent / axis.size if axis.scale == axis.size / axis.extent else 1.0 / axis.scale


def nearest_taps(axis: ResizedAxis, rule: Rule) -> ResizeTaps:
    """Taps of nearest neighbours, one per place."""
    if not axis.size:
        return _no_taps()
    x = coordinates(axis, rule).astype(np.float32).astype(np.float64)  # float64 ends so in PyTorch too
    index = np.clip(_rounded(x, rule, axis.scale < 1.0), 0, max(axis.extent - 1, 0)).astype(np.int64)[:, None]
    return ResizeTaps(index, np.ones(index.shape), _outside(x, axis, rule.coordinates))


def _rounded(x: Array, rule: Rule, shrinks: bool) -> Array:
    """Places as whole numbers; "floor_or_ceil", Resize's of opset 10, rounds up on axes that shrink."""
    if rule.nearest_mode == "ceil" or (rule.nearest_mode == "floor_or_ceil" and shrinks):
        return np.ceil(x)
    if rule.nearest_mode.startswith("floor"):
        return np.floor(x)
    whole = np.floor(x)
    part = x - whole
    tie = np.abs(part - 0.5) <= (0.0 if rule.by_step else _TIE)
    return whole + np.where(tie, rule.nearest_mode == "round_prefer_ceil", part > 0.5)


def filter_taps(axis: ResizedAxis, rule: Rule) -> ResizeTaps:
    """Linear taps or Keys' cubic ones.

    With `antialias` the filter is stretched by 1 / scale where the axis shrinks. Places beyond the input take
    the edge's element, or with `exclude_outside` weigh nothing and the others are scaled to sum 1.
    """
    if not axis.size:
        return _no_taps()
    cubic, exclude_outside = rule.cubic, rule.exclude_outside
    shrink = min(axis.scale, 1.0) if rule.antialias else 1.0
    support = 1.0 if cubic is None else 2.0
    limits.positions("resize: taps of an axis", math.ceil(axis.size * 2 * support / shrink))
    x = coordinates(axis, rule).astype(np.float64)
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
    return ResizeTaps(np.clip(index, 0, max(axis.extent - 1, 0)), weight, _outside(x, axis, rule.coordinates))


def _no_taps() -> ResizeTaps:
    """Taps of an axis of extent 0."""
    return ResizeTaps(np.zeros((0, 1), np.int64), np.zeros((0, 1)), np.zeros(0, np.bool_))


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


def taps_of(axis: tuple[float, ...], given: tuple[Any, ...]) -> ResizeTaps:
    """The taps along an axis: the fields of ResizedAxis, and those of the rule; an unchanged axis reads what it is."""
    extent, size, *others = axis
    resized, rule = ResizedAxis(int(extent), int(size), *others), Rule(*given)
    if resized.is_identity:
        places = np.arange(resized.size)
        return ResizeTaps(places[:, None], np.ones((resized.size, 1)), np.zeros(resized.size, np.bool_))
    return nearest_taps(resized, rule) if rule.mode == "nearest" else filter_taps(resized, rule)


def tap_count(axis: tuple[float, ...], rule: tuple[Any, ...]) -> int:
    """Taps of each place; 0 where some place is to be extrapolated."""
    found = taps_of(axis, rule)
    return 0 if found.outside.any() else found.index.shape[1]


def tap_offsets(axis: tuple[float, ...], rule: tuple[Any, ...], step: int) -> Array:
    """Offsets of the taps of each place, elements `step` apart: int64, (places, taps)."""
    return np.ascontiguousarray(taps_of(axis, rule).index * step, np.int64)


def tap_weights(axis: tuple[float, ...], rule: tuple[Any, ...], dtype: str) -> Array:
    """Weights of the taps of each place: (places, taps)."""
    return np.ascontiguousarray(taps_of(axis, rule).weight, np.dtype(dtype))


def column_indices(axis: tuple[float, ...], rule: tuple[Any, ...], lanes: int) -> Array:
    """(taps, places): which element each tap reads; places that fill the last vector read the first."""
    return _filled(taps_of(axis, rule).index, lanes, "int32")


def column_weights(axis: tuple[float, ...], rule: tuple[Any, ...], lanes: int, dtype: str) -> Array:
    """Weights of the taps of columns, filled up to whole vectors."""
    return _filled(taps_of(axis, rule).weight, lanes, dtype)


def _filled(table: Array, lanes: int, dtype: str) -> Array:
    """(taps, places) of (places, taps), with zeros up to a multiple of the lanes."""
    places, taps = table.shape
    filled = np.zeros((taps, -(-places // lanes) * lanes), np.dtype(dtype))
    filled[:, :places] = table.T
    return filled


def repeats_of(axis: ResizedAxis, rule: Rule) -> int:
    """Number of copies of each input element along an axis of nearest neighbours, if equal and in order; else 0."""
    if is_size(axis.scale) or not 2 <= axis.scale <= MOST_REPEATS or axis.scale != int(axis.scale):
        return 0
    if axis.size != axis.extent * int(axis.scale) or axis.size > _EXACT:
        return 0
    centred = rule.coordinates in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel")
    down = rule.nearest_mode.startswith("floor") and rule.coordinates in (
        "asymmetric",
        "tf_half_pixel_for_nn",
    )
    return int(axis.scale) if down or (centred and rule.nearest_mode.startswith("round")) else 0


def scaled_size(extent: int, span: float, scale: float) -> float:
    """In float32, as ONNX's shape inference does it: 10 * 0.7 is 7 there, and 6.99… in float64. An empty axis stays
    empty whatever the scale; what is past float32's range is infinite."""
    if not extent:
        return 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.floor(np.float32(extent) * np.float32(span) * np.float32(scale)))
