"""Shapes where runtimes disagree: ONNX's own shape inference decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import cenote
from cenote.core.computed import SizedArray
from cenote.core.errors import ShapeError
from cenote.core.trace import Trace
from cenote.core.types import FLOAT32, TensorType
from cenote.ops.elementwise.where import TileArray
from cenote.ops.linear.einsum import Einsum


def model(
    operator: str, names: list[str], x: tuple[int, ...], constants: dict[str, Any], **attributes: Any
) -> Any:
    """One node; `names` are its inputs, x is the only one that is not constant."""
    graph = helper.make_graph(
        [helper.make_node(operator, names, ["y"], **attributes)], "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


def inferred(proto: Any) -> tuple[int, ...]:
    (output,) = onnx.shape_inference.infer_shapes(proto, strict_mode=True).graph.output
    return tuple(extent.dim_value for extent in output.type.tensor_type.shape.dim)


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
@pytest.mark.parametrize("axes", [(-1, 0), (3, 0), (-1, -4), (-2, -1), (2, -1)])
def test_resize_counts_axes_from_the_end(axes: tuple[int, ...], policy: str) -> None:
    """ONNX Runtime leaves axes below 0 as they are where the aspect ratio is kept."""
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)
    sizes = {"sizes": np.array([7, 8])}
    made = []
    for chosen in (axes, tuple(axis % 4 for axis in axes)):
        proto = model(
            "Resize", ["x", "", "", "sizes"], x.shape, sizes, axes=chosen, keep_aspect_ratio_policy=policy
        )
        made.append(cenote.load(proto)(x))
        assert made[-1].shape == inferred(proto)
    np.testing.assert_array_equal(*made)


@pytest.mark.parametrize(
    ("window", "attributes"),
    [
        ((2, 2), {"dilations": [2, 2]}),
        ((2, 4), {}),
        ((2, 4), {"pads": [0, 1, 0, 1]}),
        ((2, 2), {"strides": [2, 2]}),
        ((2, 4), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
        ((2, 4), {"output_shape": [5, 4], "strides": [2, 2]}),
    ],
)
def test_a_transposed_convolution_of_an_empty_axis_leaves_the_bias(
    window: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    weights = {"w": np.ones((1, 2, *window), np.float32), "bias": np.array([3, -4], np.float32)}
    proto = model("ConvTranspose", ["x", "w", "bias"], (1, 1, 3, 0), weights, **attributes)
    y = cenote.load(proto)(np.zeros((1, 1, 3, 0), np.float32))
    assert y.shape == inferred(proto)
    np.testing.assert_array_equal(y, np.broadcast_to([[[[3]], [[-4]]]], y.shape))


def test_a_transposed_convolution_of_less_than_nothing_is_refused() -> None:
    weights = {"w": np.ones((1, 1, 2, 2), np.float32)}
    proto = model("ConvTranspose", ["x", "w"], (1, 1, 3, 0), weights, strides=[3, 3])
    with pytest.raises(ShapeError, match="larger input"):
        cenote.load(proto)


def test_open_axes_are_not_asked_whether_they_are_one() -> None:
    """A batch of one would be another class of plans."""
    trace = Trace()
    n: Any = trace.dimension(2)
    kinds = [TensorType(FLOAT32, (batch, 3, 3)) for batch in (n, n, 1)]
    for inputs in ([kinds[0], kinds[1]], [kinds[0], kinds[2]], [kinds[2], kinds[0]]):
        (product,) = Einsum("bij,bjk->bik").types(*inputs)
        assert repr(product.shape[0]) == repr(n)
    repeats = TensorType.known(SizedArray.of([n, 1, 2], np.dtype(np.int64)))
    (tiled,) = TileArray().types(kinds[2], repeats)
    assert repr(tiled.shape) == repr((n, 3, 6))
    assert not trace.guards
