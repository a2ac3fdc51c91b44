"""Keras's layers that move, cut, join and resize."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cenote.core.errors import ModelError, UnsupportedError
from cenote.frontends.builder import transposed
from cenote.frontends.keras.layer import Decode, KerasValue, LayerCall
from cenote.frontends.strided_slice import TO_END, sliced


def _flatten(call: LayerCall) -> KerasValue:
    """Decode Flatten: channels come last, whatever the format of the map."""
    x, rank = call.value, call.rank
    name = x.name
    if call.channels_first and rank > 2:
        name = transposed(call.builder, name, (0, *range(2, rank), 1))
    return KerasValue(call.builder.add("Flatten", name, name=call.name, axis=1), 2, x.dtype)


def _reshape(call: LayerCall) -> KerasValue:
    shape = call.layer.integers("target_shape")
    if any(extent == 0 or extent < -1 for extent in shape):
        raise ModelError(f"target_shape {list(shape)}")
    # 0: the batch is unchanged.
    wanted = call.builder.integers([0, *shape])
    return KerasValue(
        call.builder.add("Reshape", call.value.name, wanted, name=call.name), 1 + len(shape), call.value.dtype
    )


def _permute(call: LayerCall) -> KerasValue:
    order = call.layer.integers("dims", call.rank - 1)
    if sorted(order) != list(range(1, call.rank)):
        raise ModelError(f"dims {list(order)} of {call.rank} axes")
    return KerasValue(
        transposed(call.builder, call.value.name, (0, *order), call.name), call.rank, call.value.dtype
    )


def _repeat(call: LayerCall) -> KerasValue:
    call.need_rank(2)
    axis = call.builder.integers([1])
    counts = call.builder.integers([1, call.layer.integer("n"), 1])
    row = call.builder.add("Unsqueeze", call.value.name, axis)
    return KerasValue(call.builder.add("Tile", row, counts, name=call.name), 3, call.value.dtype)


def _concatenate(call: LayerCall) -> KerasValue:
    ranks, dtypes = {each.rank for each in call.inputs}, {each.dtype for each in call.inputs}
    if len(ranks) != 1 or len(dtypes) != 1:
        raise ModelError(f"{len(call.inputs)} values of {sorted(ranks)} axes cannot be joined")
    axis = call.layer.integer("axis", -1)
    y = call.builder.add("Concat", *(each.name for each in call.inputs), name=call.name, axis=axis)
    return KerasValue(y, call.inputs[0].rank, call.inputs[0].dtype)


def _zero_padding(spatial: int) -> Decode:
    def decode(call: LayerCall) -> KerasValue:
        rank = call.need_rank(spatial + 2)
        by_axis = dict(zip(call.spatial, call.layer.pairs("padding", spatial), strict=True))
        pads = np.array([by_axis.get(axis, (0, 0)) for axis in range(rank)], np.int64).T.reshape(-1)
        y = call.builder.add(
            "Pad", call.value.name, call.builder.constant(pads), name=call.name, mode="constant"
        )
        return KerasValue(y, rank, call.value.dtype)

    return decode


def _cropping(spatial: int) -> Decode:
    def decode(call: LayerCall) -> KerasValue:
        rank = call.need_rank(spatial + 2)
        pairs = call.layer.pairs("cropping", spatial)
        ends = [-end if end else TO_END for _, end in pairs]
        starts = [begin for begin, _ in pairs]
        y = sliced(call.builder, call.value.name, starts, ends, call.spatial, (1,) * spatial, call.name)
        return KerasValue(y, rank, call.value.dtype)

    return decode


_MODES = {"nearest": "nearest", "bilinear": "linear", "bicubic": "cubic"}


def _mode(call: LayerCall, default: str) -> str:
    mode = call.layer.text("interpolation", default)
    if mode not in _MODES:
        raise UnsupportedError(f"interpolation '{mode}' is not supported")
    return _MODES[mode]


def _up_sampling(spatial: int) -> Decode:
    """Decode an enlargement by whole factors; the nearest element is repeated."""

    def decode(call: LayerCall) -> str:
        call.need_rank(spatial + 2)
        size = call.layer.integers("size", spatial)
        if min(size) < 1:
            raise ModelError(f"size {list(size)}")
        scales = call.builder.constant(np.array(size, np.float32))
        return call.pictures().resize(
            call.x,
            "",
            scales=scales,
            mode=_mode(call, "nearest") if spatial == 2 else "nearest",
            align_corners=False,
            half_pixel=True,
            rank=call.rank,
            name=call.name,
        )

    return decode


def _resizing(call: LayerCall) -> str:
    layer = call.layer
    for refused in ("crop_to_aspect_ratio", "pad_to_aspect_ratio", "antialias"):
        if layer.config.get(refused):
            raise UnsupportedError(f"{refused} is not supported")
    sizes = call.builder.integers([layer.integer("height"), layer.integer("width")])
    call.need_rank(4)
    return call.pictures().resize(
        call.x, sizes, mode=_mode(call, "bilinear"), align_corners=False, half_pixel=True, name=call.name
    )


SHAPES: Mapping[str, Decode] = {
    "Flatten": _flatten,
    "Reshape": _reshape,
    "Permute": _permute,
    "RepeatVector": _repeat,
    "Concatenate": _concatenate,
    **{f"ZeroPadding{n}D": _zero_padding(n) for n in (1, 2, 3)},
    **{f"Cropping{n}D": _cropping(n) for n in (1, 2, 3)},
    **{f"UpSampling{n}D": _up_sampling(n) for n in (1, 2, 3)},
    "Resizing": _resizing,
}
