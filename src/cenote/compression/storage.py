"""Weights in fewer bits: constants that a node of the model itself decodes, so that any engine runs the result.

    w (float32)    ->    w = Cast(w.float16)    or    w = DequantizeLinear(w.int4, w.scales, block_size=32)

Integers have one scale per filter of a convolution, or per block along the depth. A block's scale is that of some which
rounds its weights with the least square error: the largest weight on the last number, or less, with few weights cut.
"""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from cenote.compression.network import BLOCKS_SINCE, SharedNetwork, WeightLayer
from cenote.core.types import Array, dtype_named

FLOATS = {"float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}
INTEGERS = {"int8": 8, "int4": 4}
BLOCK = {"int8": 64, "int4": 32}
_CLIPS = (1.0, 0.9, 0.8, 0.7)  # parts of the largest weight that the last number may stand for
_PART = 1 << 15  # weights that are rounded at a time
_LEAST = 512  # bytes of weights that are worth a node
_CAST_SINCE = {"float16": 6, "bfloat16": 13}  # opsets whose Cast and DequantizeLinear do it
_ROWS_SINCE = 13


def stored(network: SharedNetwork, layer: WeightLayer, kind: str) -> SharedNetwork | None:
    """Return the network with a layer's weights stored in a type; None where it cannot say that, or nothing is
    gained."""
    values = network.array(layer.weights)
    if values.nbytes < _LEAST or not np.isfinite(values).all():
        return None
    if kind in FLOATS:
        return _as_floats(network, layer, values, kind)
    filters, blocks = _way(network, layer, values, kind)
    if not filters and not blocks:
        return None
    axis, block = (layer.filters, 0) if filters else (layer.depth, BLOCK[kind])
    numbers, scales = quantized(values, axis, block, INTEGERS[kind])
    stem = layer.weights
    packed = _tensor(network.fresh(f"{stem}.{kind}"), numbers, kind)
    scale = numpy_helper.from_array(scales, network.fresh(f"{stem}.scales"))
    more = {"block_size": block} if block else {}
    node = helper.make_node("DequantizeLinear", [packed.name, scale.name], [stem], axis=axis, **more)
    return _decoded(network, layer, node, packed, scale)


def _way(network: SharedNetwork, layer: WeightLayer, values: Array, kind: str) -> tuple[bool, bool]:
    """Whether there is a scale per filter, or per block of the depth."""
    if kind == "int4" or layer.is_product:
        if network.opset >= BLOCKS_SINCE:
            return False, layer.is_product or values.shape[layer.depth] % BLOCK[kind] == 0
        return kind == "int8" and network.opset >= _ROWS_SINCE, False
    return network.opset >= _ROWS_SINCE, False


def _as_floats(network: SharedNetwork, layer: WeightLayer, values: Array, kind: str) -> SharedNetwork | None:
    with np.errstate(over="ignore"):
        halves = values.astype(dtype_named(kind))
    if network.opset < _CAST_SINCE[kind] or not np.isfinite(halves.astype(np.float32)).all():
        return None
    tensor = TensorProto(
        name=network.fresh(f"{layer.weights}.{kind}"),
        data_type=FLOATS[kind],
        dims=values.shape,
        raw_data=halves.tobytes(),
    )
    node = helper.make_node("Cast", [tensor.name], [layer.weights], to=TensorProto.FLOAT)
    return _decoded(network, layer, node, tensor)


def _decoded(
    network: SharedNetwork, layer: WeightLayer, node: NodeProto, *tensors: TensorProto
) -> SharedNetwork:
    """Return the network in which a node makes a layer's weights of other constants."""
    node.name = network.fresh(f"{layer.weights}.decoded")
    return network.changed((node, *network.nodes), [layer.weights], {each.name: each for each in tensors})


def quantized(values: Array, axis: int, block: int, bits: int) -> tuple[Array, Array]:
    """Return whole numbers and the scales of blocks along an axis (of each index of it, without blocks)."""
    if not block:
        rows = np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)
        numbers, scales = _rounded(rows, bits)
        moved = numbers.reshape(np.moveaxis(values, axis, 0).shape)
        return np.ascontiguousarray(np.moveaxis(moved, 0, axis)), scales
    last = np.moveaxis(values, axis, -1)
    depth = last.shape[-1]
    count = -(-depth // block)
    padded = np.pad(last, [(0, 0)] * (last.ndim - 1) + [(0, count * block - depth)])
    numbers, scales = _rounded(padded.reshape(-1, block), bits)
    whole = numbers.reshape(*last.shape[:-1], count * block)[..., :depth]
    grid = scales.reshape(*last.shape[:-1], count)
    return (
        np.ascontiguousarray(np.moveaxis(whole, -1, axis)),
        np.ascontiguousarray(np.moveaxis(grid, -1, axis)),
    )


def _rounded(rows: Array, bits: int) -> tuple[Array, Array]:
    """Return each row in whole numbers with the best of some scales; a part at a time, which stays in the caches."""
    each = max(1, _PART // rows.shape[1])
    parts = [_rounded_part(rows[at : at + each], bits) for at in range(0, len(rows), each)]
    numbers, scales = zip(*parts, strict=True)
    return np.concatenate(numbers), np.concatenate(scales)


def _rounded_part(rows: Array, bits: int) -> tuple[Array, Array]:
    top = (1 << bits - 1) - 1
    largest = np.abs(rows).max(axis=1)
    best = np.full(len(rows), np.inf)
    numbers, scales = np.zeros(rows.shape, np.int8), np.ones(len(rows), np.float32)
    for clip in _CLIPS if bits < 8 else _CLIPS[:1]:
        scale = np.where(largest > 0, largest * np.float32(clip / top), np.float32(1)).astype(np.float32)
        scale = np.maximum(scale, np.finfo(np.float32).tiny)
        exact = rows / scale[:, None]
        tried = np.clip(np.rint(exact), -top - 1, top)
        error = np.square(tried - exact).sum(axis=1) * clip**2  # in steps of the largest scale
        better = error < best
        best, scales = np.where(better, error, best), np.where(better, scale, scales)
        numbers[better] = tried[better].astype(np.int8)
    return numbers, scales


def _tensor(name: str, numbers: Array, kind: str) -> TensorProto:
    """Return whole numbers as a constant, two of 4 bits in a byte, the first in its lower half."""
    raw: Array = numbers.reshape(-1).view(np.uint8)
    if kind == "int4":
        even = np.pad(raw, (0, raw.size % 2)) & 15
        raw = even[0::2] | even[1::2] << 4
    which = TensorProto.INT4 if kind == "int4" else TensorProto.INT8
    return TensorProto(name=name, data_type=which, dims=numbers.shape, raw_data=raw.tobytes())
