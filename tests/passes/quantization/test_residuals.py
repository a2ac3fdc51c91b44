"""Additions of quantised tensors become parts of the convolutions of bytes before them, bit by bit."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

import cenote
from cenote.core.types import Array
from tests.passes.models import model, steps

N = helper.make_node
RANDOM = np.random.default_rng(33)
X = RANDOM.integers(0, 256, (1, 32, 10, 10)).astype(np.uint8)
R = RANDOM.integers(0, 256, (1, 48, 10, 10)).astype(np.uint8)
WEIGHTS = RANDOM.integers(-127, 128, (2, 48, 32, 3, 3)).astype(np.int8)
CONSTANTS: dict[str, Array] = {
    "s": np.float32(0.02), "z": np.uint8(121), "t": np.float32(0.017), "o": np.uint8(130),
    "rs": np.float32(0.031), "rz": np.uint8(99), "ys": np.float32(0.04), "yz": np.uint8(77),
    "w0": WEIGHTS[0], "w1": WEIGHTS[1], "ws": (RANDOM.random(48) * 4e-4 + 1e-4).astype(np.float32),
    "wz": np.zeros(48, np.int8), "low": np.float32(-0.5), "high": np.float32(6.0),
}  # fmt: skip


def convolution(number: int) -> list[onnx.NodeProto]:
    """A convolution of x between quantisations, whose result is dequantised to c0 or c1."""
    i = number
    return [
        N("DequantizeLinear", ["x", "s", "z"], [f"xf{i}"]),
        N("DequantizeLinear", [f"w{i}", "ws", "wz"], [f"wf{i}"], axis=0),
        N("Conv", [f"xf{i}", f"wf{i}"], [f"f{i}"], pads=[1, 1, 1, 1]),
        N("QuantizeLinear", [f"f{i}", "t", "o"], [f"q{i}"]),
        N("DequantizeLinear", [f"q{i}", "t", "o"], [f"c{i}"]),
    ]


RESIDUAL = [N("DequantizeLinear", ["r", "rs", "rz"], ["rf"])]
LAST = [N("QuantizeLinear", ["sum", "ys", "yz"], ["y"])]
UINT8, FLOAT = onnx.TensorProto.UINT8, onnx.TensorProto.FLOAT


def both(nodes: list[onnx.NodeProto], watched: str = "added", **constants: Array) -> tuple[int, bool]:
    """How many convolutions add, and whether the bits are those of the model whose float sum is an output, too, so that
    none does."""
    held = {**CONSTANTS, **constants}
    loaded = cenote.load(model(nodes, {"x": X, "r": R}, held, ["y"], {"y": UINT8}))
    apart = cenote.load(model(nodes, {"x": X, "r": R}, held, ["y", watched], {"y": UINT8, watched: FLOAT}))
    assert not adding(apart)
    return adding(loaded), np.array_equal(np.asarray(loaded(X, R)), np.asarray(apart(X, R)[0]))


def adding(loaded: cenote.Model) -> int:
    return len({each for each in steps(loaded) if each.startswith("qlinear_conv_add")})


@pytest.mark.parametrize(
    "between",
    [
        N("Identity", ["added"], ["sum"]),
        N("Relu", ["added"], ["sum"]),
        N("Clip", ["added", "low", "high"], ["sum"]),
    ],
    ids=["alone", "relu", "clip"],
)
@pytest.mark.parametrize("order", [["c0", "rf"], ["rf", "c0"]], ids=["left", "right"])
def test_a_residual_is_added_in_the_convolution(between: onnx.NodeProto, order: list[str]) -> None:
    nodes = [*convolution(0), *RESIDUAL, N("Add", order, ["added"]), between, *LAST]
    assert both(nodes) == (1, True)


def test_of_two_convolutions_the_later_one_adds() -> None:
    nodes = [
        *convolution(0),
        *convolution(1),
        N("Add", ["c0", "c1"], ["added"]),
        N("Relu", ["added"], ["sum"]),
        *LAST,
    ]
    assert both(nodes) == (1, True)


def test_the_tensor_that_a_convolution_reads_may_be_what_is_added() -> None:
    """Its memory is not the result's, whatever else is free."""
    square = {"w0": WEIGHTS[0][:32], "ws": CONSTANTS["ws"][:32], "wz": CONSTANTS["wz"][:32]}
    inner = [*convolution(0), N("Add", ["c0", "xf0"], ["added"]), N("Relu", ["added"], ["sum"]), *LAST]
    nodes = [N("QuantizeLinear", ["given", "s", "z"], ["x"]), *inner]
    content = model(
        nodes,
        {"given": (X - np.float32(121)) * np.float32(0.02)},
        {**CONSTANTS, **square},
        ["y"],
        {"y": UINT8},
    )
    watched = model(
        nodes, {"given": (X - np.float32(121)) * np.float32(0.02)}, {**CONSTANTS, **square}, ["y", "added"],
        {"y": UINT8, "added": FLOAT},
    )  # fmt: skip
    loaded, apart = cenote.load(content), cenote.load(watched)
    assert (adding(loaded), adding(apart)) == (1, 0)
    given = (X - np.float32(121)) * np.float32(0.02)
    np.testing.assert_array_equal(np.asarray(loaded(given)), np.asarray(apart(given)[0]))


@pytest.mark.parametrize(
    ("what", "constants"),
    [
        ("a scale of the sum that is none", {"ys": np.float32(0)}),
        ("a negative scale of the residual", {"rs": np.float32(-0.031)}),
        ("bytes of another kind", {"yz": np.int8(-3)}),
        ("an activation that is no bound", {}),
        ("bytes that are read twice", {}),
    ],
)
def test_other_additions_stay_apart(what: str, constants: dict[str, Array]) -> None:
    between = [N("Tanh", ["added"], ["sum"])] if "activation" in what else [N("Relu", ["added"], ["sum"])]
    nodes = [*convolution(0), *RESIDUAL, N("Add", ["c0", "rf"], ["added"]), *between, *LAST]
    outputs = ["y", "q0"] if "twice" in what else ["y"]
    held = {**CONSTANTS, **constants}
    kinds = {"y": onnx.TensorProto.INT8 if "kind" in what else UINT8, "q0": UINT8}
    loaded = cenote.load(
        model(nodes, {"x": X, "r": R}, held, outputs, {name: kinds[name] for name in outputs})
    )
    assert not adding(loaded)


def test_a_bound_that_overflows_by_a_small_scale_is_the_largest_number() -> None:
    """Warnings are errors in this suite."""
    nodes = [
        *convolution(0),
        *RESIDUAL,
        N("Add", ["c0", "rf"], ["added"]),
        N("Clip", ["added", "low", "high"], ["sum"]),
    ]
    assert both([*nodes, *LAST], ys=np.float32(1.2e-38)) == (1, True)


@pytest.mark.parametrize("seed", range(8))
def test_bits_of_random_additions_are_those_of_separate_steps(seed: int) -> None:
    """Of s8 and u8, any zero points, sizes and bounds, no images, a residual that is another convolution's result, and
    open sizes: planned for some, then run on others."""
    random = np.random.default_rng(seed)
    kind = np.dtype(("uint8", "int8")[seed % 2])
    channels, filters, side = (int(random.choice(each)) for each in ((16, 33, 48), (16, 40, 65), (1, 3)))

    def whole(*shape: int) -> Array:
        return random.integers(0, 256, shape).astype(np.uint8).view(kind)

    held = {**CONSTANTS, **{name: whole(1)[0] for name in ("z", "o", "rz", "yz")}}
    weights = random.integers(-127, 128, (2, filters, channels, side, side)).astype(np.int8)
    held |= {"w0": weights[0], "w1": weights[1], "wz": np.zeros(filters, np.int8)}
    held |= {
        "ws": (random.random(filters) * 4e-4 + 1e-4).astype(np.float32),
        "low": np.float32(random.normal()),
    }
    two = seed % 4 > 1
    between = N(("Relu", "Clip")[seed // 4], ["added", *(("low", "high") if seed > 3 else ())], ["sum"])
    nodes = [
        *convolution(0),
        *(convolution(1) if two else RESIDUAL),
        N("Add", ["c0", "c1" if two else "rf"], ["added"]),
    ]
    for node in nodes:
        if node.op_type == "Conv":
            node.attribute[0].ints[:] = [side // 2] * 4
    given = {"x": whole(2, channels, 9, 12), **({} if two else {"r": whole(2, filters, 9, 12)})}
    type_ = helper.np_dtype_to_tensor_dtype(kind)
    made, apart = (
        onnx.load_from_string(
            model([*nodes, between, *LAST], given, held, ["y", *more], {"y": type_, "added": FLOAT})
        )
        for more in ((), ("added",))
    )
    for proto in (made, apart):
        for value in proto.graph.input:
            for axis, name in ((0, "n"), (2, "h"), (3, "w")):
                value.type.tensor_type.shape.dim[axis].dim_param = name
    loaded, separate = (
        cenote.load(made.SerializeToString(), threads=2),
        cenote.load(apart.SerializeToString(), threads=1),
    )
    for n, h, w in ((2, 9, 12), (1, 4, 17), (0, 9, 12), (3, 1, 1)):
        other = {name: whole(n, x.shape[1], h, w) for name, x in given.items()}
        np.testing.assert_array_equal(
            np.asarray(loaded.run(other)["y"]), np.asarray(separate.run(other)["y"])
        )
    assert (adding(loaded), adding(separate)) == (1, 0)
