"""What moves, cuts and joins tensors, and computes with shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cenote.core.errors import ModelError
from cenote.core.types import dtype_named
from cenote.frontends import pieces
from cenote.frontends.strided_slice import TO_END, apply_strided, as_int64, sliced, strided
from cenote.frontends.tflite import schema
from cenote.frontends.tflite.site import Decode, Site


def _concat(site: Site) -> str:
    axis = int(site.option("axis"))
    return site.activated(lambda name: site.builder.add("Concat", *site.values(), axis=axis, name=name))


def _reshape(site: Site) -> str:
    given = site.number(1) >= 0
    shape = (
        as_int64(site.builder, site.stored(1))
        if given
        else site.builder.constant(
            np.array(() if site.options is None else site.options.numbers("new_shape"), np.int64)
        )
    )
    return site.builder.add("Reshape", site.x(), shape, name=site.name, allowzero=1)


def _squeeze(site: Site) -> str:
    axes = () if site.options is None else site.options.numbers("squeeze_dims")
    given = (site.builder.constant(np.array(axes, np.int64)),) if axes else ()
    return site.builder.add("Squeeze", site.x(), *given, name=site.name)


def _expand_dims(site: Site) -> str:
    axes = site.builder.constant(np.array(site.numbers(1, "the axis"), np.int64).reshape(-1))
    return site.builder.add("Unsqueeze", site.x(), axes, name=site.name)


def _transpose(site: Site) -> str:
    return site.builder.add("Transpose", site.x(), name=site.name, perm=site.numbers(1, "the order of axes"))


def _names(site: Site) -> list[str]:
    return [site.importer.wanted_name(number) for number in site.outputs]


def _split(site: Site) -> Sequence[str]:
    """Inputs: the axis, the tensor."""
    (axis,) = site.numbers(0, "the axis")
    count = int(site.option("num_splits"))
    return site.builder.add_many("Split", (site.x(1),), _names(site), axis=axis, num_outputs=count)


def _split_v(site: Site) -> Sequence[str]:
    (axis,) = site.numbers(2, "the axis")
    return pieces.split(site.builder, site.x(), site.numbers(1, "the sizes"), axis, _names(site))


def _pack(site: Site) -> str:
    return pieces.stacked(site.builder, site.values(), int(site.option("axis")), site.name)


def _unpack(site: Site) -> Sequence[str]:
    return pieces.unstacked(site.builder, site.x(), int(site.option("axis")), _names(site))


def _slice(site: Site) -> str:
    begin, size = site.numbers(1, "the begin"), site.numbers(2, "the size")
    ends = [TO_END if length == -1 else start + length for start, length in zip(begin, size, strict=True)]
    return sliced(site.builder, site.x(), begin, ends, range(len(begin)), (1,) * len(begin), site.name)


def _strided_slice(site: Site) -> str:
    names = ("begin", "end", "ellipsis", "new_axis", "shrink")
    keys = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    masks = {name: int(site.option(key)) for name, key in zip(names, keys, strict=True)}
    begin, end = site.numbers(1, "the begin"), site.numbers(2, "the end")
    if site.option("offset"):
        end = tuple(start + length for start, length in zip(begin, end, strict=True))
    cut = strided(begin, end, site.numbers(3, "the strides"), masks)
    return apply_strided(site.builder, site.x(), cut, site.name)


def _pad(site: Site) -> str:
    return _padded(site, "constant", [site.x(2)] if site.number(2) >= 0 else [])


def _padded(site: Site, mode: str, value: Sequence[str]) -> str:
    pads = site.builder.need(site.stored(1), "the paddings")
    if pads.ndim != 2 or pads.shape[1] != 2:
        raise ModelError(f"paddings of shape {list(pads.shape)}; they are (begin, end) per axis")
    flat = site.builder.constant(pads.astype(np.int64).T.reshape(-1))
    return site.builder.add("Pad", site.x(), flat, *value, name=site.name, mode=mode)


def _mirror_pad(site: Site) -> str:
    if int(site.option("mode")):
        pads = site.builder.need(site.stored(1), "the paddings")
        return pieces.mirrored(site.builder, site.x(), pads.reshape(-1, 2).tolist(), site.name)
    return _padded(site, "reflect", ())


def _resize(mode: str) -> Decode:
    def decode(site: Site) -> str:
        sizes = site.builder.constant(np.array(site.numbers(1, "the size"), np.int64))
        return site.pictures().resize(
            site.x(), sizes, mode=mode, align_corners=bool(site.option("align_corners")),
            half_pixel=bool(site.option("half_pixel_centers")), name=site.name,
        )  # fmt: skip

    return decode


def _depth(op: str) -> Decode:
    return lambda site: site.pictures().on_first(
        op, site.x(), 4, name=site.name, blocksize=int(site.option("block_size"))
    )


def _cast(site: Site) -> str:
    kind = site.importer.tensor(site.outputs[0]).element()
    return site.builder.cast(site.x(), kind, site.name)


def _dequantize(site: Site) -> str:
    """Of half floats: a wider type; of integers what they stand for."""
    content = site.importer.constant(site.number(0))
    if content is not None and content.dtype.kind == "f":
        return site.builder.constant(content.astype(np.float32), site.name)
    kind = site.importer.tensor(site.number(0)).element()
    return site.builder.cast(site.x(), np.dtype(np.float32), site.name) if kind.kind == "f" else site.x()


def _same(site: Site) -> str:
    return site.x()


def _densify(site: Site) -> str:
    return site.stored(0)


def _gather(site: Site) -> str:
    axis, batch_dims = int(site.option("axis")), int(site.option("batch_dims"))
    return pieces.gathered(site.builder, site.x(), site.stored(1), axis, batch_dims, site.name)


def _arg(op: str) -> Decode:
    def decode(site: Site) -> str:
        (axis,) = site.numbers(1, "the axis")
        found = site.builder.add(op, site.x(), axis=axis, keepdims=0)
        kind = site.importer.tensor(site.outputs[0]).element()
        return site.builder.cast(found, kind, site.name)

    return decode


def _top_k(site: Site) -> Sequence[str]:
    count = site.builder.constant(np.array(site.numbers(1, "k"), np.int64).reshape(-1))
    values, indices = site.builder.add_many("TopK", (site.x(), count), ("", ""), axis=-1, largest=1)
    return [values, site.builder.cast(indices, np.dtype(np.int32))]


def _shape(site: Site) -> str:
    kind = schema.TYPES.get(int(site.option("out_type")) or 2, "int32")
    return site.builder.cast(site.builder.add("Shape", site.stored(0)), dtype_named(kind), site.name)


def _one_hot(site: Site) -> str:
    """Inputs: indices, depth, the value on, the value off."""
    (depth,) = site.numbers(1, "the depth")
    values = [site.builder.need(site.x(index), "a value").reshape(()) for index in (3, 2)]
    return site.builder.add(
        "OneHot",
        site.stored(0),
        site.builder.constant(np.array(depth, np.int64)),
        site.builder.constant(np.stack(values)),
        name=site.name,
        axis=int(site.option("axis")),
    )


def _tile(site: Site) -> str:
    return site.builder.add("Tile", site.x(), as_int64(site.builder, site.stored(1)), name=site.name)


def _expand(site: Site) -> str:
    return site.builder.add("Expand", site.x(), as_int64(site.builder, site.stored(1)), name=site.name)


def _fill(site: Site) -> str:
    return site.builder.add("Expand", site.x(1), as_int64(site.builder, site.stored(0)), name=site.name)


def _select(site: Site) -> str:
    return site.builder.add("Where", site.stored(0), site.x(1), site.x(2), name=site.name)


def _cumulate(site: Site) -> str:
    axis = site.builder.constant(np.array(site.numbers(1, "the axis"), np.int64).reshape(()))
    flags = {name: int(bool(site.option(name))) for name in ("exclusive", "reverse")}
    return site.builder.add("CumSum", site.x(), axis, name=site.name, **flags)


def _reverse(site: Site) -> str:
    return pieces.reversed_along(site.builder, site.x(), site.numbers(1, "the axes"), site.name)


SHAPES: Mapping[str, Decode] = {
    "CONCATENATION": _concat,
    "RESHAPE": _reshape,
    "SQUEEZE": _squeeze,
    "EXPAND_DIMS": _expand_dims,
    "TRANSPOSE": _transpose,
    "SPLIT": _split,
    "SPLIT_V": _split_v,
    "PACK": _pack,
    "UNPACK": _unpack,
    "SLICE": _slice,
    "STRIDED_SLICE": _strided_slice,
    "PAD": _pad,
    "PADV2": _pad,
    "MIRROR_PAD": _mirror_pad,
    "RESIZE_BILINEAR": _resize("linear"),
    "RESIZE_NEAREST_NEIGHBOR": _resize("nearest"),
    "SPACE_TO_DEPTH": _depth("SpaceToDepth"),
    "DEPTH_TO_SPACE": _depth("DepthToSpace"),
    "CAST": _cast,
    "DEQUANTIZE": _dequantize,
    "QUANTIZE": _same,
    "DENSIFY": _densify,
    "GATHER": _gather,
    "ARG_MAX": _arg("ArgMax"),
    "ARG_MIN": _arg("ArgMin"),
    "TOPK_V2": _top_k,
    "SHAPE": _shape,
    "ONE_HOT": _one_hot,
    "TILE": _tile,
    "BROADCAST_TO": _expand,
    "FILL": _fill,
    "SELECT": _select,
    "SELECT_V2": _select,
    "CUMSUM": _cumulate,
    "REVERSE_V2": _reverse,
}
