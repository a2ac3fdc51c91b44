"""Decoders of the operators that TensorFlow and TensorFlow Lite have in common. The formats differ in the access to
inputs and attributes: `Site` abstracts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from cenote.core.errors import ModelError, UnsupportedError
from cenote.core.types import Array
from cenote.frontends import pieces
from cenote.frontends.builder import GraphBuilder
from cenote.frontends.channels_last import ChannelsLast
from cenote.frontends.strided_slice import TO_END, apply_strided, as_int64, sliced, strided

MOST_NODES = 1_000_000  # that inlining functions and unrolling loops may make


class Site(Protocol):
    """An operator of a file with its inputs and attributes: the input of a decoder."""

    name: str
    inputs: Sequence[Any]

    @property
    def builder(self) -> GraphBuilder:
        """The graph under construction."""

    def has(self, index: int) -> bool:
        """Return whether there is an input of this index."""

    def x(self, index: int = 0) -> str:
        """Return the value of an input."""

    def stored(self, index: int) -> str:
        """Return the value of an input as stored in the file: the integers of a quantised tensor."""

    def values(self) -> list[str]:
        """Return the values of all inputs."""
        return [self.x(index) for index in range(len(self.inputs))]

    def known(self, index: int) -> Array | None:
        """Return the content of an input that is constant, None for others."""
        return self.builder.known(self.stored(index))

    def need(self, index: int, what: str) -> Array:
        """Return the content of an input that must be constant. Raises UnsupportedError where it is not."""
        return self.builder.need(self.stored(index), what)

    def numbers(self, index: int, what: str) -> tuple[int, ...]:
        """Return the content of an input of integers that must be constant."""
        return self.builder.numbers(self.stored(index), what)

    def number(self, index: int, what: str) -> int:
        """Return the content of an input that must be one constant integer."""
        return self.builder.number(self.stored(index), what)

    def integer(self, name: str, default: int | None = None) -> int:
        """Return an integer attribute."""

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a boolean attribute."""

    def real(self, name: str, default: float | None = None) -> float:
        """Return a float attribute."""

    def result_dtype(self, attribute: str, default: int | None = None) -> np.dtype[Any]:
        """Return the element type of output 0; `attribute` names it where the format has such an attribute."""

    def names(self, count: int) -> list[str]:
        """Return `count` names of outputs."""

    def pictures(self) -> ChannelsLast:
        """Return a builder of operators on pictures in the operator's order of axes."""

    @property
    def is_float(self) -> bool:
        """True if input 0 represents floats."""


D = TypeVar("D")
Decode = Callable[[Site], str]
DecodeMany = Callable[[Site], Sequence[str]]


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


def each(names: str, decode: Callable[[str], D]) -> dict[str, D]:
    """Return rows of a table: a decoder for each name; of "NAME=OP", for OP."""
    pairs = (name.partition("=") for name in names.split())
    return {name: decode(op or name) for name, _, op in pairs}


def alike(names: str, decode: D) -> dict[str, D]:
    """Return rows of a table: the same decoder for each name."""
    return dict.fromkeys(names.split(), decode)


# ---- elementwise -----------------------------------------------------------------------------------------------------


def plain(op: str, **attributes: Any) -> Decode:
    """Return a decoder for an operator of the same inputs."""
    return lambda site: site.builder.add(op, *site.values(), name=site.name, **attributes)


def after(inner: str, outer: str) -> Decode:
    """Return a decoder of outer(inner(inputs))."""
    return lambda site: site.builder.add(outer, site.builder.add(inner, *site.values()), name=site.name)


def clip(low: float, high: float) -> Decode:
    """Return a decoder that clips numbers between two bounds."""
    return lambda site: pieces.clipped(site.builder, site.x(), low, high, site.name)


def leaky(site: Site) -> str:
    """Decode LeakyRelu."""
    return site.builder.add("LeakyRelu", site.x(), name=site.name, alpha=site.real("alpha", 0.2))


def square(site: Site) -> str:
    """Decode x * x."""
    return site.builder.add("Mul", site.x(), site.x(), name=site.name)


def squared_difference(site: Site) -> str:
    """Decode (x - y) squared."""
    x, y = site.values()
    return pieces.squared_difference(site.builder, x, y, site.name)


def floor_division(site: Site) -> str:
    """Decode x / y rounded down."""
    x, y = site.values()
    return pieces.floor_division(site.builder, x, y, site.is_float, site.name)


def cast(site: Site) -> str:
    """Decode a conversion of numbers to another type."""
    return site.builder.cast(site.x(), site.result_dtype("DstT"), site.name)


# ---- along axes ------------------------------------------------------------------------------------------------------


def reduction(op: str) -> Decode:
    """Return a decoder of a reduction over the axes that input 1 lists; without axes the result is x itself."""

    def decode(site: Site) -> str:
        axes = site.numbers(1, "the axes")
        if not axes:
            return site.x()
        listed = site.builder.integers(axes)
        return site.builder.add(op, site.x(), listed, name=site.name, keepdims=int(site.flag("keep_dims")))

    return decode


def arg(op: str) -> Decode:
    """Return a decoder of the index of the largest or smallest element along the axis that input 1 gives."""

    def decode(site: Site) -> str:
        index = site.builder.add(op, site.x(), axis=site.number(1, "the axis"), keepdims=0)
        return site.builder.cast(index, site.result_dtype("output_type", 9), site.name)

    return decode


def top_k(site: Site) -> list[str]:
    """Decode the k largest elements of the last axis, and their indices."""
    names = site.names(2)
    count = site.builder.integers([site.number(1, "k")])
    values, indices = site.builder.add_many("TopK", (site.x(), count), (names[0], ""), axis=-1, largest=1)
    return [values, site.builder.cast(indices, np.dtype(np.int32), names[1])]


def cumulate(site: Site) -> str:
    """Decode CumSum along the axis that input 1 gives."""
    axis = site.builder.integers(site.number(1, "the axis"))
    flags = {name: int(site.flag(name)) for name in ("exclusive", "reverse")}
    return site.builder.add("CumSum", site.x(), axis, name=site.name, **flags)


def reverse(site: Site) -> str:
    """Decode the reversal of the elements of axes."""
    return pieces.reversed_along(site.builder, site.x(), site.numbers(1, "the axes"), site.name)


def one_hot(site: Site) -> str:
    """Decode OneHot. Inputs: indices, depth, the value on, the value off."""
    builder = site.builder
    depth = builder.integers(site.number(1, "the depth"))
    off, on = (builder.need(site.x(index), "a value").reshape(()) for index in (3, 2))
    values = builder.constant(np.stack([off, on]))
    return builder.add("OneHot", site.stored(0), depth, values, name=site.name, axis=site.integer("axis", -1))


# ---- shapes ----------------------------------------------------------------------------------------------------------


def squeezed(site: Site, axes: Sequence[int]) -> str:
    """Add x without these axes, or without all of extent 1."""
    listed = (site.builder.integers(axes),) if axes else ()
    return site.builder.add("Squeeze", site.x(), *listed, name=site.name)


def expand_dims(site: Site) -> str:
    """Decode x with one more axis, at the place that input 1 gives."""
    axes = site.builder.integers([site.number(1, "the axis")])
    return site.builder.add("Unsqueeze", site.x(), axes, name=site.name)


def transpose(site: Site) -> str:
    """Decode x with its axes in another order."""
    return site.builder.add("Transpose", site.x(), name=site.name, perm=site.numbers(1, "the order of axes"))


def shape(site: Site) -> str:
    """Decode the extents of x."""
    extents = site.builder.add("Shape", site.stored(0))
    return site.builder.cast(extents, site.result_dtype("out_type", 3), site.name)


def tile(site: Site) -> str:
    """Decode the repetition of x along its axes."""
    return site.builder.add("Tile", site.x(), as_int64(site.builder, site.stored(1)), name=site.name)


def fill(site: Site) -> str:
    """Decode a filled tensor. Inputs: a shape, the number that fills it."""
    return site.builder.add("Expand", site.x(1), as_int64(site.builder, site.stored(0)), name=site.name)


def broadcast_to(site: Site) -> str:
    """Decode x in another shape. ONNX's Expand could give a larger one; TensorFlow refuses shapes that do not fit, so
    the result is the requested shape."""
    return site.builder.add("Expand", site.x(), as_int64(site.builder, site.stored(1)), name=site.name)


# ---- parts -----------------------------------------------------------------------------------------------------------


def split(count: str) -> DecodeMany:
    """Return a decoder of equal parts. Inputs: the axis, x; the attribute `count` has their number."""

    def decode(site: Site) -> Sequence[str]:
        axis, parts = site.number(0, "the axis"), site.integer(count)
        return site.builder.add_many("Split", (site.x(1),), site.names(parts), axis=axis, num_outputs=parts)

    return decode


def split_v(site: Site) -> Sequence[str]:
    """Decode parts of these sizes. Inputs: x, the sizes, the axis."""
    sizes, axis = site.numbers(1, "the sizes"), site.number(2, "the axis")
    return pieces.split(site.builder, site.x(), sizes, axis, site.names(len(sizes)))


def pack(site: Site) -> str:
    """Decode the stacking of tensors of one shape along a new axis."""
    return pieces.stacked(site.builder, site.values(), site.integer("axis", 0), site.name)


def unpack(site: Site) -> Sequence[str]:
    """Decode the slices of an axis, without it."""
    names = site.names(site.integer("num"))
    return pieces.unstacked(site.builder, site.x(), site.integer("axis", 0), names)


def slice_(site: Site) -> str:
    """Decode a part of x. Inputs: x, its begin, its size, where -1 means up to the end."""
    if site.known(1) is None or site.known(2) is None:
        return _slice_of_computed_size(site)
    begin, size = site.numbers(1, "the begin"), site.numbers(2, "the size")
    ends = [TO_END if length == -1 else start + length for start, length in zip(begin, size, strict=True)]
    return sliced(site.builder, site.x(), begin, ends, range(len(begin)), (1,) * len(begin), site.name)


def _slice_of_computed_size(site: Site) -> str:
    builder, known = site.builder, next((x for x in map(site.known, (1, 2)) if x is not None), None)
    if known is None:
        raise UnsupportedError("neither where the slice begins nor its size is constant")
    begin, size = (as_int64(builder, site.stored(index)) for index in (1, 2))
    to_end = builder.add("Equal", size, builder.constant(np.array(-1)))
    end = builder.add("Where", to_end, builder.constant(np.array(TO_END)), builder.add("Add", begin, size))
    axes = builder.constant(np.arange(known.size))
    return builder.add("Slice", site.x(), begin, end, axes, name=site.name)


def strided_slice(site: Site) -> str:
    """Decode a strided slice. Inputs: x, bounds, steps; masks mark bounds to ignore, axes to add and axes to drop."""
    names = ("begin", "end", "ellipsis", "new_axis", "shrink")
    keys = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    masks = {name: site.integer(key, 0) for name, key in zip(names, keys, strict=True)}
    # TensorFlow Lite: the end counts from the begin.
    is_size = site.flag("offset")
    if site.known(1) is None or site.known(2) is None:
        if is_size:
            raise UnsupportedError("computed bounds together with ends that count from the beginning")
        return _computed_slice(site, masks)
    begin, end = site.numbers(1, "the begin"), site.numbers(2, "the end")
    if is_size:
        end = tuple(start + length for start, length in zip(begin, end, strict=True))
    cut = strided(begin, end, site.numbers(3, "the strides"), masks)
    return apply_strided(site.builder, site.x(), cut, site.name)


def _computed_slice(site: Site, masks: Mapping[str, int]) -> str:
    """Add a slice whose bounds are computed when the model runs: plain slices only."""
    steps = site.numbers(3, "the strides")
    if masks["ellipsis"] or masks["new_axis"] or masks["shrink"]:
        raise UnsupportedError("computed bounds together with an ellipsis, a new axis or a dropped one")
    count, builder = len(steps), site.builder
    axes = builder.constant(np.arange(count))
    bounds = []
    for index, mask, everything in ((1, "begin", 0), (2, "end", TO_END)):
        bound = as_int64(builder, site.stored(index))
        if masks[mask]:
            chosen = builder.constant(np.array([bool(masks[mask] >> place & 1) for place in range(count)]))
            whole = builder.constant(np.full(count, everything, np.int64))
            bound = builder.add("Where", chosen, whole, bound)
        bounds.append(bound)
    stride = builder.integers(steps)
    return builder.add("Slice", site.x(), *bounds, axes, stride, name=site.name)


def padded(site: Site, mode: str) -> str:
    """Add x between (begin, end) more elements per axis, which input 1 lists: `mode` "constant" (0 or input 2),
    "reflect", "symmetric"."""
    pads = site.need(1, "the paddings")
    if pads.ndim != 2 or pads.shape[1] != 2:
        raise ModelError(f"paddings of shape {list(pads.shape)}; they are (begin, end) per axis")
    if mode == "symmetric":
        return pieces.mirrored(site.builder, site.x(), pads.tolist(), site.name)
    flat = site.builder.constant(pads.astype(np.int64).T.reshape(-1))
    value = [site.x(2)] if mode == "constant" and site.has(2) else []
    return site.builder.add("Pad", site.x(), flat, *value, name=site.name, mode=mode)


def pad(site: Site) -> str:
    """Decode x between zeros, or between the number that input 2 gives."""
    return padded(site, "constant")


# ---- pictures --------------------------------------------------------------------------------------------------------


def resize(mode: str) -> Decode:
    """Return a decoder of a picture in the size that input 1 gives."""
    return lambda site: site.pictures().resize(
        site.x(),
        site.stored(1),
        mode=mode,
        align_corners=site.flag("align_corners"),
        half_pixel=site.flag("half_pixel_centers"),
        name=site.name,
    )


def depth(op: str) -> Decode:
    """Return a decoder of SpaceToDepth or DepthToSpace."""
    return lambda site: site.pictures().on_first(
        op, site.x(), 4, name=site.name, blocksize=site.integer("block_size")
    )


def lrn(radius: str) -> Decode:
    """Return a decoder of local response normalisation; the attribute `radius` has that of the sum over 2 * radius +
    1 channels, by which ONNX divides alpha."""

    def decode(site: Site) -> str:
        size = 2 * site.integer(radius, 5) + 1
        return site.pictures().on_first(
            "LRN",
            site.x(),
            4,
            name=site.name,
            size=size,
            alpha=site.real("alpha", 1.0) * size,
            beta=site.real("beta", 0.5),
            bias=site.real("bias", 1.0),
        )

    return decode
