"""Operations that move, cut and join tensors, and compute with shapes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cenote.frontends import pieces
from cenote.frontends import tensorflow_common as common
from cenote.frontends.strided_slice import as_int64
from cenote.frontends.tensorflow.nodes import Decode, NodeSite


def _reshape(site: NodeSite) -> str:
    return site.builder.add(
        "Reshape", site.x(0), as_int64(site.builder, site.x(1)), name=site.name, allowzero=1
    )


def _concat(axis_first: bool) -> Decode:
    def decode(site: NodeSite) -> str:
        values = site.values()
        place = 0 if axis_first else len(values) - 1
        axis = site.number(place, "the axis")
        del values[place]
        return site.builder.add("Concat", *values, name=site.name, axis=axis)

    return decode


def _size(site: NodeSite) -> str:
    size = site.builder.add("Size", site.x(0))
    return site.builder.cast(size, site.dtype("out_type", 3), site.name)


def _rank(site: NodeSite) -> str:
    rank = site.builder.add("Size", site.builder.add("Shape", site.x(0)))
    return site.builder.cast(rank, np.dtype(np.int32), site.name)


def _gather(site: NodeSite) -> str:
    axis = site.number(2, "the axis") if len(site.inputs) > 2 else 0
    return pieces.gathered(site.builder, site.x(0), site.x(1), axis, site.integer("batch_dims", 0), site.name)


def _like(number: int) -> Decode:
    def decode(site: NodeSite) -> str:
        shape = site.builder.add("Shape", site.x(0))
        value = np.array([number], site.dtype("T"))
        return site.builder.add("ConstantOfShape", shape, name=site.name, value=value)

    return decode


SHAPES: Mapping[str, Decode] = {
    "Reshape": _reshape,
    "Squeeze": lambda site: common.squeezed(
        site, site.integers("squeeze_dims", ()) or site.integers("axis", ())
    ),
    "ExpandDims": common.expand_dims,
    "Transpose": common.transpose,
    "ConcatV2": _concat(False),
    "Concat": _concat(True),
    "Split": common.split("num_split"),
    "SplitV": common.split_v,
    "Pack": common.pack,
    "Unpack": common.unpack,
    "Slice": common.slice_,
    "StridedSlice": common.strided_slice,
    "Pad": common.pad,
    "PadV2": common.pad,
    "MirrorPad": lambda site: common.padded(
        site, {"REFLECT": "reflect", "SYMMETRIC": "symmetric"}[site.text("mode")]
    ),
    "Tile": common.tile,
    "Fill": common.fill,
    "BroadcastTo": common.broadcast_to,
    "Range": common.plain("Range"),
    "Shape": common.shape,
    "Size": _size,
    "Rank": _rank,
    "GatherV2": _gather,
    "Gather": _gather,
    "GatherNd": lambda site: site.builder.add(
        "GatherND", site.x(0), as_int64(site.builder, site.x(1)), name=site.name
    ),
    "ArgMax": common.arg("ArgMax"),
    "ArgMin": common.arg("ArgMin"),
    "TopKV2": common.top_k,
    "ZerosLike": _like(0),
    "OnesLike": _like(1),
    "OneHot": common.one_hot,
    "Cumsum": common.cumulate,
    "ReverseV2": common.reverse,
}
