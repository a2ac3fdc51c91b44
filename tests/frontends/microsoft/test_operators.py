"""The operators of ONNX Runtime's own domain, against ONNX Runtime and against the references in float64 arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import cenote
from cenote.core.errors import CenoteError, UnsupportedError
from cenote.core.types import Array, TensorType
from cenote.frontends.microsoft.operators import NAMES
from cenote.frontends.onnx import load_onnx
from cenote.graph.interpreter import evaluate
from cenote.ops.table import DECODERS
from cenote.passes.specialize import specialize

RNG = np.random.default_rng(3)


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def small(dtype: Any, *shape: int) -> Array:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return RNG.integers(low, high, shape, endpoint=True).astype(dtype)


def weights(dtype: Any, *shape: int) -> Array:
    """Of 7 bits: ONNX Runtime adds pairs of 8-bit products in 16 bits where the CPU has no VNNI, and saturates."""
    middle = (int(np.iinfo(dtype).min) + int(np.iinfo(dtype).max) + 1) // 2
    return RNG.integers(middle - 64, middle + 64, shape).astype(dtype)


def scale(value: float) -> Array:
    return np.array(value, np.float32)


def u8(value: int) -> Array:
    return np.array(value, np.uint8)


def i8(value: int) -> Array:
    return np.array(value, np.int8)


@dataclass(frozen=True)
class Case:
    """One node. `steps` is how far a quantised answer may be off: ONNX Runtime rounds halves of its own float sums."""

    kind: str
    inputs: Sequence[Array | None]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    steps: int = 0
    domain: str = "com.microsoft"
    asked: Sequence[int] = ()

    def __str__(self) -> str:
        shown = "_".join(
            f"{name}{value}" for name, value in self.attributes.items() if not isinstance(value, list)
        )
        return f"{self.kind}_{len(self.inputs)}_{self.inputs[0].dtype}_{shown}".replace(" ", "")  # type: ignore[union-attr]

    def model(self) -> onnx.ModelProto:
        names = [f"x{i}" if x is not None else "" for i, x in enumerate(self.inputs)]
        made = [f"y{i}" if not self.asked or i in self.asked else "" for i in range(self.outputs)]
        one = helper.make_node(self.kind, names, made, "the_node", domain=self.domain, **self.attributes)
        inputs = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for name, x in zip(names, self.inputs, strict=True)
            if x is not None
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in made if name]
        graph = helper.make_graph([one], "g", inputs, outputs)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    @property
    def feed(self) -> dict[str, Array]:
        return {f"x{i}": x for i, x in enumerate(self.inputs) if x is not None}


X, Q = floats(2, 5, 16), (small(np.uint8, 2, 6, 5), scale(0.05), u8(120))
S = (small(np.int8, 2, 6, 5), scale(0.04), i8(-3))
PICTURE = floats(2, 4, 9, 7)
WINDOW = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}
NHWC = (small(np.uint8, 2, 9, 7, 4), scale(0.05), u8(128))
NCHW = (small(np.uint8, 2, 4, 9, 7), scale(0.05), u8(128))
WEIGHTS = (
    weights(np.int8, 6, 4, 3, 3),
    np.linspace(0.001, 0.003, 6).astype(np.float32),
    small(np.int8, 6) * 0,
)
INTO = (scale(0.1), u8(131))
HIDDEN = (floats(2, 5, 16), floats(2, 5, 16), floats(16), floats(16), floats(16))
KEPT = np.array([[1, 1, 1, 0, 0], [1] * 5], np.int32)
BERT = (small(np.uint8, 2, 5, 16), weights(np.int8, 16, 48), floats(48), scale(0.02),
        np.linspace(0.001, 0.01, 48).astype(np.float32), KEPT, u8(118), np.zeros(48, np.int8))  # fmt: skip
TABLES = (
    small(np.int32, 2, 6) % 10, small(np.int32, 2, 6) % 2, small(np.uint8, 10, 8), small(np.uint8, 12, 8),
    small(np.uint8, 2, 8), small(np.uint8, 8), small(np.uint8, 8), np.array([[1, 1, 1, 0, 0, 0], [1] * 6], np.int32),
    *(scale(0.01 * (i + 1)) for i in range(5)), *(u8(100 + i) for i in range(5)),
)  # fmt: skip


def narrow(
    bits: int, n: int, k: int, block: int, zeros: bool = False, bias: bool = False
) -> tuple[Array | None, ...]:
    """Rows of x, and weights of few bits in blocks of the depth, with their scales, zero points and a bias."""
    blocks = -(-k // block)
    steps = np.abs(floats(n, blocks)) * np.float32(0.05)
    middles = small(np.uint8, n, -(-blocks * bits // 8)) if zeros else None
    return (
        floats(3, k), small(np.uint8, n, blocks, block * bits // 8), steps, middles, None, floats(n) if bias else None,
    )[: 6 if bias else 4 if zeros else 3]  # fmt: skip


def recurrent(
    directions: int, dtype: Any = np.int8, columns: bool = False, lengths: bool = False, states: bool = False
) -> tuple[Array | None, ...]:
    """Inputs of an LSTM of bytes: 7 steps of 3 samples with 5 features, 12 units."""
    shape, middle = ((directions, 48) if columns else (directions,)), (128 if dtype == np.uint8 else 0)
    parts = [np.abs(floats(*shape)) * np.float32(0.005), np.full(shape, middle, dtype)]
    first = (floats(directions, 3, 12), floats(directions, 3, 12)) if states else (None, None)
    return (
        floats(7, 3, 5), weights(dtype, directions, 5, 48), weights(dtype, directions, 12, 48), floats(directions, 96),
        np.array([6, 2, 4], np.int32) if lengths else None, *first, None, *parts, *parts,
    )  # fmt: skip


CASES = [
    Case("Gelu", (X,)),
    Case("FastGelu", (X,)),
    Case("FastGelu", (X, floats(16))),
    Case("QuickGelu", (X,)),
    Case("QuickGelu", (X,), {"alpha": 0.5}),
    Case("BiasGelu", (X, floats(16))),
    Case("FusedConv", (PICTURE, floats(6, 4, 3, 3), floats(6)), {**WINDOW, "activation": "Relu"}),
    Case("FusedConv", (PICTURE, floats(6, 2, 3, 3), None, floats(2, 6, 5, 4)), 
         {**WINDOW, "group": 2, "activation": "Relu"}),
    Case("FusedConv", (PICTURE, floats(6, 4, 1, 1)), {"activation": "LeakyRelu", "activation_params": [0.2]}),
    Case("FusedConv", (PICTURE, floats(6, 4, 1, 1)), {"activation": "Clip", "activation_params": [-0.5, 0.5]}),
    Case("FusedConv", (PICTURE, floats(6, 4, 1, 1)), {"activation": "HardSigmoid", "activation_params": [0.3, 0.4]}),
    Case("FusedGemm", (floats(3, 5), floats(4, 5), floats(4)),
         {"transB": 1, "alpha": 0.5, "beta": 2.0, "activation": "LeakyRelu", "activation_alpha": 0.1}),
    Case("FusedMatMul", (floats(2, 5, 3), floats(2, 4, 5)), {"transA": 1, "transB": 1, "alpha": 0.25}),
    Case("FusedMatMul", (floats(5, 3), floats(3, 4))),
    Case("SkipLayerNormalization", HIDDEN, {"epsilon": 1e-3}),
    Case("SkipLayerNormalization", (*HIDDEN[:3], None, HIDDEN[4]), {"epsilon": 1e-5}, 4, asked=(0, 3)),
    Case("SkipSimplifiedLayerNormalization", HIDDEN[:4], {"epsilon": 1e-3}, 4, asked=(0, 3)),
    Case("SimplifiedLayerNormalization", (X, floats(16)), {"axis": -1, "epsilon": 1e-3}, domain=""),
    Case("EmbedLayerNormalization",
         (small(np.int32, 2, 6) % 10, small(np.int32, 2, 6) % 2, floats(10, 8), floats(12, 8), floats(2, 8),
          floats(8), floats(8), np.array([[1, 1, 1, 0, 0, 0], [1] * 6], np.int32)), {"epsilon": 1e-6}, 2),
    Case("EmbedLayerNormalization",
         (small(np.int32, 2, 6) % 10, None, floats(10, 8), floats(12, 8), None, floats(8), floats(8)), {}, 2),
    Case("Attention", (X, floats(16, 48), floats(48)), {"num_heads": 4}),
    Case("Attention", (X, floats(16, 48), floats(48)), {"num_heads": 2, "unidirectional": 1}),
    Case("MultiHeadAttention", (X, floats(2, 7, 16), floats(2, 7, 16)), {"num_heads": 4}),
    Case("MultiHeadAttention", (X, X, floats(2, 5, 16), floats(48), None, floats(2, 4, 5, 5)),
         {"num_heads": 4, "scale": 0.3}),
    Case("QLinearAdd", (*Q, small(np.uint8, 6, 5), scale(0.1), u8(100), *INTO), steps=1),
    Case("QLinearAdd", (*S, small(np.int8, 2, 1, 5), scale(0.1), i8(7), scale(0.11), i8(1)), steps=1),
    Case("QLinearMul", (*Q, small(np.uint8, 5), scale(0.1), u8(100), *INTO), steps=1),
    Case("QLinearConcat", (*INTO, *Q, small(np.uint8, 2, 3, 5), scale(0.1), u8(3)), {"axis": 1}, steps=1),
    Case("QLinearLeakyRelu", (*S, scale(0.03), i8(5)), {"alpha": 0.2}, steps=1),
    Case("QLinearSigmoid", (*Q, scale(1 / 256), u8(0)), steps=1),
    Case("QLinearSoftmax", (*Q, scale(1 / 256), u8(0)), {"axis": -1, "opset": 13}, steps=1),
    Case("QLinearGlobalAveragePool", (*NCHW, *INTO), {"channels_last": 0}, steps=1),
    Case("QLinearGlobalAveragePool", (*NHWC, *INTO), {"channels_last": 1}, steps=1),
    Case("QLinearAveragePool", (*NCHW, *INTO), {**WINDOW, "count_include_pad": 1}, steps=1),
    Case("QLinearAveragePool", (*NHWC, *INTO), {**WINDOW, "channels_last": 1}, steps=1),
    Case("QLinearConv", (*NHWC, *WEIGHTS, *INTO, small(np.int8, 6).astype(np.int32) * 100),
         {**WINDOW, "channels_last": 1}, steps=1),
    Case("NhwcMaxPool", (small(np.uint8, 2, 9, 7, 4),), WINDOW),
    Case("NhwcMaxPool", (small(np.int8, 2, 9, 7, 4),), {"kernel_shape": [2, 2], "ceil_mode": 1, "strides": [2, 2]}),
    Case("QGemm", (small(np.uint8, 3, 5), scale(0.05), u8(120), weights(np.uint8, 5, 4), scale(0.04), u8(130),
                   small(np.int8, 4).astype(np.int32) * 20, scale(0.3), u8(100)), steps=1),
    Case("QGemm", (small(np.uint8, 3, 5), scale(0.05), u8(120), weights(np.int8, 4, 5),
                   np.linspace(0.01, 0.05, 4).astype(np.float32), np.zeros(4, np.int8)), {"transB": 1, "alpha": 0.5}),
    Case("DynamicQuantizeMatMul", (floats(3, 6), weights(np.int8, 6, 4), scale(0.02), i8(3), floats(4))),
    Case("DynamicQuantizeMatMul", (floats(2, 3, 6), weights(np.uint8, 6, 4), np.full(4, 0.02, np.float32))),
    Case("MatMulIntegerToFloat", (small(np.uint8, 3, 6), weights(np.int8, 6, 4), scale(0.1), scale(0.02), u8(117),
                                  i8(2), floats(4))),
    # Halves, around odd zero points.
    Case("QLinearWhere", (RNG.random((2, 6, 5)) < 0.5, Q[0], scale(0.5), u8(121), small(np.uint8, 2, 6, 5), scale(0.25),
                          u8(7), scale(1.0), u8(131))),
    Case("QLinearWhere", (RNG.random((2, 6, 5)) < 0.5, *Q, small(np.uint8, 6, 5), scale(0.1), u8(100), *INTO),
         steps=1),
    Case("QLinearReduceMean", (*NCHW, scale(0.01), u8(131)), {"axes": [2, 3], "keepdims": 1}, steps=1),
    Case("QLinearReduceMean", (*NCHW, scale(0.01), u8(131)), {"axes": [1], "keepdims": 0}, steps=1),
    Case("QAttention", BERT, {"num_heads": 4}),
    Case("QAttention", (*BERT[:4], scale(0.01), *BERT[5:7], i8(3)), {"num_heads": 2}),
    Case("QAttention", (*BERT[:5], None, *BERT[6:]), {"num_heads": 4, "unidirectional": 1}),
    Case("Attention", (X, floats(16, 48), floats(48), KEPT), {"num_heads": 4}),
    Case("QEmbedLayerNormalization", TABLES, {"epsilon": 1e-6}, 2),
    Case("QEmbedLayerNormalization", (TABLES[0], None, *TABLES[2:4], None, *TABLES[5:7], None, *TABLES[8:10], None,
                                      *TABLES[11:15], None, *TABLES[16:]), {}, 2),
    Case("DynamicQuantizeLSTM", recurrent(1), {"hidden_size": 12}, 3),
    Case("DynamicQuantizeLSTM", recurrent(2, columns=True, lengths=True),
         {"hidden_size": 12, "direction": "bidirectional"}, 3),
    Case("DynamicQuantizeLSTM", recurrent(1, np.uint8, states=True), {"hidden_size": 12, "direction": "reverse"}, 3),
    Case("MatMulNBits", narrow(4, 40, 96, 32), {"K": 96, "N": 40, "bits": 4, "block_size": 32}),
    Case("MatMulNBits", narrow(4, 17, 80, 16, True), {"K": 80, "N": 17, "bits": 4, "block_size": 16}),
    Case("MatMulNBits", narrow(4, 24, 100, 64, True, True),
         {"K": 100, "N": 24, "bits": 4, "block_size": 64, "accuracy_level": 1}),
    Case("MatMulNBits", narrow(8, 40, 96, 32), {"K": 96, "N": 40, "bits": 8, "block_size": 32}),
    Case("MatMulNBits", narrow(8, 33, 128, 64, True, True), {"K": 128, "N": 33, "bits": 8, "block_size": 64}),
    Case("QuantizeLinear", (X, scale(0.05), np.array(300, np.uint16)), {"axis": 0}),
    Case("DequantizeLinear", (small(np.int8, 2, 5, 16), scale(0.05), i8(3)), {"axis": 0}),
]  # fmt: skip


def compared(found: Sequence[Array], expected: Sequence[Array], steps: int) -> None:
    for y, wanted in zip(found, expected, strict=True):
        assert y.shape == wanted.shape
        assert y.dtype == wanted.dtype
        if y.dtype.kind in "iu":
            assert np.abs(y.astype(np.int64) - wanted.astype(np.int64)).max() <= steps
        else:
            np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=2e-5)


# ONNX Runtime documents it, and has no kernel for it on CPUs.
WITHOUT_KERNEL = ("QLinearReduceMean",)


@pytest.mark.parametrize("case", [case for case in CASES if case.kind not in WITHOUT_KERNEL], ids=str)
def test_answers_are_those_of_onnxruntime(case: Case) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    onnxruntime.set_default_logger_severity(4)
    proto = case.model()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # of several each rounds the states of its own samples
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    found = cenote.load(proto, threads=1).run(case.feed)
    compared([*found.values()], session.run(None, case.feed), case.steps)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_answers_are_those_of_the_references(case: Case) -> None:
    proto = case.model()
    found = cenote.load(proto, threads=1).run(case.feed)
    compared([*found.values()], [*evaluate(load_onnx(proto).graph, case.feed).values()], case.steps)


@pytest.mark.parametrize("case", [case for case in CASES if case.kind in WITHOUT_KERNEL], ids=str)
def test_means_are_those_of_floats(case: Case) -> None:
    x, step, zero, y_step, y_zero = (np.float64(each) for each in case.inputs if each is not None)
    axes, keep = tuple(case.attributes["axes"]), bool(case.attributes["keepdims"])
    mean = ((x - zero) * step).mean(axes, keepdims=keep)
    wanted = np.clip(np.rint(mean / y_step) + y_zero, 0, 255).astype(np.uint8)
    found = cenote.load(case.model(), threads=1).run(case.feed)
    compared([*found.values()], [wanted], case.steps)


def test_weights_of_four_bits_stay_so() -> None:
    x, packed, steps = narrow(4, 40, 96, 32)
    case = Case("MatMulNBits", (x, packed, steps), {"K": 96, "N": 40, "bits": 4, "block_size": 32})
    proto = case.model()
    assert packed is not None
    assert steps is not None
    for name, value in (("x1", packed), ("x2", steps)):
        proto.graph.initializer.append(numpy_helper.from_array(value, name))
    del proto.graph.input[1:]
    graph = specialize(load_onnx(proto).graph, {"x0": TensorType.of(np.float32, (3, 96))}).graph
    (kept,) = (
        value
        for value in graph.constants.values()
        if value.dtype.name == "uint4" and value.shape == (96, 40)  # not the zero points
    )
    low, high = packed & 15, packed >> 4
    np.testing.assert_array_equal(kept.astype(np.uint8).T, np.stack([low, high], -1).reshape(40, 96))


@dataclass(frozen=True)
class Product:
    """A node that multiplies quantised matrices, and its sums in whole numbers of 64 bits times these scales."""

    case: Case
    sums: Array
    scales: Array | float
    bias: Array | float = 0.0
    into: tuple[Array, Array] | None = None

    @property
    def expected(self) -> Array:
        made = self.sums * np.asarray(self.scales, np.float64) + np.asarray(self.bias, np.float64)
        if self.into is None:
            return made.astype(np.float32)
        step, zero = self.into
        return np.clip(np.rint(made / float(step)) + int(zero), 0, 255).astype(np.uint8)


def summed(a: Array, a_zero: Array, b: Array, b_zero: Array) -> Array:
    return (a.astype(np.int64) - a_zero.astype(np.int64)) @ (b.astype(np.int64) - b_zero.astype(np.int64))


def extreme_products() -> list[Product]:
    """Matrices of the largest values, whose sums of two products do not fit 16 bits, and of all values."""
    found = []
    into = (scale(40.0), u8(100))
    for a in (np.full((3, 64), 255, np.uint8), small(np.uint8, 3, 64)):
        for b, zero in ((np.full((64, 5), 127, np.int8), i8(2)), (small(np.uint8, 64, 5), u8(130))):
            sums, bias = summed(a, u8(3), b, zero), floats(5)
            product = (a, b, scale(0.1), scale(0.02), u8(3), zero, bias)
            scales = float(scale(0.1)) * float(scale(0.02))
            found.append(Product(Case("MatMulIntegerToFloat", product), sums, scales, bias))
            product = (a, scale(0.1), u8(3), b, scale(0.02), zero, np.arange(5, dtype=np.int32), *into)
            found.append(Product(Case("QGemm", product, steps=1), sums + np.arange(5), scales, into=into))
            x = np.where(a > 127, 1.0, 0.0).astype(np.float32)
            x[0, 0] = 0.0  # the range is [0, 1]: steps of 1 / 255, and the zero point is 0
            sums = summed(np.where(x > 0, 255, 0), np.int64(0), b, zero)
            product = (x, b, scale(0.02), zero)
            found.append(Product(Case("DynamicQuantizeMatMul", product), sums, float(scale(0.02)) / 255))
            channels = (
                a.reshape(3, 1, 1, 64),
                scale(0.1),
                u8(3),
                b.T.reshape(5, 64, 1, 1),
                scale(0.02),
                zero,
                *into,
            )
            sums = summed(a, u8(3), b, zero).reshape(3, 1, 1, 5)
            found.append(
                Product(Case("QLinearConv", channels, {"channels_last": 1}, steps=1), sums, scales, into=into)
            )
    return found


@pytest.mark.parametrize("product", extreme_products(), ids=lambda product: str(product.case))
def test_extreme_values_are_added_in_full(product: Product) -> None:
    found = cenote.load(product.case.model(), threads=1).run(product.case.feed)
    compared([*found.values()], [product.expected], product.case.steps)


def test_every_operator_has_a_case() -> None:
    tried = {case.kind for case in CASES} | {"TransposeMatMul"}  # the old name of FusedMatMul
    own = {name for name in DECODERS if name.startswith("com.microsoft.")}
    assert tried == {name.rpartition(".")[2] for name in (*NAMES, *own)}


def test_a_mask_that_is_no_matrix_is_refused() -> None:
    """Numbers of keys per sample, which the same input may hold."""
    case = Case("Attention", (X, floats(16, 48), floats(48), np.array([3, 5], np.int32)), {"num_heads": 4})
    with pytest.raises(CenoteError, match="transpose"):
        cenote.load(case.model(), threads=1)


@pytest.mark.parametrize(
    ("case", "what"),
    [
        (Case("FusedConv", (PICTURE, floats(6, 4, 1, 1)), {"activation": "Softmax"}), "activation 'Softmax'"),
        (Case("FusedMatMul", (X, X), {"transBatchA": 1}), "transBatchA"),
        (Case("Attention", (X, floats(16, 48), floats(48), None, floats(2, 2, 4, 3, 4)), {"num_heads": 4}),
         "past keys"),
        (Case("QAttention", (*BERT, floats(2, 2, 4, 3, 4)), {"num_heads": 4}), "past keys"),
        (Case("SkipLayerNormalization", HIDDEN, {}, 2), "an output beyond the first"),
        (Case("QuickGelu", (X,), {"beta": 1.0}), "attribute beta"),
        (Case("QMoE", (X,)), r"com.microsoft.QMoE .*not supported; nearest supported: com.microsoft"),
        (Case("MatMulNBits", (*narrow(4, 8, 32, 32, True), np.arange(32, dtype=np.int32)),
              {"K": 32, "N": 8, "bits": 4, "block_size": 32}), "g_idx"),
        (Case("MatMulNBits", narrow(8, 8, 32, 32), {"K": 32, "N": 8, "bits": 2, "block_size": 32}), "2 bits"),
    ],
)  # fmt: skip
def test_what_has_no_equal_is_refused(case: Case, what: str) -> None:
    with pytest.raises(UnsupportedError, match=what):
        cenote.load(case.model(), threads=1)
