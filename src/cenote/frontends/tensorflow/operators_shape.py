"""What moves, cuts and joins tensors, and computes with shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cenote.core.errors import ModelError, UnsupportedError
from cenote.frontends import pieces
from cenote.frontends.strided_slice import TO_END, apply_strided, as_int64, sliced, strided
from cenote.frontends.tensorflow.nodes import Decode, Site


def _reshape(site: Site) -> str:
    return site.builder.add(
        "Reshape", site.input(0), as_int64(site.builder, site.input(1)), name=site.name, allowzero=1
    )


def _squeeze(site: Site) -> str:
    axes = site.integers("squeeze_dims", ()) or site.integers("axis", ())
    given = (site.builder.constant(np.array(axes, np.int64)),) if axes else ()
    return site.builder.add("Squeeze", site.input(0), *given, name=site.name)


def _expand_dims(site: Site) -> str:
    axes = site.builder.constant(np.array([site.number(1, "the axis")], np.int64))
    return site.builder.add("Unsqueeze", site.input(0), axes, name=site.name)


def _transpose(site: Site) -> str:
    return site.builder.add(
        "Transpose", site.input(0), name=site.name, perm=site.numbers(1, "the order of axes")
    )


def _concat(axis_first: bool) -> Decode:
    def decode(site: Site) -> str:
        values = site.values()
        place = 0 if axis_first else len(values) - 1
        axis = site.number(place, "the axis")
        del values[place]
        return site.builder.add("Concat", *values, name=site.name, axis=axis)

    return decode


def _parts(site: Site, count: int) -> list[str]:
    """Names of outputs: the node's, and with ":index" behind it."""
    return [site.name if not index else f"{site.name}:{index}" for index in range(count)]


def _split(site: Site) -> Sequence[str]:
    axis, count = site.number(0, "the axis"), site.integer("num_split")
    return site.builder.add_many("Split", (site.input(1),), _parts(site, count), axis=axis, num_outputs=count)


def _split_v(site: Site) -> Sequence[str]:
    sizes, axis = site.numbers(1, "the sizes"), site.number(2, "the axis")
    return pieces.split(site.builder, site.input(0), sizes, axis, _parts(site, len(sizes)))


def _pack(site: Site) -> str:
    return pieces.stacked(site.builder, site.values(), site.integer("axis", 0), site.name)


def _unpack(site: Site) -> list[str]:
    names = _parts(site, site.integer("num"))
    return pieces.unstacked(site.builder, site.input(0), site.integer("axis", 0), names)


def _slice(site: Site) -> str:
    if site.known(1) is None or site.known(2) is None:
        return _slice_of_computed_size(site)
    begin, size = site.numbers(1, "the begin"), site.numbers(2, "the size")
    ends = [TO_END if length == -1 else start + length for start, length in zip(begin, size, strict=True)]
    return sliced(site.builder, site.input(0), begin, ends, range(len(begin)), (1,) * len(begin), site.name)


def _slice_of_computed_size(site: Site) -> str:
    """The size of an axis is -1 for all that is left."""
    builder, known = site.builder, next((x for x in map(site.known, (1, 2)) if x is not None), None)
    if known is None:
        raise UnsupportedError("neither where the slice begins nor its size is constant")
    begin, size = (as_int64(builder, site.input(index)) for index in (1, 2))
    to_end = builder.add("Equal", size, builder.constant(np.array(-1)))
    end = builder.add("Where", to_end, builder.constant(np.array(TO_END)), builder.add("Add", begin, size))
    return builder.add(
        "Slice", site.input(0), begin, end, builder.constant(np.arange(known.size)), name=site.name
    )


def _strided_slice(site: Site) -> str:
    names = ("begin", "end", "ellipsis", "new_axis", "shrink")
    keys = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    masks = {name: site.integer(key, 0) for name, key in zip(names, keys, strict=True)}
    bounds = [site.known(1), site.known(2)]
    if all(bound is not None for bound in bounds):
        begin, end = site.numbers(1, "the begin"), site.numbers(2, "the end")
        cut = strided(begin, end, site.numbers(3, "the strides"), masks)
        return apply_strided(site.builder, site.input(0), cut, site.name)
    return _computed_slice(site, masks)


def _computed_slice(site: Site, masks: Mapping[str, int]) -> str:
    """Bounds that are computed when the model runs: plain slices only."""
    steps = site.numbers(3, "the strides")
    if masks["ellipsis"] or masks["new_axis"] or masks["shrink"]:
        raise UnsupportedError("computed bounds together with an ellipsis, a new axis or a dropped one")
    count, builder = len(steps), site.builder
    axes = builder.constant(np.arange(count))
    bounds = []
    for index, mask, everything in ((1, "begin", 0), (2, "end", TO_END)):
        bound = as_int64(builder, site.input(index))
        if masks[mask]:
            chosen = builder.constant(np.array([bool(masks[mask] >> place & 1) for place in range(count)]))
            whole = builder.constant(np.full(count, everything, np.int64))
            bound = builder.add("Where", chosen, whole, bound)
        bounds.append(bound)
    given = builder.constant(np.array(steps, np.int64))
    return builder.add("Slice", site.input(0), *bounds, axes, given, name=site.name)


def _pad(mode: str) -> Decode:
    def decode(site: Site) -> str:
        pads = site.need(1, "the paddings")
        if pads.ndim != 2 or pads.shape[1] != 2:
            raise ModelError(f"paddings of shape {list(pads.shape)}; they are (begin, end) per axis")
        kind = mode
        if mode == "mirror":
            kind = {"REFLECT": "reflect", "SYMMETRIC": "symmetric"}[site.text("mode")]
        if kind == "symmetric":
            return pieces.mirrored(site.builder, site.input(0), pads.tolist(), site.name)
        flat = site.builder.constant(pads.astype(np.int64).T.reshape(-1))
        value = [site.input(2)] if len(site.inputs) > 2 else []
        return site.builder.add("Pad", site.input(0), flat, *value, name=site.name, mode=kind)

    return decode


def _tile(site: Site) -> str:
    return site.builder.add("Tile", site.input(0), as_int64(site.builder, site.input(1)), name=site.name)


def _fill(site: Site) -> str:
    shape = as_int64(site.builder, site.input(0))
    return site.builder.add("Expand", site.input(1), shape, name=site.name)


def _broadcast_to(site: Site) -> str:
    """Unlike ONNX's Expand, never larger than asked for; TensorFlow refuses what does not fit."""
    return site.builder.add("Expand", site.input(0), as_int64(site.builder, site.input(1)), name=site.name)


def _range(site: Site) -> str:
    return site.builder.add("Range", *site.values(), name=site.name)


def _shape(site: Site) -> str:
    dtype = site.dtype("out_type", 3)
    shape = site.builder.add("Shape", site.input(0))
    return site.builder.cast(shape, dtype, site.name)


def _size(site: Site) -> str:
    size = site.builder.add("Size", site.input(0))
    return site.builder.cast(size, site.dtype("out_type", 3), site.name)


def _rank(site: Site) -> str:
    rank = site.builder.add("Size", site.builder.add("Shape", site.input(0)))
    return site.builder.cast(rank, np.dtype(np.int32), site.name)


def _gather(site: Site) -> str:
    axis = site.number(2, "the axis") if len(site.inputs) > 2 else 0
    return pieces.gathered(
        site.builder, site.input(0), site.input(1), axis, site.integer("batch_dims", 0), site.name
    )


def _gather_nd(site: Site) -> str:
    return site.builder.add("GatherND", site.input(0), as_int64(site.builder, site.input(1)), name=site.name)


def _arg(op: str) -> Decode:
    def decode(site: Site) -> str:
        found = site.builder.add(op, site.input(0), axis=site.number(1, "the axis"), keepdims=0)
        return site.builder.cast(found, site.dtype("output_type", 9), site.name)

    return decode


def _top_k(site: Site) -> list[str]:
    count = site.builder.constant(np.array([site.number(1, "k")], np.int64))
    values, indices = site.builder.add_many(
        "TopK", (site.input(0), count), (site.name, ""), axis=-1, largest=1
    )
    return [values, site.builder.cast(indices, np.dtype(np.int32), f"{site.name}:1")]


def _like(number: int) -> Decode:
    def decode(site: Site) -> str:
        shape = site.builder.add("Shape", site.input(0))
        value = np.array([number], site.dtype("T"))
        return site.builder.add("ConstantOfShape", shape, name=site.name, value=value)

    return decode


def _one_hot(site: Site) -> str:
    depth = site.builder.constant(np.array(site.number(1, "the depth"), np.int64))
    on, off = site.need(2, "the value on"), site.need(3, "the value off")
    values = site.builder.constant(np.stack([off.reshape(()), on.reshape(())]))
    return site.builder.add(
        "OneHot", site.input(0), depth, values, name=site.name, axis=site.integer("axis", -1)
    )


def _cumulate(site: Site) -> str:
    axis = site.builder.constant(np.array(site.number(1, "the axis"), np.int64))
    return site.builder.add(
        "CumSum",
        site.input(0),
        axis,
        name=site.name,
        exclusive=int(site.flag("exclusive")),
        reverse=int(site.flag("reverse")),
    )


def _reverse(site: Site) -> str:
    return pieces.reversed_along(site.builder, site.input(0), site.numbers(1, "the axes"), site.name)


SHAPES: Mapping[str, Decode] = {
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "ExpandDims": _expand_dims,
    "Transpose": _transpose,
    "ConcatV2": _concat(False),
    "Concat": _concat(True),
    "Split": _split,
    "SplitV": _split_v,
    "Pack": _pack,
    "Unpack": _unpack,
    "Slice": _slice,
    "StridedSlice": _strided_slice,
    "Pad": _pad("constant"),
    "PadV2": _pad("constant"),
    "MirrorPad": _pad("mirror"),
    "Tile": _tile,
    "Fill": _fill,
    "BroadcastTo": _broadcast_to,
    "Range": _range,
    "Shape": _shape,
    "Size": _size,
    "Rank": _rank,
    "GatherV2": _gather,
    "Gather": _gather,
    "GatherNd": _gather_nd,
    "ArgMax": _arg("ArgMax"),
    "ArgMin": _arg("ArgMin"),
    "TopKV2": _top_k,
    "ZerosLike": _like(0),
    "OnesLike": _like(1),
    "OneHot": _one_hot,
    "Cumsum": _cumulate,
    "ReverseV2": _reverse,
}
