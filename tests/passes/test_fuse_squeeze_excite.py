"""The gate of squeeze-and-excite moves into the convolution behind it: where it may, and where it must not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cenote.codegen import jit
from cenote.compiler.compile import Compilation, compile_graph
from cenote.core.load_options import LoadOptions
from cenote.core.types import Array, Declared, TensorType
from cenote.graph.graph import Graph, Node
from cenote.graph.interpreter import evaluate
from cenote.ops.conv.conv import Conv
from cenote.ops.conv.gated_conv import GatedConv
from cenote.ops.elementwise.activation import Sigmoid
from cenote.ops.elementwise.binary import Mul
from cenote.passes.fuse import fuse_gates
from cenote.passes.pipeline import optimize
from cenote.passes.specialize import specialize

SHAPE = (1, 16, 12, 11)
CONV = Conv()


def gated(
    conv: Conv = CONV, *, shape: tuple[int, ...] = SHAPE, filters: int = 8, window: int = 1, gate: Any = None,
    swapped: bool = False, extra: tuple[str, ...] = (), constant: bool = False,
) -> Graph:  # fmt: skip
    """y = conv(x * sigmoid(g)); `extra` values are outputs too."""
    random = np.random.default_rng(0)
    gate_shape = gate or (*shape[:2], 1, 1)
    constants: dict[str, Array] = {
        "w": random.standard_normal((filters, shape[1] // conv.groups, window, window)).astype(np.float32)
        / 4,
        "b": random.standard_normal(filters).astype(np.float32),
    }
    if constant:
        constants["s"] = random.standard_normal(gate_shape).astype(np.float32)
    inputs = {"x": shape, "g": gate_shape}
    if conv.residual:
        inputs["r"] = (shape[0], filters, *shape[2:])
    product = ("s", "x") if swapped else ("x", "s")
    nodes = [] if constant else [Node(Sigmoid(), ("g",), ("s",), "gate")]
    nodes.append(Node(Mul(), product, ("m",), "mul"))
    nodes.append(Node(conv, ("m", "w", "b", *(("r",) if conv.residual else ())), ("y",), "conv"))
    declared = tuple(Declared(name, np.dtype(np.float32), extents) for name, extents in inputs.items())
    graph = Graph(declared, ("y", *extra), tuple(nodes), constants)
    return specialize(graph, {name: TensorType.of(np.float32, s) for name, s in inputs.items()}).graph


def feed_of(graph: Graph) -> dict[str, Array]:
    random = np.random.default_rng(1)
    return {
        d.name: random.standard_normal(graph.types[d.name].shape).astype(np.float32) for d in graph.inputs
    }


def is_fused(graph: Graph) -> bool:
    return any(isinstance(node.op, GatedConv) for node in graph.nodes)


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "gate first": {"swapped": True},
    "residual": {"conv": Conv(residual=True)},
    "batch": {"shape": (3, 16, 12, 11)},
    "ragged": {"shape": (1, 13, 12, 11), "filters": 9},
}


@pytest.mark.parametrize("case", CASES)
def test_gate_moves_into_the_weights(case: str) -> None:
    before = gated(**CASES[case])
    after = fuse_gates(before)
    assert is_fused(after)
    assert [node.label for node in after.nodes] == ["gate", "conv"]
    feed = feed_of(before)
    wanted = evaluate(before, feed)["y"]
    np.testing.assert_allclose(evaluate(after, feed)["y"], wanted, rtol=1e-5, atol=1e-5)
    results = [
        compile_graph(before, Compilation(LoadOptions(threads=threads))).program.run(
            [feed[d.name] for d in before.inputs]
        )[0]
        for threads in (1, 2)
    ]
    np.testing.assert_allclose(results[0], wanted, rtol=1e-5, atol=1e-5)
    assert np.array_equal(results[0], results[1])


NEAR_MISSES: dict[str, dict[str, Any]] = {
    "a window": {"window": 3},
    "pads": {"conv": Conv(pads=((1, 1), (1, 1)))},
    "strides": {"conv": Conv(strides=(2, 2))},
    "groups": {"conv": Conv(groups=2)},
    "a gate of the whole map": {"gate": SHAPE},
    "one gate for all channels": {"gate": (1, 1, 1, 1)},
    "a gate per pixel": {"gate": (1, 1, 12, 11)},
    "more weights than a quarter of the map": {"filters": 40},
    "small maps of a batch": {"shape": (3, 16, 4, 4), "filters": 1},
    "the product is read elsewhere": {"extra": ("m",)},
    "a constant gate": {"constant": True},
}


@pytest.mark.parametrize("case", NEAR_MISSES)
def test_left_alone(case: str) -> None:
    assert not is_fused(fuse_gates(gated(**NEAR_MISSES[case])))


def test_weights_that_are_no_constants_are_left_alone() -> None:
    graph = gated()
    declared = (*graph.inputs, Declared("w", np.dtype(np.float32), (8, 16, 1, 1)))
    constants = {name: value for name, value in graph.constants.items() if name != "w"}
    types = {**graph.types, "w": TensorType.of(np.float32, (8, 16, 1, 1))}
    assert not is_fused(fuse_gates(replace(graph, inputs=declared, constants=constants, types=types)))


def test_it_is_one_of_the_passes() -> None:
    assert is_fused(optimize(gated(), jit.host_target()))
