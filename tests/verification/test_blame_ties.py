"""Operators that decide (round, compare, choose) on float32 numbers that float64 would put on the other side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import cenote
from cenote.compiler.schedule import Schedule
from cenote.core.types import Array
from cenote.verification import blame, production
from cenote.verification import verify as verifying
from cenote.verification.errors import is_amplified, nearest, relative_error

FLOAT = TensorProto.FLOAT
SCALE = np.float32(0.0371)


def ties(divisor: np.float32, *shape: int, double: float | None = None) -> Array:
    """float32 numbers whose quotient by this one is k + 1/2 in float32 and something else in float64 (there by
    `double`): the integer next to it changes."""
    halves = np.arange(-120, 120, dtype=np.float64) + 0.5
    near = (halves * np.float64(divisor)).astype(np.float32)
    single, wide = near / divisor, near.astype(np.float64) / (double or np.float64(divisor))
    found = near[(np.rint(single) != np.rint(wide)) & (single == np.round(single * 2) / 2)]
    assert len(found) > 10
    return np.resize(found, shape)


def saved(
    path: Path, nodes: Sequence[onnx.NodeProto], x: Array, constants: dict[str, Any], *outputs: str
) -> Path:
    graph = helper.make_graph(
        list(nodes), "g", [helper.make_tensor_value_info("x", FLOAT, x.shape)],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


def quantisers(path: Path, zero: Any) -> Path:
    constants = {"s": SCALE, "z": zero, "many": np.full(6, SCALE), "zeros": np.full(6, zero)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], "one"),
        helper.make_node("QuantizeLinear", ["x", "many", "zeros"], ["p"], "axis", axis=1),
        helper.make_node("Add", ["x", "x"], ["two"], "double"),
        helper.make_node("Mul", ["two", "half"], ["same"], "halve"),
        helper.make_node("QuantizeLinear", ["same", "s", "z"], ["r"], "chained"),
        helper.make_node("DequantizeLinear", ["r", "s", "z"], ["back"], "back"),
    ]
    constants["half"] = np.float32(0.5)
    return saved(path, nodes, ties(SCALE, 7, 6), constants, "q", "p", "back")


def decider(path: Path, op: str, shift: bool, *further: str, **attributes: Any) -> Path:
    """A quotient that is rounded to float32 before an operator decides, fused with it into one kernel."""
    taken, x = "quotient", ties(SCALE, 7, 6)
    nodes = [helper.make_node("Div", ["x", "s"], [taken], "divide")]
    if shift:
        nodes.append(helper.make_node("Add", [taken, "half"], [taken := "shifted"], "shift"))
    nodes.append(helper.make_node(op, [taken, *further], ["y"], op, **attributes))
    constants = {"s": SCALE, "half": np.float32(0.5), "k": x / SCALE, "one": np.float32(1)}
    if op == "Greater":
        nodes.append(helper.make_node("Where", ["y", "x", "one"], ["chosen"], "Where"))
    return saved(path, nodes, x, constants, "chosen" if op == "Greater" else "y")


def dynamic(path: Path) -> Path:
    """The scale follows from the content: (high - low) / 255."""
    nodes = [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"], "dynamic")]
    return saved(path, nodes, dynamic_ties(), {}, "q", "scale", "zero")


def dynamic_ties() -> Array:
    low, high = np.float32(-3), np.float32(7)
    scale = (high - low) / np.float32(255)
    inside = ties(scale, 200, double=10 / 255)
    return np.concatenate([[low, high], inside[(inside > low) & (inside < high)]])


NETWORKS: dict[str, tuple[Any, Array]] = {
    "to uint8": (lambda path: quantisers(path, np.uint8(117)), ties(SCALE, 7, 6)),
    "to int8": (lambda path: quantisers(path, np.int8(-3)), ties(SCALE, 7, 6)),
    "to int16": (lambda path: quantisers(path, np.int16(9)), ties(SCALE, 7, 6)),
    "round": (lambda path: decider(path, "Round", False), ties(SCALE, 7, 6)),
    "floor": (lambda path: decider(path, "Floor", True), ties(SCALE, 7, 6)),
    "ceil": (lambda path: decider(path, "Ceil", True), ties(SCALE, 7, 6)),
    "integers": (lambda path: decider(path, "Cast", True, to=TensorProto.INT32), ties(SCALE, 7, 6)),
    "remainder": (lambda path: decider(path, "Mod", True, "one", fmod=1), ties(SCALE, 7, 6)),
    "comparison": (lambda path: decider(path, "Greater", False, "k"), ties(SCALE, 7, 6)),
    "dynamic": (dynamic, dynamic_ties()),
}


@pytest.mark.parametrize("against", ["reference", "onnxruntime"])
@pytest.mark.parametrize("network", NETWORKS)
def test_a_tie_of_float32_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, network: str, against: str
) -> None:
    """Not even where nothing is excused, as with a lone tie that rounding its inputs happens to leave where it is."""
    for place in (production, blame):
        monkeypatch.setattr(place, "excused", lambda *given: False)
    make, x = NETWORKS[network]
    found = cenote.verify(make(tmp_path / "m.onnx"), against=against, inputs={"x": x})
    assert found.ok, str(found)
    assert max(row.local for row in found.values) < 1e-6, str(found)


def test_two_steps_of_a_quantiser_are_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One step is what rounding may do to a number on the edge; a second one nothing explains."""

    def beside(made: Schedule) -> Schedule:
        """The constant of the zero point is two off for the kernel; what it is judged by is not."""
        constants = dict(made.graph.constants)
        constants["z"] = (constants["z"] + 2).astype(np.uint8)
        return made.__class__(**{**made.__dict__, "graph": made.graph.replace(constants=constants)})

    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], "one")]
    x = ties(SCALE, 7, 6)
    path = saved(tmp_path / "m.onnx", nodes, x, {"s": SCALE, "z": np.uint8(117)}, "q")
    assert cenote.verify(path, inputs={"x": x}, against="reference").ok
    assemble = verifying.assemble
    monkeypatch.setattr(verifying, "assemble", lambda make, *rest: assemble(lambda: beside(make()), *rest))
    found = cenote.verify(path, inputs={"x": x}, against="reference")
    assert found.first is not None
    assert (found.first.node, found.first.kind) == ("one", "kernel"), str(found)


@pytest.mark.parametrize("quotient", [(0.5, 1.0), (1.5, 1.0), (2.5, -1.0)])
def test_a_lone_number_on_the_edge_is_excused(quotient: tuple[float, float]) -> None:
    """Whatever the signs of the changes are, and though scale and number move together."""
    half, way = quotient
    x, scale = np.full(1, half * 0.3), np.full(1, 0.3) * (1 - way * 2.0**-27)

    def compute(arrays: Any) -> Array:
        found: Array = np.rint(arrays[0] / arrays[1])
        return found

    wanted = compute([x, scale])
    other = wanted + (1 if wanted[0] < half else -1)
    assert is_amplified(compute, [x, scale], other, wanted, 1.0)
    assert not is_amplified(compute, [x, scale], wanted + 2 * (other - wanted), wanted, 1.0)


def test_what_is_nearest() -> None:
    got = np.array([1, 5, np.nan, np.inf, -np.inf, np.nan], np.float32)
    first = np.array([2, 5, np.nan, 3, -np.inf, 1.0])
    other = np.array([1, 4, 7, np.inf, np.nan, np.nan], np.float32)
    np.testing.assert_array_equal(nearest(got, first, other), [1, 5, np.nan, np.inf, -np.inf, np.nan])
    assert relative_error(got, nearest(got, first, other)) == 0
    assert math.isinf(relative_error(got, first))
    assert nearest(got, first, other[:2]) is first
