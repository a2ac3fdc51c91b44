"""Operators that forward their input: what they say is true of the numbers, at all sizes, and such nodes are gone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cenote.core.types import Declared, TensorType
from cenote.graph.graph import Graph, Node
from cenote.graph.interpreter import evaluate
from cenote.ops.base import Op, ValueNeeded
from cenote.ops.checks import int64s
from cenote.ops.elementwise.where import TileArray, Where
from cenote.ops.movement.depth_space import DepthToSpace, SpaceToDepth
from cenote.ops.movement.pad import Pad
from cenote.ops.movement.parts import Concat, Slice, Split
from cenote.ops.movement.reshape import Expand
from cenote.ops.movement.resize import Resize
from cenote.ops.movement.transpose import Transpose
from cenote.ops.pool.average import AveragePool
from cenote.ops.pool.window import MaxPool
from cenote.ops.table import operators
from cenote.ops.values import special
from cenote.passes.cleanup import remove_identities
from cenote.passes.specialize import specialize
from tests.contract.samples import listed

SHAPE = (2, 4, 5, 6)
NOTHING: dict[str, tuple[Op, tuple[Any, ...]]] = {
    "slice": (Slice(), ([0, 0], [4, 1 << 40], [1, -1])),
    "pad": (Pad(((0, 0),) * 4), ()),
    "expand": (Expand(), ([4, 1, 1],)),
    "tile": (TileArray(), ([1, 1, 1, 1],)),
    "concat": (Concat(axis=1), ()),
    "split": (Split(axis=1, count=1), ()),
    "transpose": (Transpose((0, 1, 2, 3)), ()),
    "resize by ones": (Resize("linear", scales=(1.0, 1.0, 1.0, 1.0)), ()),
    "resize to its size": (Resize("cubic", sizes=(5, 6), axes=(2, 3)), ()),
    "blocks of one": (DepthToSpace(1), ()),
    "blocks of one back": (SpaceToDepth(1), ()),
    "means of one": (AveragePool((1, 1)), ()),
    "maxima of one": (MaxPool((1, 1), (1, 1)), ()),
}
MUCH: dict[str, tuple[Op, tuple[Any, ...]]] = {
    "slice backward": (Slice(), ([-1], [-99], [1], [-1])),
    "slice of a part": (Slice(), ([0], [3], [1])),
    "pad and crop": (Pad(((0, 0), (0, 0), (1, -1), (0, 0))), ()),
    "resize with rounded sizes by step": (Resize("linear", scales=(1, 1, 1.1, 1.1), by_step=True), ()),
    "transpose": (Transpose((0, 1, 3, 2)), ()),
    "sums of one": (AveragePool((1, 1), divisor_override=2), ()),
    "maxima without NaN": (MaxPool((1, 1), nan="ignore"), ()),
    "maxima of every second": (MaxPool((1, 1), (2, 2)), ()),
}


def made(op: Op, given: tuple[Any, ...], shape: tuple[int, ...] = SHAPE) -> Graph:
    constants = {f"c{index}": int64s(value) for index, value in enumerate(given)}
    nodes = (Node(op, ("x", *constants), ("y",)), Node(Pad(((1, 1),) * 4), ("y",), ("z",)))
    graph = Graph((Declared("x", np.dtype(np.float32), shape),), ("z",), nodes, constants)
    return specialize(graph, {"x": TensorType.of(np.float32, shape)}).graph


@pytest.mark.parametrize("what", NOTHING)
def test_nodes_that_do_nothing_are_gone(what: str) -> None:
    graph = made(*NOTHING[what])
    after = remove_identities(graph)
    assert [node.op.name for node in after.nodes] == ["pad"]
    assert after.nodes[0].inputs[0] == "x"
    x = special(SHAPE)
    before, got = evaluate(graph, {"x": x})["z"], evaluate(after, {"x": x})["z"]
    np.testing.assert_array_equal(got, before)
    if what != "means of one":  # sums, which begin with 0, lose its sign
        np.testing.assert_array_equal(np.signbit(got), np.signbit(before))


@pytest.mark.parametrize("holds", [True, False])
def test_masks_that_mask_nothing_are_gone(holds: bool) -> None:
    """Of one number, or of a row for all; not where the other one decides the shape."""
    for shape, gone in (((1, 1, 1, 6), True), ((), True), ((3, *SHAPE), False)):
        constants = {"c": np.full(shape, holds), "z": np.zeros((), np.float32)}
        chosen = ("x", "z") if holds else ("z", "x")
        nodes = (Node(Where(), ("c", *chosen), ("y",)), Node(Transpose(), ("y",), ("t",)))
        graph = Graph((Declared("x", np.dtype(np.float32), SHAPE),), ("t",), nodes, constants)
        graph = specialize(graph, {"x": TensorType.of(np.float32, SHAPE)}).graph
        after = remove_identities(graph)
        assert (len(after.nodes) == 1) == gone
        x = special(SHAPE)
        np.testing.assert_array_equal(evaluate(after, {"x": x})["t"], evaluate(graph, {"x": x})["t"])


@pytest.mark.parametrize("what", MUCH)
def test_nodes_that_do_something_stay(what: str) -> None:
    assert len(remove_identities(made(*MUCH[what])).nodes) == 2


def test_what_is_forwarded_is_true_of_all_samples() -> None:
    """And of the samples of operators that may, some do and some do not."""
    said: dict[str, set[bool]] = {}
    for sample in (each for kind in operators() for each in listed(kind)):
        op, arrays = sample.op, sample.inputs
        if not arrays or arrays[0] is None:
            continue
        try:
            forwarded = op.forwarded([None if each is None else TensorType.known(each) for each in arrays])
        except ValueNeeded:
            continue
        said.setdefault(op.name, set()).add(forwarded is not None)
        if forwarded is not None:
            (first, *_), source = op.reference(*arrays), arrays[forwarded]
            assert source is not None
            np.testing.assert_array_equal(first, source, str(op))
            assert first.dtype == source.dtype
    assert {"slice", "pad", "expand", "tile", "concat", "split", "transpose", "resize"} <= set(said)
    assert all(
        False in found for name, found in said.items() if name in ("slice", "pad", "resize", "transpose")
    )
