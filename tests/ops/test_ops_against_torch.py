"""References of normalisations, Resize, Pad and softmax against PyTorch in float64: an oracle nobody here wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

import cenote
from cenote.core.errors import ArgumentError, CenoteError, DTypeError, ShapeError, UnsupportedError
from cenote.core.types import TensorType
from cenote.ops.base import Op
from cenote.ops.elementwise.activation import Clip, Gelu, Relu
from cenote.ops.elementwise.binary import Add, PRelu
from cenote.ops.movement.pad import Pad
from cenote.ops.movement.parts import Concat
from cenote.ops.movement.resize import Resize
from cenote.ops.normalization.batch_normalization import BatchNormalization
from cenote.ops.normalization.instance_normalization import GroupNormalization, InstanceNormalization
from cenote.ops.normalization.layer_normalization import LayerNormalization, LpNormalization, RMSNormalization
from cenote.ops.normalization.lrn import LRN
from cenote.ops.normalization.softmax import LogSoftmax, Softmax
from cenote.ops.reduction.reduce import ReduceLogSumExp, ReduceMean, ReduceSum
from cenote.ops.values import seeded

torch = pytest.importorskip("torch")
functional = torch.nn.functional
X = seeded((2, 12, 9, 7), 1, np.float64)
CHANNELS = [seeded((12,), n, np.float64) for n in range(2, 5)]
VARIANCE = np.abs(seeded((12,), 6, np.float64)) + 0.1
ROW = [seeded((9, 7), n, np.float64) for n in range(2, 4)]


def resized(**arguments: Any) -> Callable[..., Any]:
    return lambda x: functional.interpolate(x, **arguments)


CASES: list[tuple[Op, list[np.ndarray[Any, Any]], Callable[..., Any]]] = [
    (Resize("linear", "half_pixel", sizes=(13, 4), axes=(2, 3)), [X], resized(size=(13, 4), mode="bilinear")),
    (Resize("linear", "align_corners", sizes=(13, 4), axes=(2, 3)), [X],
     resized(size=(13, 4), mode="bilinear", align_corners=True)),
    (Resize("cubic", "half_pixel", sizes=(13, 4), axes=(2, 3)), [X], resized(size=(13, 4), mode="bicubic")),
    (Resize("linear", "half_pixel", sizes=(4, 3), axes=(2, 3), antialias=True, exclude_outside=True), [X],
     resized(size=(4, 3), mode="bilinear", antialias=True)),
    (Resize("nearest", "asymmetric", "floor", sizes=(13, 4), axes=(2, 3)), [X], resized(size=(13, 4))),
    (Resize("nearest", "half_pixel", "round_prefer_ceil", sizes=(13, 4), axes=(2, 3)), [X],
     resized(size=(13, 4), mode="nearest-exact")),
    (Pad(((0, 0), (0, 0), (2, 1), (3, 0)), "reflect"), [X], lambda x: functional.pad(x, (3, 0, 2, 1), "reflect")),
    (Pad(((0, 0), (0, 0), (2, 1), (3, 0)), "edge"), [X], lambda x: functional.pad(x, (3, 0, 2, 1), "replicate")),
    (Pad(((0, 0), (0, 0), (2, 1), (3, 0)), "wrap"), [X], lambda x: functional.pad(x, (3, 0, 2, 1), "circular")),
    (Pad(((0, 0), (0, 0), (2, -1), (-3, 0)), value=2.5), [X], lambda x: functional.pad(x, (-3, 0, 2, -1), value=2.5)),
    (BatchNormalization(), [X, *CHANNELS, VARIANCE],
     lambda x, s, b, m, v: functional.batch_norm(x, m, v, s, b)),
    (InstanceNormalization(), [X, *CHANNELS[:2]], lambda x, s, b: functional.instance_norm(x, weight=s, bias=b)),
    (GroupNormalization(4), [X, *CHANNELS[:2]], lambda x, s, b: functional.group_norm(x, 4, s, b)),
    (LayerNormalization(2), [X, *ROW], lambda x, s, b: functional.layer_norm(x, (9, 7), s, b)),
    (RMSNormalization(2), [X, ROW[0]], lambda x, s: functional.rms_norm(x, (9, 7), s, 1e-5)),
    (LpNormalization(1, 2), [X], lambda x: functional.normalize(x, dim=1)),
    (LpNormalization(-1, 1), [X], lambda x: functional.normalize(x, p=1.0, dim=-1)),
    (LRN(5, 0.1, 0.75, 2.0), [X], lambda x: functional.local_response_norm(x, 5, 0.1, 0.75, 2.0)),
    (Softmax(1), [X], lambda x: x.softmax(1)),
    (LogSoftmax(-1), [X], lambda x: x.log_softmax(-1)),
    (ReduceMean((0, 2), keepdims=False), [X], lambda x: x.mean((0, 2))),
    (ReduceLogSumExp((1,)), [X * 300], lambda x: x.logsumexp(1, keepdim=True)),
    (PRelu(), [X, CHANNELS[0][:, None, None]], lambda x, s: functional.prelu(x, s.reshape(-1))),
]  # fmt: skip


@pytest.mark.parametrize(("op", "arrays", "oracle"), CASES, ids=lambda x: str(x) if isinstance(x, Op) else "")
def test_reference(op: Op, arrays: list[np.ndarray[Any, Any]], oracle: Callable[..., Any]) -> None:
    wanted = oracle(*(torch.from_numpy(array) for array in arrays)).numpy()
    (result,) = op.reference(*arrays)
    np.testing.assert_allclose(result, wanted, rtol=1e-9, atol=1e-10)


def f32(*shape: int) -> TensorType:
    return TensorType.of(np.float32, shape)


WRONG: list[tuple[Op, list[TensorType | None], type[CenoteError], str]] = [
    (Add(), [f32(2, 3), f32(4)], ShapeError, "do not broadcast"),
    (Add(), [f32(2, 3), TensorType.of(np.int32, (3,))], DTypeError, "different types"),
    (Add(), [f32(2, 3), None], ShapeError, "missing"),
    (Relu(), [TensorType.of(np.bool_, (3,))], DTypeError, "not a number"),
    (Gelu("fast"), [f32(3)], UnsupportedError, "fast"),
    (Clip(), [f32(3), f32(2)], ShapeError, "scalar"),
    (PRelu(), [f32(3), f32(2, 3)], ShapeError, "slope"),
    (Softmax(3), [f32(2, 3)], ShapeError, "axis 3"),
    (ReduceSum((0, -2)), [f32(2, 3)], ArgumentError, "twice"),
    (Concat(1), [f32(2, 3), f32(3, 3)], ShapeError, "differ"),
    (Pad(((1, 1),), "mirror"), [f32(3)], UnsupportedError, "mirror"),
    (Pad(((-2, -2),)), [f32(3)], ShapeError, "crop"),
    (Pad(((1, 1),), "reflect"), [f32(0)], ShapeError, "needs elements"),
    (Resize("area", scales=(2.0,)), [f32(3)], UnsupportedError, "area"),
    (Resize(scales=(0.0,)), [f32(3)], ArgumentError, "positive"),
    (Resize(scales=(2.0, 2.0)), [f32(3)], ShapeError, "do not fit"),
    (Resize(), [f32(3)], ArgumentError, "scales or sizes"),
    (Resize(scales=(1e30,)), [f32(3)], ArgumentError, "gives"),
    (BatchNormalization(), [f32(2, 3), f32(3), f32(3), f32(3), f32(4)], ShapeError, "input_var"),
    (GroupNormalization(2), [f32(2, 3, 4), f32(3), f32(3)], ArgumentError, "groups"),
    (LRN(0), [f32(2, 3)], ArgumentError, "size 0"),
    (LpNormalization(-1, float("nan")), [f32(2, 3)], ArgumentError, "p is not a number"),
]


@pytest.mark.parametrize(
    ("op", "types", "error", "message"), WRONG, ids=lambda x: str(x) if isinstance(x, Op) else ""
)
def test_refused(op: Op, types: list[TensorType | None], error: type[CenoteError], message: str) -> None:
    with pytest.raises(error, match=message):
        op.infer(*types)


def test_group_normalization_of_opset_18() -> None:
    """Its scale and bias per group: ONNX deprecates it, exporters wrote it and onnxruntime runs it."""
    kind, rng = onnx.TensorProto.FLOAT, np.random.default_rng(0)
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2, epsilon=1e-3)], "groups",
        [value("x", kind, ["N", 6, 3, 5]), value("s", kind, [2]), value("b", kind, [2])], [value("y", kind, None)],
    )  # fmt: skip
    model = cenote.load(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)]))
    scale, bias = rng.standard_normal((2, 2)).astype(np.float32)
    for batch in (1, 3):
        x = rng.standard_normal((batch, 6, 3, 5)).astype(np.float32)
        channels = [torch.from_numpy(np.repeat(parameter, 3)) for parameter in (scale, bias)]
        want = functional.group_norm(torch.from_numpy(x), 2, *channels, eps=1e-3)
        np.testing.assert_allclose(model(x, scale, bias), want.numpy(), atol=2e-6)
