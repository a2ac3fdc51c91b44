"""Blocks of mobile networks in bands of rows: which ones, and the same numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cenote.codegen import jit
from cenote.compiler.compile import Compilation, compile_graph
from cenote.core.load_options import LoadOptions
from cenote.core.target import Target
from cenote.core.types import Array, Declared, TensorType
from cenote.graph.graph import Graph, Node
from cenote.graph.interpreter import evaluate
from cenote.kernels.elementwise.activations import Activation
from cenote.ops.conv.banded_convs import BandedConvs
from cenote.ops.conv.conv import Conv
from cenote.passes.pipeline import optimize
from cenote.passes.specialize import specialize
from cenote.passes.windows.bands import band_convolutions
from tests.targets import LARGE, SMALL, TARGETS

TIGHT = replace(LARGE, l2_bytes=60 << 10)  # inner maps of 30 KB and more are large
CLIP = Activation("clip", 0.0, 6.0)
EXPAND, PROJECT = Conv(activation=CLIP), Conv()
DEPTHWISE = Conv(pads=((1, 1), (1, 1)), groups=48, activation=CLIP)


def chain(
    *convs: Conv, channels: tuple[int, ...], shape: tuple[int, ...] = (1, 16, 24, 20), out: str = ""
) -> Graph:
    """Convolutions one after the other, the last of which may add x; `out`: another output."""
    random = np.random.default_rng(0)
    constants: dict[str, Array] = {}
    nodes, name = [], "x"
    for index, (conv, filters) in enumerate(zip(convs, channels, strict=True)):
        before = channels[index - 1] if index else shape[1]
        window = 3 if any(map(any, conv.pads)) else 1
        w = random.standard_normal((filters, before // conv.groups, window, window)) / 4
        constants[f"w{index}"] = w.astype(np.float32)
        constants[f"b{index}"] = random.standard_normal(filters).astype(np.float32)
        inputs = (name, f"w{index}", f"b{index}", *(("x",) if conv.residual else ()))
        name = f"y{index}"
        nodes.append(Node(conv, inputs, (name,), f"conv {index}"))
    declared = (Declared("x", np.dtype(np.float32), shape),)
    outputs = (name, *([out] if out else []))
    graph = Graph(declared, outputs, tuple(nodes), constants)
    return specialize(graph, {"x": TensorType.of(np.float32, shape)}).graph


def names(graph: Graph) -> list[str]:
    return [node.op.name for node in graph.nodes]


def feed(graph: Graph) -> dict[str, Array]:
    return {"x": np.random.default_rng(1).standard_normal(graph.types["x"].shape).astype(np.float32)}


CASES: dict[str, tuple[tuple[Conv, ...], tuple[int, ...], int]] = {
    "block": ((EXPAND, DEPTHWISE, PROJECT), (48, 48, 24), 3),
    "residual": ((EXPAND, DEPTHWISE, replace(PROJECT, residual=True)), (48, 48, 16), 3),
    "moved by two": ((EXPAND, replace(DEPTHWISE, strides=(2, 2)), PROJECT), (48, 48, 24), 3),
    "without the last": ((EXPAND, DEPTHWISE), (48, 48), 2),
    "without the first": ((replace(DEPTHWISE, groups=16), PROJECT), (16, 40), 2),
    "one more behind": ((EXPAND, DEPTHWISE, PROJECT, EXPAND), (48, 48, 24, 48), 3),
}


@pytest.mark.parametrize("case", CASES)
def test_blocks_become_one_operator(case: str) -> None:
    convs, channels, joined = CASES[case]
    before = chain(*convs, channels=channels)
    after = band_convolutions(before, TIGHT)
    assert names(after) == ["banded_convs", *["conv"] * (len(convs) - joined)]
    op = after.nodes[0].op
    assert isinstance(op, BandedConvs)
    assert len(op.convs) == joined
    assert after.nodes[0].title == f"conv {joined - 1}"
    wanted, found = (evaluate(graph, feed(before))[before.outputs[0]] for graph in (before, after))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize(
    ("target", "changes"),
    [
        (LARGE, {}),  # the inner maps stay in the second cache
        (replace(TIGHT, threads=2), {}),
        (replace(SMALL, l2_bytes=64 << 10), {}),
        (TIGHT, {"shape": (2, 16, 24, 20)}),
        (TIGHT, {"out": "y0"}),  # somebody else reads what lies between
        (TIGHT, {"wide": True}),
    ],
)
def test_others_stay(target: Target, changes: dict[str, Any]) -> None:
    wide = changes.pop("wide", False)  # weights that are no small part of the second cache
    depthwise = replace(DEPTHWISE, groups=256) if wide else DEPTHWISE
    count = 256 if wide else 48
    graph = chain(EXPAND, depthwise, PROJECT, channels=(count, count, 24), **changes)
    after = band_convolutions(graph, target)
    assert names(after)[0] == "conv"


@pytest.mark.parametrize("option", [{"algorithms": {"conv": "direct"}}, {"weights": "float16"}])
def test_options_that_name_single_convolutions_keep_them(option: dict[str, Any]) -> None:
    graph = chain(*CASES["block"][0], channels=CASES["block"][1])
    assert "banded_convs" in names(optimize(graph, TIGHT, LoadOptions()))
    assert "banded_convs" not in names(optimize(graph, TIGHT, LoadOptions(**option)))


@pytest.mark.skipif(not TARGETS[0].is_wide, reason="bands are for vectors of 64 bytes in one piece")
@pytest.mark.parametrize("precision", ["fast", "exact"])
@pytest.mark.parametrize(("channels", "case"), [(16, "residual"), (3, "block"), (20, "block")])
def test_one_thread_and_two_have_the_same_bits(
    channels: int, case: str, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of few channels too, which convolutions by themselves read as they come."""
    small = replace(jit.host_target(), l2_bytes=64 << 10)
    monkeypatch.setattr(jit, "host_target", lambda: small)
    convs, filters, _ = CASES[case]
    graph, made = chain(*convs, channels=filters, shape=(1, channels, 24, 20)), []
    for threads in (1, 2):
        options = LoadOptions(threads=threads, precision=precision)
        plan = compile_graph(graph, Compilation(options))
        assert ("bands" in {step.algorithm for step in plan.describe().steps}) == (threads == 1)
        made.append(plan.program.run([feed(graph)["x"]])[0])
    np.testing.assert_array_equal(*made)
