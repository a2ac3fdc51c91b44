"""precision="bfloat16": which values and convolutions change, what that costs in accuracy, plans elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import NodeProto, helper

import cenote
from cenote.codegen import jit
from cenote.core.types import Array
from tests.passes.models import model, steps
from tests.targets import TARGETS

torch = pytest.importorskip("torch")
F = torch.nn.functional

N = helper.make_node
RANDOM = np.random.default_rng(16)
NARROWEST = TARGETS[-1].name
EMULATING = f"{NARROWEST}+bf16"  # emulated on every machine
ON_TILES = f"{NARROWEST}+tiles"


def noise(*shape: int) -> Array:
    """Weights whose sums stay near 1."""
    scale = np.float32(1 / np.sqrt(max(1, int(np.prod(shape[1:])))))
    return RANDOM.standard_normal(shape).astype(np.float32) * scale


X = RANDOM.standard_normal((2, 3, 20, 20)).astype(np.float32)
WEIGHTS: dict[str, Array] = {
    "w0": noise(32, 3, 3, 3), "b0": noise(32), "w1": noise(48, 32, 1, 1), "w2": noise(48, 48, 3, 3),
    "w3": noise(48, 1, 3, 3), "w4": noise(16, 48, 1, 1), "w5": noise(24, 48, 3, 3), "w6": noise(8, 40, 1, 1),
}  # fmt: skip
NODES = [
    N("Conv", ["x", "w0", "b0"], ["c0"], strides=[2, 2], pads=[1, 1, 1, 1]), N("Relu", ["c0"], ["a0"]),
    N("MaxPool", ["a0"], ["p0"], kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1]),
    N("Conv", ["p0", "w1"], ["a1"]),
    N("Conv", ["a1", "w2"], ["c2"], pads=[1, 1, 1, 1]), N("Add", ["c2", "a1"], ["s2"]), N("Relu", ["s2"], ["a2"]),
    N("Conv", ["a2", "w3"], ["c3"], pads=[1, 1, 1, 1], group=48), N("Relu", ["c3"], ["a3"]),
    N("Conv", ["a3", "w4"], ["a4"]), N("Conv", ["a3", "w5"], ["a5"], pads=[1, 1, 1, 1]),
    N("Concat", ["a4", "a5"], ["a45"], axis=1),
    N("Conv", ["a45", "w6"], ["y"]),
]  # fmt: skip


def in_float64(x: Array = X) -> Array:
    """The model's result by PyTorch in float64."""
    w = {name: torch.from_numpy(value.astype(np.float64)) for name, value in WEIGHTS.items()}
    a = F.relu(F.conv2d(torch.from_numpy(x.astype(np.float64)), w["w0"], w["b0"], stride=2, padding=1))
    a = F.conv2d(F.max_pool2d(a, 3, 1, 1), w["w1"])
    a = F.relu(F.conv2d(a, w["w2"], padding=1) + a)
    a = F.relu(F.conv2d(a, w["w3"], padding=1, groups=48))
    a = torch.cat((F.conv2d(a, w["w4"]), F.conv2d(a, w["w5"], padding=1)), 1)
    return np.asarray(F.conv2d(a, w["w6"]).numpy())


def made(
    nodes: Sequence[NodeProto] = NODES,
    outputs: Sequence[str] = ("y",),
    inputs: Mapping[str, Array] = {"x": X},
) -> bytes:
    read = {name for node in nodes for name in node.input}
    return model(nodes, inputs, {name: w for name, w in WEIGHTS.items() if name in read}, outputs)


@pytest.fixture(params=[EMULATING, ON_TILES])
def emulating(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setenv("CENOTE_TARGET", request.param)


def error(y: object, want: Array) -> float:
    return float(np.abs(np.asarray(y) - want).max() / np.abs(want).max())


@pytest.mark.usefixtures("emulating")
def test_values_between_convolutions_are_bfloat16() -> None:
    loaded = cenote.load(made(), threads=1, precision="bfloat16")
    y = loaded(X)
    found = [step.partition("(")[0] for step in steps(loaded)]
    assert found.count("conv_bfloat16") >= 6
    assert "conv" not in found
    assert found.count("cast") <= 1  # of x, which has more channels than lanes on narrow targets
    assert found.count("reorder") <= 2  # of x and y: what lies between stays in blocks
    between = [step.output for step in loaded.plan.describe().steps if step.op and "%y" not in step.output]
    assert all(": bf16[" in each for each in between if "conv" in each or "max_pool" in each)
    plain = cenote.load(made(), threads=1)(X)
    assert error(plain, in_float64()) < 1e-5
    assert 1e-4 < error(y, in_float64()) < 2e-2
    for threads in (2, 3):
        np.testing.assert_array_equal(cenote.load(made(), threads=threads, precision="bfloat16")(X), y)


@pytest.mark.usefixtures("emulating")
def test_any_size() -> None:
    graph = onnx.load_from_string(made())
    for axis, name in ((0, "n"), (2, "h"), (3, "w")):
        graph.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    loaded = cenote.load(graph.SerializeToString(), threads=1, precision="bfloat16")
    for shape in ((1, 3, 20, 20), (3, 3, 7, 31), (1, 3, 1, 1)):
        x = RANDOM.standard_normal(shape).astype(np.float32)
        assert error(loaded(x), in_float64(x)) < 3e-2


@pytest.mark.usefixtures("emulating")
def test_other_operators_get_float32() -> None:
    """A value that a convolution and another operator read, one that is an output too, one from another operator."""
    nodes = [
        N("Sigmoid", ["x"], ["s"]), N("Conv", ["s", "v0"], ["c0"]), N("Conv", ["c0", "v1"], ["c1"]),
        N("Conv", ["c1", "v1"], ["c2"]), N("Softmax", ["c1"], ["t"], axis=1), N("Tanh", ["c2"], ["u"]),
        N("Conv", ["u", "v1"], ["y"]),
    ]  # fmt: skip
    x, v0, v1 = (
        RANDOM.standard_normal((1, 64, 40, 40)).astype(np.float32),
        noise(64, 64, 1, 1),
        noise(64, 64, 1, 1),
    )
    content = model(nodes, {"x": x}, {"v0": v0, "v1": v1}, ["c0", "t", "y"])
    loaded = cenote.load(content, threads=1, precision="bfloat16")
    got, want = loaded.run({"x": x}), cenote.load(content, threads=1).run({"x": x})
    for name, value in want.items():
        assert got[name].dtype == np.float32
        assert error(got[name], value) < 2e-2, name
    assert any(step.startswith("conv_bfloat16") for step in steps(loaded))


@pytest.mark.usefixtures("emulating")
@pytest.mark.parametrize("emulated", [False, True])
def test_a_constant_beside_a_convolution_in_a_concatenation(
    emulated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parts are of one type, float32."""
    if emulated:
        monkeypatch.setenv("CENOTE_TARGET", EMULATING)
    beside = RANDOM.standard_normal((2, 16, 20, 20)).astype(np.float32)
    nodes = [N("Conv", ["x", "w0"], ["a"], pads=[1, 1, 1, 1]), N("Concat", ["a", "k"], ["c"], axis=1)]
    nodes += [N("Conv", ["c", "w2"], ["y"])]
    constants = {"w0": WEIGHTS["w0"], "k": beside, "w2": WEIGHTS["w2"]}
    loaded = cenote.load(model(nodes, {"x": X}, constants, ["y"]), precision="bfloat16")
    x, w, k, v = (torch.from_numpy(each.astype(np.float64)) for each in (X, *constants.values()))
    want = F.conv2d(torch.cat((F.conv2d(x, w, padding=1), k), 1), v)
    assert error(loaded(X), want.numpy()) < 0.02


def test_products_round_their_operands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of matrices with many rows, in a plan for any number of them; products of two computed matrices stay float32."""
    nodes = [
        N("MatMul", ["x", "v0"], ["m"]), N("Add", ["m", "v1"], ["a"]), N("Relu", ["a"], ["r"]),
        N("MatMul", ["r", "v2"], ["s"]), N("Transpose", ["s"], ["t"], perm=[0, 2, 1]), N("MatMul", ["s", "t"], ["y"]),
    ]  # fmt: skip
    v0, v1, v2 = noise(70, 96), noise(96), noise(96, 33)
    content = onnx.load_from_string(
        model(nodes, {"x": np.zeros((1, 80, 70), np.float32)}, {"v0": v0, "v1": v1, "v2": v2}, ["y"])
    )
    for axis, name in ((0, "n"), (1, "rows")):
        content.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    monkeypatch.setenv("CENOTE_TARGET", EMULATING)
    loaded = cenote.load(content.SerializeToString(), threads=1, precision="bfloat16")
    for n, rows in ((1, 80), (2, 81), (3, 200)):
        x = RANDOM.standard_normal((n, rows, 70)).astype(np.float32)
        s = np.maximum(x.astype(np.float64) @ v0 + v1, 0) @ v2
        assert 1e-4 < error(loaded(x), s @ s.swapaxes(1, 2)) < 2e-2
    algorithms = [step.algorithm for step in loaded.plan.describe().steps]
    assert sum("bfloat16" in each for each in algorithms) >= 2


def test_elsewhere_only_weights_are_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without products of bfloat16 convolutions have float32's bits, and linear layers those of weights="bfloat16"."""
    monkeypatch.setenv("CENOTE_TARGET", TARGETS[-1].name)
    y = cenote.load(made(), threads=1, precision="bfloat16")(X)
    np.testing.assert_array_equal(y, cenote.load(made(), threads=1)(X))
    linear = model(
        [N("Gemm", ["x", "w", "b"], ["y"])], {"x": X[0, 0, :1]}, {"w": noise(20, 30), "b": noise(30)}, ["y"]
    )
    y = cenote.load(linear, threads=1, precision="bfloat16")(X[0, 0, :1])
    np.testing.assert_array_equal(y, cenote.load(linear, threads=1, weights="bfloat16")(X[0, 0, :1]))
    assert not np.array_equal(y, cenote.load(linear, threads=1)(X[0, 0, :1]))
    halves = cenote.load(linear, threads=1, precision="bfloat16", weights="float16")(X[0, 0, :1])
    np.testing.assert_array_equal(halves, cenote.load(linear, threads=1, weights="float16")(X[0, 0, :1]))


def test_a_plan_file_of_another_machine_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, plan = tmp_path / "m.onnx", tmp_path / "m.cenote"
    source.write_bytes(made())
    monkeypatch.setenv("CENOTE_TARGET", EMULATING)
    loaded = cenote.load(source, threads=1, precision="bfloat16")
    narrow = loaded(X)
    loaded.save(plan, source)
    again = cenote.load(plan, threads=1)
    assert again.precision == "bfloat16"
    np.testing.assert_array_equal(again(X), narrow)
    with pytest.raises(cenote.UnsupportedError, match="what it was made with, 'bfloat16'"):
        cenote.load(plan, precision="exact")
    monkeypatch.setenv("CENOTE_TARGET", TARGETS[-1].name)
    assert not jit.host_target().bfloat
    elsewhere = cenote.load(plan, threads=1)(X)
    np.testing.assert_array_equal(elsewhere, cenote.load(source, threads=1)(X))


@pytest.mark.usefixtures("emulating")
def test_weights_take_half_the_memory(tmp_path: Path) -> None:
    """A layer whose products are of bfloat16 keeps no weights in float32, in memory or in its plan."""
    w = noise(512, 512, 1, 1)
    content = model(
        [N("Conv", ["x", "w"], ["c"]), N("Conv", ["c", "w"], ["y"])],
        {"x": np.zeros((1, 512, 8, 8), np.float32)}, {"w": w}, ["y"],
    )  # fmt: skip
    source, sizes = tmp_path / "m.onnx", []
    source.write_bytes(content)
    for precision in ("fast", "bfloat16"):
        loaded = cenote.load(source, threads=1, precision=precision)
        loaded(np.zeros((1, 512, 8, 8), np.float32))
        loaded.save(tmp_path / precision, source)
        sizes.append((tmp_path / precision).stat().st_size)
    assert sizes[1] < sizes[0] - 0.4 * w.nbytes
