"""Convolutions and products of 16-bit numbers with precision="exact": every result beside sums in int64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

import cenote
from cenote.core.types import Array
from cenote.passes.quantization.digits import digits
from tests.passes.models import steps
from tests.targets import TARGETS

torch = pytest.importorskip("torch")

N = helper.make_node
RANDOM = np.random.default_rng(61)
PAIRS = [
    (np.uint16, np.int8), (np.int16, np.int16), (np.uint16, np.uint16), (np.uint8, np.int16), (np.int16, np.uint8),
]  # fmt: skip
SHAPES = {
    "Conv": ((2, 6, 5, 4), (8, 3, 3, 3)),
    "MatMul": ((2, 3, 1203), (1203, 9)),
    "Gemm": ((3, 1203), (9, 1203)),
}
ATTRIBUTES = {"Conv": {"group": 2, "pads": [1, 1, 1, 1]}, "Gemm": {"transB": 1}}
S, T = (
    np.float32(2.0**-14),
    np.float32(2.0**-9),
)  # of x and y; of weights 2^-13: quotients are exact, with ties


def numbers(shape: Sequence[int], kind: type) -> Array:
    """All of a type, and many of its ends."""
    ends = np.iinfo(kind)
    found = RANDOM.integers(ends.min, ends.max + 1, shape)
    found[RANDOM.random(shape) < 0.2] = ends.max
    found[RANDOM.random(shape) < 0.2] = ends.min
    return found.astype(kind)


def content(
    op: str, x: Array, constants: dict[str, Array], behind: list[NodeProto], bias: bool, rows: str = ""
) -> bytes:
    nodes = [
        N("DequantizeLinear", ["x", "s", "z"], ["xf"]),
        N("DequantizeLinear", ["w", "ws", "wz"], ["wf"], axis=1 if op == "MatMul" else 0),
        *([N("DequantizeLinear", ["b", "bs"], ["bf"], axis=0)] if bias else []),
        N(op, ["xf", "wf", *(["bf"] if bias else [])], ["c"], name="layer", **ATTRIBUTES.get(op, {})),
        *behind,
    ]  # fmt: skip
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    last = behind[-1].output[0] if behind else "c"
    made = helper.np_dtype_to_tensor_dtype(constants["yz"].dtype) if last == "y" else TensorProto.FLOAT
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", kind, [rows or x.shape[0], *x.shape[1:]])],
        [helper.make_tensor_value_info(last, made, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return bytes(model.SerializeToString())


def case(op: str, x_kind: type, w_kind: type, bias: bool = False) -> tuple[Array, dict[str, Array], Array]:
    """x, the constants, and the exact sums with the bias, in int64."""
    x_shape, w_shape = SHAPES[op]
    x, w = numbers(x_shape, x_kind), numbers(w_shape, w_kind)
    # Sums of digits that float32 does not hold: 1,203 products of nearly 255 by 127.
    x[..., :1, 1:], w[(..., 0) if op == "MatMul" else 0] = np.iinfo(x_kind).max, np.iinfo(w_kind).max
    filters = w_shape[1] if op == "MatMul" else w_shape[0]
    scales = np.float32(2.0**-13) * np.float32(2.0) ** RANDOM.integers(0, 3, filters).astype(np.float32)
    constants: dict[str, Array] = {
        "s": S, "z": numbers((), x_kind), "w": w, "ws": scales, "ys": T, "yz": np.array(77, x_kind),
        "wz": numbers((filters,), w_kind) if np.dtype(w_kind).kind == "u" else np.zeros(filters, w_kind),
    }  # fmt: skip
    if bias:
        constants |= {"b": RANDOM.integers(-(10**6), 10**6, filters).astype(np.int32), "bs": S * scales}
    axis = -1 if op == "MatMul" else 0
    centred = w.astype(np.int64) - np.expand_dims(
        constants["wz"].astype(np.int64), tuple(each for each in range(w.ndim) if each != axis % w.ndim)
    )
    left = x.astype(np.int64) - int(constants["z"])
    if op == "Conv":
        sums = torch.nn.functional.conv2d(
            torch.from_numpy(left), torch.from_numpy(centred), padding=1, groups=2
        ).numpy()
    else:
        sums = left @ (centred if op == "MatMul" else centred.T)
    added = constants["b"].astype(np.int64) if bias else np.zeros(filters, np.int64)
    spread = (-1, 1, 1) if op == "Conv" else (-1,)
    return x, constants, (sums + added.reshape(spread)) * 2.0**-14 * scales.astype(np.float64).reshape(spread)


@pytest.mark.parametrize("op", SHAPES)
@pytest.mark.parametrize("kinds", PAIRS, ids=lambda each: f"{each[0].__name__} {each[1].__name__}")
def test_every_number_is_that_of_exact_sums(
    op: str, kinds: tuple[type, type], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scales are powers of two, so that the real results are numbers of float64, and some lie halfway."""
    monkeypatch.setenv("CENOTE_TARGET", TARGETS[-1].name)
    x, constants, real = case(op, *kinds, bias=op != "MatMul")
    constants["ys"] = np.float32(2.0 ** np.ceil(np.log2(np.abs(real).max() / 30000)))
    behind = [N("QuantizeLinear", ["c", "ys", "yz"], ["y"])]
    loaded = cenote.load(content(op, x, constants, behind, op != "MatMul"), precision="exact", threads=1)
    assert any("integer" in each for each in steps(loaded)), steps(loaded)
    limits = np.iinfo(kinds[0])
    wanted = np.clip(np.rint(real / constants["ys"]) + 77, limits.min, limits.max)
    np.testing.assert_array_equal(np.asarray(loaded(x)), wanted.astype(kinds[0]))


@pytest.mark.parametrize("between", ["", "Relu", "Clip"])
def test_floats_are_rounded_once_and_bounds_go_before_quantisation(between: str) -> None:
    x, constants, real = case("Conv", np.uint16, np.int16, bias=True)
    loaded = cenote.load(content("Conv", x, constants, [], bias=True), precision="exact")
    np.testing.assert_array_equal(np.asarray(loaded(x)), real.astype(np.float32))
    if not between:
        return
    constants["ys"] = np.float32(2.0 ** np.ceil(np.log2(np.abs(real).max() / 30000)))
    low, high = np.float32(0), np.float32(real.max() / 3)
    clip = [] if between == "Relu" else ["low", "high"]
    behind = [N(between, ["c", *clip], ["r"]), N("QuantizeLinear", ["r", "ys", "yz"], ["y"])]
    loaded = cenote.load(
        content("Conv", x, {**constants, "low": low, "high": high}, behind, bias=True), precision="exact"
    )
    bounded = np.clip(real, 0, high if clip else np.inf)
    wanted = np.clip(np.rint(bounded / constants["ys"]) + 77, 0, 65535)
    np.testing.assert_array_equal(np.asarray(loaded(x)), wanted.astype(np.uint16))


@pytest.mark.parametrize("threads", [1, 2])
def test_an_open_size_and_threads_change_no_bit(threads: int) -> None:
    x, constants, real = case("MatMul", np.int16, np.int16)
    loaded = cenote.load(
        content("MatMul", x, constants, [], False, "rows"), precision="exact", threads=threads
    )
    for part in (x, x[:1]):
        np.testing.assert_array_equal(np.asarray(loaded(part)), real[: len(part)].astype(np.float32))


def test_otherwise_they_are_floats_within_a_step() -> None:
    x, constants, real = case("Conv", np.uint16, np.int16)
    constants["ys"] = np.float32(np.abs(real).max() / 60000)
    behind = [N("QuantizeLinear", ["c", "ys", "yz"], ["y"])]
    loaded = cenote.load(content("Conv", x, constants, behind, bias=False))
    assert not any("integer" in each for each in steps(loaded))
    assert {each.not_narrower for each in loaded.plan.describe().steps} == {
        "",
        "not on bytes: its input is uint16",
    }
    wanted = np.clip(np.rint(real / constants["ys"]) + 77, 0, 65535)
    assert np.abs(np.asarray(loaded(x)).astype(np.int64) - wanted).max() <= 1


def test_sums_of_digits_that_may_leave_32_bits_are_those_of_floats() -> None:
    """66,400 products of 255 by 127 are more than 2^31."""
    x, w = np.full((1, 66400), 65535, np.uint16), np.full((66400, 2), 32767, np.int16)
    constants: dict[str, Array] = {
        "s": S, "z": np.uint16(0), "w": w, "ws": np.full(2, 2.0**-20, np.float32), "wz": np.zeros(2, np.int16),
        "ys": T, "yz": np.uint16(0),
    }  # fmt: skip
    loaded = cenote.load(content("MatMul", x, constants, [], bias=False), precision="exact")
    assert not any("integer" in each for each in steps(loaded))
    np.testing.assert_allclose(np.asarray(loaded(x)), 66400 * 65535 * 32767 * 2.0**-34, rtol=1e-5)
    reasons = {each.not_narrower for each in loaded.plan.describe().steps}
    assert "not on bytes: its input is uint16" in reasons


@pytest.mark.parametrize("least", [-65535, -32768, -32512, -127, 0])
def test_digits_are_those_of_the_number(least: int) -> None:
    weights = np.array([least, -128, -1, 0, 126, 127, 128, 254, 255, -least], np.int64).clip(
        least, max(-least, 1)
    )
    found = digits(weights)
    assert (
        sum(each.astype(np.int64) * 255**power for power, each in enumerate(found)).tolist()
        == weights.tolist()
    )
    assert all(np.abs(each.astype(int)).max() <= 127 for each in found)
    assert len(found) == {-65535: 3, -32768: 3, -32512: 2, -127: 1, 0: 1}[least]
