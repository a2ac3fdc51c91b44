"""Resize (and the older Upsample): nearest, linear and cubic interpolation along any axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cenote.core.computed import number_of
from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, ShapeError, UnsupportedError
from cenote.core.sizes import is_size, whole
from cenote.core.target import Target
from cenote.core.types import FLOAT64, Array, TensorType, is_float
from cenote.kernels.base import present
from cenote.kernels.layout.copy import can_copy
from cenote.ops.base import Arrays, Box, Imported, Lowering, Op, Rewired, Sample, Types, ValueNeeded
from cenote.ops.checks import normalize_axis, read, require, require_number
from cenote.ops.movement.resize_lowerings import resize_lowerings
from cenote.ops.movement.resize_taps import (
    COORDINATES,
    NEAREST,
    ResizedAxis,
    ResizeTaps,
    Rule,
    repeats_of,
    scaled_size,
    taps_of,
)
from cenote.ops.values import narrow, seeded, wide

MODES = ("nearest", "linear", "cubic")
POLICIES = ("stretch", "not_larger", "not_smaller")


@dataclass(frozen=True)
class Resize(Op):
    """Each output place reads `mode`'s taps around the place in the input that `coordinates` maps it to.

    `scales` or `sizes` is given, for `axes` (None: all), as a field or (where a model computes it) as input 2 or 3.
    With both fields the result has those sizes, and its places are by those scales (PyTorch's scale_factor). Input 1
    is the region of interest of "tf_crop_and_resize", starts followed by ends. Integer types are computed in float64
    and cut toward zero. Places are decided in float32 (filters of float64: in float64), by ONNX Runtime's formulas, or
    `by_step`: as products with the step from place to place, as PyTorch and TensorFlow do it. By ONNX Runtime's rules
    a tensor that keeps all its sizes stays as it is, whatever the scales.
    """

    name = "resize"
    unmoved = True
    operands = ("x", "roi?", "scales?", "sizes?")
    from_onnx = {
        "Resize": lambda node: _decode_resize(node),
        "Upsample": lambda node: _decode_upsample(node),
        "cenote.Resize": lambda node: _decode_resize(replace(node, opset=19), by_step=True),
    }
    mode: str = "nearest"
    coordinates: str = "half_pixel"
    nearest_mode: str = "round_prefer_floor"
    scales: tuple[float, ...] | None = None
    sizes: tuple[int, ...] | None = None
    axes: tuple[int, ...] | None = None
    roi: tuple[float, ...] | None = None
    policy: str = "stretch"
    cubic: float = -0.75
    antialias: bool = False
    exclude_outside: bool = False
    extrapolation: float = 0.0
    by_step: bool = False

    def types(self, x: TensorType, *others: TensorType | None) -> Types:
        for what, value, allowed in (
            ("mode", self.mode, MODES),
            ("coordinate_transformation_mode", self.coordinates, COORDINATES),
            ("nearest_mode", self.nearest_mode, NEAREST),
            ("keep_aspect_ratio_policy", self.policy, POLICIES),
        ):
            if value not in allowed:
                raise UnsupportedError(f"{self.name}: {what} '{value}' is not known ({', '.join(allowed)})")
        if self.mode != "nearest":
            require_number(self.name, x.dtype)
        return (TensorType(x.dtype, tuple(axis.size for axis in self.resolved((x, *others)))),)

    def resolved(self, inputs: Sequence[TensorType | None]) -> tuple[ResizedAxis, ...]:
        """Resizing of each axis of x, from scales or sizes. Raises ArgumentError if neither is there."""
        x = require(self.name, inputs[0], "X")
        scales = _content(inputs, 2) if self.scales is None and self.sizes is None else self.scales
        sizes = _content(inputs, 3) if self.scales is None and self.sizes is None else self.sizes
        if not (scales or sizes) and x.rank:
            raise ArgumentError(f"{self.name}: needs scales or sizes, got {scales} and {sizes}")
        chosen = [
            normalize_axis(self.name, a, x.rank) for a in (range(x.rank) if self.axes is None else self.axes)
        ]
        given = scales or sizes or ()
        if scales and sizes and len(scales) != len(sizes):
            raise ShapeError(f"{self.name}: {len(scales)} scales do not go with {len(sizes)} sizes")
        if len(given) != len(chosen) or len(set(chosen)) != len(chosen):
            raise ShapeError(f"{self.name}: {len(given)} scales or sizes do not fit axes {chosen} of {x}")
        roi = self._region_of_interest(inputs, len(chosen))
        extents = [x.shape[axis] for axis in chosen]
        if scales and sizes:
            places = zip(extents, sizes, scales, strict=True)
            made = [ResizedAxis(extent, whole(math.floor(size)), scale) for extent, size, scale in places]
        elif scales:
            made = [self._scaled(*each) for each in zip(extents, scales, roi, strict=True)]
        else:
            made = self._sized(extents, [whole(math.floor(size)) for size in sizes or ()], roi)
        resolved = [ResizedAxis(extent, extent, 1.0) for extent in x.shape]
        for axis, one in zip(chosen, made, strict=True):
            if one.size and not one.extent:
                raise ShapeError(f"{self.name}: axis {axis} of {x} is empty and cannot become {one.size}")
            resolved[axis] = one
        regions = self.coordinates == "tf_crop_and_resize"
        if not (self.by_step or regions) and all(one.extent == one.size for one in made):
            return tuple(ResizedAxis(extent, extent, 1.0) for extent in x.shape)
        return tuple(resolved)

    def forwarded(self, inputs: Sequence[TensorType | None]) -> int | None:
        by_rule = not self.by_step and self.coordinates != "tf_crop_and_resize"
        return super().forwarded(inputs) if by_rule else None

    def _region_of_interest(
        self, inputs: Sequence[TensorType | None], count: int
    ) -> list[tuple[float, float]]:
        if self.coordinates != "tf_crop_and_resize":
            return [(0.0, 1.0)] * count
        roi = self.roi if self.roi is not None else _content(inputs, 1)
        if roi is None or len(roi) != 2 * count:
            raise ShapeError(f"{self.name}: tf_crop_and_resize needs a roi of {2 * count} numbers, got {roi}")
        return [(float(a), float(b)) for a, b in zip(roi[:count], roi[count:], strict=True)]

    def _scaled(self, extent: int, scale: float, roi: tuple[float, float]) -> ResizedAxis:
        if not (scale > 0 and (is_size(scale) or np.isfinite(scale))):
            raise ArgumentError(f"{self.name}: scale {scale} is not a positive number")
        if is_size(extent) and (factor := scale * (roi[1] - roi[0])).is_integer():
            return ResizedAxis(extent, extent * int(factor), float(scale), *roi)
        size = number_of(scaled_size, extent, roi[1] - roi[0], scale)
        if not 0 <= size < 2.0**31:
            raise ArgumentError(f"{self.name}: scale {scale} of {extent} elements gives {size}")
        return ResizedAxis(extent, whole(math.floor(size)), scale * 1.0, *roi)

    def _sized(
        self, extents: list[int], sizes: list[int], roi: list[tuple[float, float]]
    ) -> list[ResizedAxis]:
        if any(size < 0 for size in sizes):
            raise ArgumentError(f"{self.name}: sizes {sizes} must not be negative")
        ratios = [size / extent if extent else 1.0 for size, extent in zip(sizes, extents, strict=True)]
        if self.policy != "stretch":
            ratio = (min if self.policy == "not_larger" else max)(ratios)
            ratios = [ratio] * len(ratios)
            sizes = [whole(math.floor(ratio * extent + 0.5)) for extent in extents]
        each = zip(extents, sizes, ratios, roi, strict=True)
        return [ResizedAxis(extent, size, ratio, *region) for extent, size, ratio, region in each]

    def _rule(self, dtype: np.dtype[Any]) -> Rule:
        """Rule of this operator for elements of a dtype."""
        wide = dtype == FLOAT64 and (self.by_step or self.mode != "nearest")
        cubic, kind = self.cubic if self.mode == "cubic" else None, "float64" if wide else "float32"
        flags = (self.antialias, self.exclude_outside, self.by_step)
        return Rule(self.mode, self.coordinates, self.nearest_mode, cubic, *flags, kind)

    def repeats(self, inputs: Sequence[TensorType | None]) -> tuple[int, ...]:
        """Number of copies of each element along each axis; 0 where the result is not of copies in order."""
        rule = self._rule(require(self.name, inputs[0], "X").dtype)
        return tuple(
            1 if axis.is_identity else repeats_of(axis, rule) if self.mode == "nearest" else 0
            for axis in self.resolved(inputs)
        )

    def taps(self, axis: ResizedAxis, dtype: np.dtype[Any]) -> ResizeTaps:
        """Indices and weights along one axis."""
        return taps_of(axis, self._rule(dtype))

    def compute(self, x: Array, *others: Array | None) -> Arrays:
        (output,) = self.declared(x, *others)
        types = [None if a is None else TensorType.known(a) for a in (x, *others)]
        y = x if self.mode == "nearest" else x.astype(np.float64)
        outside = np.zeros((1,) * y.ndim, np.bool_)
        for number, axis in enumerate(self.resolved(types)):
            if axis.is_identity:
                continue
            taps = self.taps(axis, x.dtype)
            y = self._along(y, number, taps)
            shape = [1] * y.ndim
            shape[number] = axis.size
            outside = outside | taps.outside.reshape(shape)
        if outside.any():
            y = np.where(outside, np.asarray(self.extrapolation).astype(wide(y).dtype), y)
        if not is_float(output.dtype) and self.mode != "nearest":
            limits = np.iinfo(output.dtype)
            y = np.clip(np.trunc(y), float(limits.min), float(limits.max))
        return (narrow(y, output.dtype),)

    def _along(self, x: Array, axis: int, taps: ResizeTaps) -> Array:
        if self.mode == "nearest":
            return np.take(x, taps.index[:, 0], axis=axis)
        column = [1] * x.ndim
        column[axis] = len(taps.index)
        total = np.zeros((), np.float64)
        for tap in range(taps.index.shape[1]):
            total = total + np.take(x, taps.index[:, tap], axis=axis) * taps.weight[:, tap].reshape(column)
        return total

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x, (output,) = present(inputs[0]), self.infer(*inputs)
        native = can_copy(x.dtype) if self.mode == "nearest" else is_float(x.dtype)
        if x.rank and output.size and native:
            axes, rest = self.resolved(inputs), (None,) * (len(inputs) - 1)
            yield from resize_lowerings(x, output, axes, self._rule(x.dtype), rest, target)

    def operations(self, outputs: Types, *inputs: TensorType | None) -> int:
        return {"nearest": 0, "linear": 4, "cubic": 16}[self.mode] * outputs[0].size

    def region(self, box: Box, inputs: Sequence[TensorType | None]) -> tuple[Box | None, ...]:
        ranges = []
        for axis, (begin, end) in zip(self.resolved(inputs), box.ranges, strict=True):
            if axis.is_identity:
                ranges.append((begin, end))
            elif begin >= end:
                ranges.append((0, 0))
            else:
                index = self.taps(axis, present(inputs[0]).dtype).index[begin:end]
                ranges.append((int(index.min()), int(index.max()) + 1))
        others = tuple(None if other is None else Box.whole(other.shape) for other in inputs[1:])
        return (Box(tuple(ranges)), *others)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        x = seeded((2, 11, 5, 7))
        for mode in MODES:
            for coordinates in COORDINATES:
                roi = (0.0, 0.0, 0.1, -0.2, 1.0, 1.0, 0.8, 1.3) if coordinates == COORDINATES[-1] else None
                yield Sample(cls(mode, coordinates, sizes=(2, 11, 8, 3), roi=roi, extrapolation=7.5), (x,))
        for nearest in NEAREST:
            yield Sample(cls("nearest", "asymmetric", nearest, scales=(1.0, 1.0, 2.0, 3.0)), (x,))
            yield Sample(cls("nearest", "half_pixel", nearest, scales=(1.0, 1.0, 0.6, 1.5)), (x,))
            for factor in (2.0, 3.0, 4.0):
                rule = ("half_pixel", nearest) if nearest.startswith("round") else ("asymmetric", nearest)
                yield Sample(cls("nearest", *rule, scales=(1.0, factor, factor)), (seeded((2, 3, 37)),))
        for mode in ("linear", "cubic"):
            yield Sample(cls(mode, scales=(1.0, 1.0, 2.0, 2.0)), (x,))
            yield Sample(cls(mode, sizes=(3, 2), axes=(2, 3), antialias=True), (x,))
            yield Sample(cls(mode, sizes=(9, 4), axes=(-2, -1), exclude_outside=True), (x,))
            yield Sample(cls(mode, "align_corners", scales=(1.0, 1.0, 0.6, 1.7)), (x,))
            yield Sample(cls(mode, scales=(1.0, 1.5)), (seeded((3, 9)),))
        yield Sample(cls("linear", scales=(1.0, 1.0, 1.5)), (seeded((2, 9, 8)),))
        yield Sample(cls("linear", scales=(1.7, 0.6), sizes=(8, 4), axes=(2, 3)), (x,), "scales and sizes")
        yield Sample(cls("linear", sizes=(1, 9, 4, 3, 7)), (seeded((1, 9, 3, 2, 5)),))
        for mode in MODES:
            yield Sample(cls(mode, sizes=(2, 5, 7, 3, 9)), (seeded((2, 5, 3, 4, 5)),))
        yield Sample(cls("linear", sizes=(2, 5, 7, 3, 9)), (seeded((2, 5, 3, 4, 5), 1, np.float16),))
        yield Sample(cls("nearest", scales=(1.0, 2.0, 1.0, 2.0)), (seeded((3, 2, 4, 5)),))
        yield Sample(cls("linear", sizes=(1, 3, 4, 4)), (seeded((1, 3, 1, 1)),))
        yield Sample(cls("nearest", sizes=(6, 6), axes=(2, 3), policy="not_larger"), (x,))
        yield Sample(cls("nearest", sizes=(0, 9, 4)), (seeded((0, 9, 2)),))
        scales = np.array([1, 1, 2, 2], np.float32)
        yield Sample(cls("nearest", "asymmetric", "floor"), (x, None, scales), "resize inputs")
        for wider in (seeded((3, 150), 1, np.float64), seeded((3, 150), 1, np.uint8)):
            yield Sample(cls("nearest", scales=(2.0, 2.0)), (wider,), "repeated")
        for dtype in (np.float64, np.float16, np.uint8, np.int32, "bfloat16"):
            for mode in ("nearest", "linear"):
                yield Sample(cls(mode, sizes=(1, 9, 5, 7)), (seeded((1, 9, 3, 4), 1, np.dtype(dtype)),))


def _content(inputs: Sequence[TensorType | None], index: int) -> tuple[float, ...] | None:
    given = inputs[index] if index < len(inputs) else None
    if given is None or not given.size:
        return None
    if given.value is None:
        raise ValueNeeded(index)
    return tuple(given.value.reshape(-1).tolist())


def _decode_resize(node: Imported, by_step: bool = False) -> Op | Rewired:
    if node.opset < 11:
        return _decode_upsample(node)
    op = read(
        Resize, node, "mode", "nearest_mode", "axes", "antialias", "exclude_outside", cubic="cubic_coeff_a",
        coordinates="coordinate_transformation_mode", policy="keep_aspect_ratio_policy",
        extrapolation="extrapolation_value",
    )  # fmt: skip
    return _folded(node, replace(op, by_step=by_step), {"roi": 1, "scales": 2, "sizes": 3})


def _decode_upsample(node: Imported) -> Op | Rewired:
    """Upsample 7 and 9, Resize 10: corners of the grids coincide, nearest rounds down, where an axis shrinks up."""
    node.expect("mode", *(("scales",) if node.opset < 9 else ()))
    mode = str(node.get("mode", "nearest"))
    op = Resize("linear" if mode in ("linear", "bilinear") else mode, "asymmetric", "floor_or_ceil")
    if node.opset >= 9:
        return _folded(node, op, {"scales": 1})
    if node.get("scales") is None:
        raise ArgumentError("Upsample-7: attribute scales is missing")
    return replace(op, scales=tuple(float(scale) for scale in node.get("scales")))


def _folded(node: Imported, op: Resize, places: dict[str, int]) -> Op | Rewired:
    """The operator with constant inputs as fields; with others, its inputs are x, roi, scales, sizes."""
    changes: dict[str, Any] = {}
    rest: dict[str, int] = {}
    for field, index in places.items():
        if index >= len(node.present) or not node.present[index]:
            continue
        value = node.constant(index)
        if value is None:
            rest[field] = index
        elif value.size:
            changes[field] = tuple(map(int if field == "sizes" else float, value.reshape(-1).tolist()))
    if op.coordinates != "tf_crop_and_resize":
        changes.pop("roi", None)
        rest.pop("roi", None)
    if changes.keys() >= {"scales", "sizes"}:
        raise ArgumentError(
            f"{op.name}: needs either scales or sizes, got {changes['scales']} and {changes['sizes']}"
        )
    # A model may give an empty `scales` beside `sizes`: only what is not empty counts.
    if (rest.keys() & {"scales", "sizes"} and not changes.keys() & {"scales", "sizes"}) or "roi" in rest:
        inputs = tuple(
            places[f] if f in places and node.present[places[f] : places[f] + 1] == (True,) else None
            for f in ("roi", "scales", "sizes")
        )
        return Rewired(op, (0, *inputs))
    return Rewired(replace(op, **changes), (0,))
