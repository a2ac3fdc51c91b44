"""GridSample and AffineGrid: an image read at given places, and the places of an affine map."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ShapeError, UnsupportedError
from cenote.core.sizes import is_size
from cenote.core.target import Target
from cenote.core.types import FLOAT32, PLAIN, Array, TensorType, is_float
from cenote.kernels.base import Call, View, dense_strides, present
from cenote.kernels.cost_model import pass_seconds
from cenote.kernels.elementwise.elementwise import Operand, elementwise_call
from cenote.kernels.elementwise.expression import Expression, Step
from cenote.kernels.layout.copy import can_copy
from cenote.kernels.layout.transpose import strided_copy_call
from cenote.kernels.sampling.grid_sample import grid_sample_call
from cenote.kernels.sampling.taps import CUBIC, FAR, PER_AXIS
from cenote.ops.base import Arrays, Imported, Lowering, Op, Sample, Types
from cenote.ops.checks import STRING, int64s, known_ints, one_of, read, require_kind
from cenote.ops.elementwise.pointwise import error_of
from cenote.ops.values import narrow, seeded, wide

MODES = ("linear", "nearest", "cubic")
PADDINGS = ("zeros", "border", "reflection")


def _decode_grid_sample(node: Imported) -> Op:
    """Modes were bilinear and bicubic in opset 16; linear and cubic since 20."""
    op = read(GridSample, node, "mode", "align_corners", padding="padding_mode")
    return replace(op, mode={"bilinear": "linear", "bicubic": "cubic"}.get(op.mode, op.mode))


@dataclass(frozen=True)
class GridSample(Op):
    """x (N, C, *spatial) read at the places of a grid (N, *out, rank), by interpolation.

    A place holds one coordinate per spatial axis, the last axis first, from -1 to 1: the centres of the first and
    last pixel with `align_corners`, else their outer edges. Outside the image there are zeros, the border's values or
    the image reflected at the border. "nearest" rounds halves to even. A place outside is moved to the border, or
    reflected, before it is read; in cubic mode the 4 pixels per axis that it reads are, each by itself, as in PyTorch
    and ONNX Runtime (ONNX's reference moves the place there, too). A place that is NaN is outside, far below.
    """

    mode: str = "linear"
    padding: str = "zeros"
    align_corners: bool = False

    name = "grid_sample"
    operands = ("x", "grid")
    from_onnx = {"GridSample": _decode_grid_sample}

    def types(self, x: TensorType, grid: TensorType) -> Types:
        one_of(self.name, "mode", self.mode, MODES)
        one_of(self.name, "padding", self.padding, PADDINGS)
        if x.dtype == STRING or (self.mode != "nearest" and not is_float(x.dtype)):
            raise UnsupportedError(f"grid_sample: {x.dtype} cannot be interpolated; cast it to a float")
        rank = require_kind(self.name, grid, "f", "grid").rank - 2
        if x.rank != grid.rank or rank < 1 or grid.shape[-1] != rank or grid.shape[0] != x.shape[0]:
            raise ShapeError(f"grid_sample: grid {grid} must be (N, *out, rank) for x {x}")
        result = TensorType(x.dtype, (*x.shape[:2], *grid.shape[1:-1]))
        if 0 in x.shape[2:] and result.size:
            raise ShapeError(f"grid_sample: {x} has no pixels to read")
        return (result,)

    def compute(self, x: Array, grid: Array) -> Arrays:
        (result,) = self.declared(x, grid)
        if not result.size:
            return (np.zeros(result.shape, x.dtype),)
        places = []
        for axis, extent in enumerate(x.shape[2:]):
            unit = np.clip(np.nan_to_num(wide(grid)[..., -1 - axis] + 1, nan=-FAR), -FAR, FAR)
            place = unit / 2 * (extent - 1) if self.align_corners else (unit * extent - 1) / 2
            places.append(np.clip(place, -FAR, FAR))
        y = interpolate(wide(x), places, self.mode, self.padding, self.align_corners)
        return (narrow(y, x.dtype),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        (x, grid), (output,) = map(present, inputs), self.infer(*inputs)
        if x.rank > 5 or not output.size or not can_copy(x.dtype):
            return
        nearest = self.mode == "nearest"

        taps = PER_AXIS[self.mode] ** (x.rank - 2)
        seconds = pass_seconds(x.nbytes + grid.nbytes + output.nbytes) + output.size * taps * 0.5e-9
        error = 0.0 if nearest else error_of(2e-6 if self.mode == "linear" else 4e-6, x.dtype)
        call = partial(
            grid_sample_call, mode=self.mode, padding=self.padding, align_corners=self.align_corners
        )
        yield Lowering.of_call("taps", (PLAIN, PLAIN), (PLAIN,), call, seconds, error)

    def operations(self, outputs: Types, *inputs: TensorType) -> int:
        taps: int = PER_AXIS[self.mode] ** (outputs[0].rank - 2)
        return 2 * taps * outputs[0].size

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        flat = (seeded((2, 3, 4, 5), 1), seeded((2, 3, 6, 2), 2))
        for mode in MODES:
            for padding in PADDINGS:
                yield Sample(GridSample(mode, padding, align_corners=padding != "border"), flat)
                far = (flat[0], 2 * flat[1])
                yield Sample(GridSample(mode, padding, padding == "border"), far, "outside")
            yield Sample(GridSample(mode, "reflection"), (flat[0][:, :, :1, :1], flat[1]), "one pixel")
            yield Sample(GridSample(mode, "reflection", True), (flat[0][:, :, :1], flat[1]), "one row")
        rows = (seeded((2, 3, 9, 11), 1), 1.3 * seeded((2, 5, 37, 2), 2))
        rows[1][0, 0, :4] = [[np.nan, 0], [np.inf, -1], [1e30, -1e30], [-0.0, np.nan]]
        for mode, padding in itertools.product(("linear", "nearest"), PADDINGS):
            yield Sample(GridSample(mode, padding, padding == "zeros"), rows, "rows of more than a vector")
            wide = (rows[0].astype(np.float64), rows[1])
            yield Sample(GridSample(mode, padding), wide, "float64 by float32")
        for dtype in (np.float64, np.float16, "bfloat16"):
            pair = tuple(value.astype(np.dtype(dtype)) for value in (flat[0], flat[1] * 1.5))
            for padding in PADDINGS:
                yield Sample(GridSample("linear", padding), pair)
                yield Sample(GridSample("nearest", padding, True), pair)
        yield Sample(GridSample("nearest"), (seeded((2, 3, 4, 5), dtype=np.int16), flat[1]))
        yield Sample(GridSample(), (seeded((1, 2, 3, 4, 5), 1), seeded((1, 2, 2, 3, 3), 2)), "volume")
        yield Sample(GridSample("cubic"), (seeded((1, 2, 7), 1), seeded((1, 5, 1), 2)), "line")
        deep = (seeded((2, 2, 3, 4, 5), 1), 1.5 * seeded((2, 7, 8, 10, 3), 2))
        for mode, padding in itertools.product(MODES, PADDINGS):
            yield Sample(GridSample(mode, padding, mode == "linear"), deep, "more than a run")
        for dtype in (np.float64, np.float16, "bfloat16"):
            pair = tuple(value.astype(np.dtype(dtype)) for value in deep)
            yield Sample(GridSample("linear", "reflection"), pair)
            yield Sample(
                GridSample("cubic"),
                tuple(value[:, :, 0] if i == 0 else value[:, 0, ..., :2] for i, value in enumerate(pair)),
            )
        bad = np.array([[[[np.nan, 0], [np.inf, 0], [1e30, -1e30]]]], np.float32)
        for padding in PADDINGS:
            for mode in MODES:
                yield Sample(GridSample(mode, padding), (seeded((1, 1, 3, 3)), bad), "far away")
        yield Sample(GridSample(), (seeded((0, 2, 3, 3), 1), seeded((0, 2, 2, 2), 2)))


@dataclass(frozen=True)
class AffineGrid(Op):
    """The grid (N, *spatial, rank) of an affine map (N, rank, rank + 1), over the places of an image (N, C,
    *spatial).

    Coordinates as in GridSample; an axis of one pixel has its only place at 0.
    """

    align_corners: bool = False

    name = "affine_grid"
    operands = ("theta", "size")
    from_onnx = {"AffineGrid": lambda node: read(AffineGrid, node, "align_corners")}

    def types(self, theta: TensorType, size: TensorType) -> Types:
        require_kind(self.name, theta, "f", "theta")
        shape = known_ints(self.name, size, 1, "size")
        rank = len(shape) - 2
        if rank not in (2, 3) or theta.shape != (shape[0], rank, rank + 1) or min(shape) < 0:
            raise ShapeError(f"affine_grid: theta {theta} does not map an image of shape {list(shape)}")
        return (TensorType(theta.dtype, (shape[0], *shape[2:], rank)),)

    def compute(self, theta: Array, size: Array) -> Arrays:
        (result,) = self.declared(theta, size)
        axes = [self._places(extent) for extent in result.shape[1:-1]]
        grids = np.meshgrid(*axes, indexing="ij")
        homogeneous = np.stack([*reversed(grids), np.ones(result.shape[1:-1])], axis=-1)
        return (narrow(np.einsum("nij,...j->n...i", wide(theta), homogeneous), theta.dtype),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        """Elementwise: the columns of the map are repeated for a row of places; a row is their sum, each times a
        coordinate."""
        (output,) = self.infer(*inputs)
        if output.dtype != FLOAT32 or any(map(is_size, output.shape)) or not output.size:
            return
        images, *spatial, rank = output.shape
        rows, row = (images, *spatial[:-1], spatial[-1] * rank), spatial[-1] * rank
        repeated = TensorType(FLOAT32, (images, rank + 1, spatial[-1], rank))

        def bind(views: Sequence[View | None], made: Sequence[View]) -> Sequence[Call]:
            y, columns = made
            y = replace(y, type=TensorType(FLOAT32, rows), strides=dense_strides(rows))
            walk = (rank * (rank + 1), 1, 0, rank + 1)
            operands = [
                Operand(columns.at(column * row), ((rank + 1) * row, *(0,) * (rank - 1), 1))
                for column in range(rank + 1)
            ]
            for axis, extent in enumerate(spatial):
                last = axis == rank - 1
                places = self._places(extent).astype(np.float32)
                strides = [int(at == axis + 1) for at in range(rank + 1)]
                operands.append(Operand(np.repeat(places, rank) if last else places, tuple(strides)))
            copy = strided_copy_call(present(views[0]), walk, columns, target)
            return [copy, elementwise_call(_affine(rank), (), operands, y, target, rank)]

        seconds = pass_seconds(output.nbytes, rank * output.size)
        yield Lowering("rows", (PLAIN, None), (PLAIN,), bind, seconds, 1e-6, (repeated,))

    def _places(self, extent: int) -> Array:
        if self.align_corners:
            return np.linspace(-1, 1, extent) if extent > 1 else np.zeros(extent)
        return (2 * np.arange(extent) + 1) / max(extent, 1) - 1

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for align_corners in (False, True):
            yield Sample(AffineGrid(align_corners), (seeded((2, 2, 3)), int64s((2, 3, 4, 5))))
            yield Sample(AffineGrid(align_corners), (seeded((1, 3, 4)), int64s((1, 1, 2, 1, 3))))
            yield Sample(AffineGrid(align_corners), (seeded((2, 2, 3)), int64s((2, 3, 9, 37))), "longer rows")
            yield Sample(
                AffineGrid(align_corners), (seeded((2, 3, 4)), int64s((2, 1, 3, 5, 23))), "longer rows"
            )
        yield Sample(AffineGrid(), (seeded((0, 2, 3)), int64s((0, 3, 4, 5))))


def _affine(rank: int) -> Expression:
    """The sum of a map's columns, all but the last times a coordinate. Its inputs are the columns, of which the first
    belongs to the last axis, and the coordinates along each axis."""
    steps, total = [], rank
    for column in reversed(range(rank)):
        steps.append(Step("multiply_add", (column, 2 * rank - column, total), FLOAT32))
        total = 2 * rank + len(steps)
    return Expression(2 * rank + 1, tuple(steps))


def interpolate(
    x: Array,
    places: Sequence[Array],
    mode: str,
    padding: str,
    align_corners: bool,
) -> Array:
    """x (N, C, *spatial) at one array of places (N, *out) per spatial axis, in pixels; gives (N, C, *out)."""
    taps = [
        _taps(place, extent, mode, padding, align_corners)
        for place, extent in zip(places, x.shape[2:], strict=True)
    ]
    sample = np.arange(x.shape[0]).reshape(-1, *(1,) * (places[0].ndim - 1))
    total: Array | None = None
    for chosen in itertools.product(*taps):
        where: tuple[Any, ...] = (sample, slice(None), *(index for index, _, _ in chosen))
        pixels = np.moveaxis(x[where], -1, 1)  # advanced indexing puts the channels last
        inside = np.logical_and.reduce([inside for _, _, inside in chosen])[:, None]
        part = np.where(inside, pixels, 0)
        if mode != "nearest":
            part = part * np.prod([weight for _, weight, _ in chosen], axis=0)[:, None]
        total = part if total is None else total + part
    assert total is not None
    return total


def _taps(
    place: Array, extent: int, mode: str, padding: str, align_corners: bool
) -> list[tuple[Array, Array, Array]]:
    """The pixels read along one axis: index, weight, and whether it counts."""
    low, high = (0.0, extent - 1.0) if align_corners else (-0.5, extent - 0.5)
    place = np.rint(place) if mode == "nearest" else place
    outside = ((place < low) | (place > high)) & (mode != "cubic")
    if padding == "border":
        place = np.where(outside, np.clip(place, 0, extent - 1), place)
    elif padding == "reflection":
        place = np.where(outside, _reflected(place, low, high), place)
    first = np.floor(place)
    part = place - first
    if mode == "nearest":
        steps = [(0, np.ones_like(part))]
    elif mode == "linear":
        steps = [(0, 1 - part), (1, part)]
    else:
        steps = [(-1, _cubic(1 + part)), (0, _cubic(part)), (1, _cubic(1 - part)), (2, _cubic(2 - part))]
    taps = []
    for step, weight in steps:
        index = first + step
        inside = (index >= 0) & (index < extent)
        if padding == "reflection":
            index, inside = _reflected(index, low, high), np.ones_like(inside)
        elif padding == "border":
            inside = np.ones_like(inside)
        taps.append((np.clip(index, 0, extent - 1).astype(np.int64), weight, inside))
    return taps


def _reflected(place: Array, low: float, high: float) -> Array:
    """Places moved inside by reflection at both borders, as often as it takes."""
    span = high - low
    if span <= 0:
        return np.zeros_like(place)
    folded = np.mod(place - low, 2 * span)
    return low + np.minimum(folded, 2 * span - folded)


def _cubic(distance: Array) -> Array:
    """Keys' convolution kernel."""
    d = np.abs(distance)
    near = ((CUBIC + 2) * d - (CUBIC + 3)) * d * d + 1
    far = ((d - 5) * d + 8) * d * CUBIC - 4 * CUBIC
    return np.where(d <= 1, near, far)
