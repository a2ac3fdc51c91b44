"""Operators that move, cut and join tensors, and compute with shapes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cenote.frontends import pieces
from cenote.frontends import tensorflow_common as common
from cenote.frontends.strided_slice import as_int64
from cenote.frontends.tflite.site import Decode, OperatorSite


def _concat(site: OperatorSite) -> str:
    axis = site.integer("axis")
    return site.activated(lambda name: site.builder.add("Concat", *site.values(), axis=axis, name=name))


def _reshape(site: OperatorSite) -> str:
    given = site.has(1)
    shape = (
        as_int64(site.builder, site.stored(1)) if given else site.builder.integers(site.integers("new_shape"))
    )
    return site.builder.add("Reshape", site.x(), shape, name=site.name, allowzero=1)


def _dequantize(site: OperatorSite) -> str:
    """Decode DEQUANTIZE: half floats become a wider type, integers the numbers that they represent."""
    content = site.importer.constant(site.tensor_number(0))
    if content is not None and content.dtype.kind == "f":
        return site.builder.constant(content.astype(np.float32), site.name)
    kind = site.importer.tensor(site.tensor_number(0)).element()
    return site.builder.cast(site.x(), np.dtype(np.float32), site.name) if kind.kind == "f" else site.x()


def _gather(site: OperatorSite) -> str:
    axis, batch_dims = site.integer("axis"), site.integer("batch_dims")
    return pieces.gathered(site.builder, site.x(), site.stored(1), axis, batch_dims, site.name)


SHAPES: Mapping[str, Decode] = {
    "CONCATENATION": _concat,
    "RESHAPE": _reshape,
    "SQUEEZE": lambda site: common.squeezed(site, site.integers("squeeze_dims")),
    "EXPAND_DIMS": common.expand_dims,
    "TRANSPOSE": common.transpose,
    "SPLIT": common.split("num_splits"),
    "SPLIT_V": common.split_v,
    "PACK": common.pack,
    "UNPACK": common.unpack,
    "SLICE": common.slice_,
    "STRIDED_SLICE": common.strided_slice,
    "PAD": common.pad,
    "PADV2": common.pad,
    "MIRROR_PAD": lambda site: common.padded(site, "symmetric" if site.integer("mode") else "reflect"),
    "RESIZE_BILINEAR": common.resize("linear"),
    "RESIZE_NEAREST_NEIGHBOR": common.resize("nearest"),
    "SPACE_TO_DEPTH": common.depth("SpaceToDepth"),
    "DEPTH_TO_SPACE": common.depth("DepthToSpace"),
    "CAST": common.cast,
    "DEQUANTIZE": _dequantize,
    "QUANTIZE": lambda site: site.x(),
    "DENSIFY": lambda site: site.stored(0),
    "GATHER": _gather,
    "ARG_MAX": common.arg("ArgMax"),
    "ARG_MIN": common.arg("ArgMin"),
    "TOPK_V2": common.top_k,
    "SHAPE": common.shape,
    "ONE_HOT": common.one_hot,
    "TILE": common.tile,
    "BROADCAST_TO": common.broadcast_to,
    "FILL": common.fill,
    **common.alike(
        "SELECT SELECT_V2",
        lambda site: site.builder.add("Where", site.stored(0), site.x(1), site.x(2), name=site.name),
    ),
    "CUMSUM": common.cumulate,
    "REVERSE_V2": common.reverse,
}
