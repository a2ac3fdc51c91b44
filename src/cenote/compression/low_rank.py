"""Large products as pairs of thin ones: W = A B by its singular values, where A and B are much smaller than W.

    y = x W' + c    ->    t = x B', y = t A' + c               W (N, K), A (N, r), B (r, K)

Convolutions with windows of one pixel are products of every pixel.
"""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, helper, numpy_helper

from cenote.compression.network import SharedNetwork, WeightLayer
from cenote.core.types import Array
from cenote.quantization.network import attribute, read_inside

_SMALLER = 0.7  # most of the weights that may be left
_WHOLE = 2048  # rows or columns of a matrix whose singular values are all computed
_SKETCH = 256  # most of the rank of larger ones
_LEAST = 1 << 14  # weights that are worth a second product


def thin(network: SharedNetwork, layer: WeightLayer, within: float) -> SharedNetwork | None:
    """Return the network with a layer as a pair of the least rank that keeps its weights within a relative error;
    None where that is not much smaller."""
    values = network.array(layer.weights)
    if values.size < _LEAST or not np.isfinite(values).all() or not _is_product(layer, values):
        return None
    matrix = values.reshape(values.shape[:2])
    matrix = matrix if layer.filters == 0 else matrix.T
    pair = factors(matrix, within)
    return None if pair is None else _replaced(network, layer, values, *pair)


def _is_product(layer: WeightLayer, values: Array) -> bool:
    node = layer.node
    if node.op_type == "Gemm":
        return attribute(node, "alpha", 1.0) == 1 and not attribute(node, "transA", 0)
    return values.shape[2:] == (1,) * (values.ndim - 2) and attribute(node, "group", 1) == 1


def factors(matrix: Array, within: float) -> tuple[Array, Array] | None:
    """Return A (N, r) and B (r, K), whose product is the matrix but for a relative error; None where they have more
    than 0.7 times its weights."""
    if matrix.shape[0] > matrix.shape[1]:
        turned = factors(matrix.T, within)
        return None if turned is None else (turned[1].T, turned[0].T)
    n, k = matrix.shape
    most = int(_SMALLER * n * k / (n + k))
    wide = matrix.astype(np.float64)
    space = np.eye(n) if n <= _WHOLE else _column_space(wide, min(most, _SKETCH))
    seen = wide if n <= _WHOLE else space.T @ wide
    # The eigenvectors of W W' are W's singular vectors, and take a tenth of the time of those (1,024 by 16,384).
    squares, vectors = np.linalg.eigh(seen @ seen.T)
    total = float(np.square(wide).sum())
    lost = np.sqrt(np.maximum(total - np.cumsum(squares[::-1]), 0))
    enough = np.nonzero(lost <= within * total**0.5)[0]
    if not len(enough) or enough[0] >= most:
        return None
    first = space @ vectors[:, : -int(enough[0]) - 2 : -1]
    return first.astype(np.float32), (first.T @ wide).astype(np.float32)


def _column_space(wide: Array, count: int) -> Array:
    """Return an orthonormal basis of nearly all of a matrix's columns, if they have so few dimensions: N. Halko,
    P. Martinsson, J. Tropp, "Finding structure with randomness", SIAM Review 2011."""
    seen = wide @ np.random.default_rng(0).standard_normal((wide.shape[1], count))
    basis: Array = np.linalg.qr(wide @ (wide.T @ np.linalg.qr(seen)[0]))[0]
    return basis


def _replaced(network: SharedNetwork, layer: WeightLayer, values: Array, a: Array, b: Array) -> SharedNetwork:
    """Return the network with two layers in place of one."""
    node, between = layer.node, network.fresh(f"{layer.node.output[0]}.thin")
    names = [network.fresh(f"{layer.weights}.{which}") for which in ("first", "second")]
    pair = [b, a] if layer.filters == 0 else [b.T, a.T]
    ones = values.shape[2:]
    tensors = {
        name: numpy_helper.from_array(np.ascontiguousarray(each.reshape(*each.shape, *ones)), name)
        for name, each in zip(names, pair, strict=True)
    }
    first, second = NodeProto(), NodeProto()
    first.CopyFrom(node)
    first.name, second.name = f"{layer.name}.first", node.name
    del first.input[:], first.output[:]
    first.input.extend([node.input[0], names[0]])
    first.output.append(between)
    second.op_type = node.op_type
    second.input.extend([between, names[1], *node.input[2:]])
    second.output.extend(node.output)
    if node.op_type == "Conv":
        second.attribute.append(helper.make_attribute("kernel_shape", list(ones)))
    else:
        second.attribute.extend(node.attribute)
    nodes = [each for old in network.nodes for each in ((first, second) if old is node else (old,))]
    read = {str(each.name) for each in network.shell.graph.output}
    read |= {name for each in nodes for name in (*each.input, *read_inside(each))}
    return network.changed(nodes, () if layer.weights in read else [layer.weights], tensors)
