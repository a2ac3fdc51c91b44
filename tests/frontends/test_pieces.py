"""Blocks of pictures along the batch, of any sizes, beside NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cenote
from cenote.frontends.builder import GraphBuilder
from cenote.frontends.pieces import batch_to_blocks, blocks_to_batch
from tests.frontends.tensorflow_archive import contents

OPEN = contents(["blocks_open.pb"])["blocks_open.pb"]


def spread(x: np.ndarray[Any, Any], block: tuple[int, ...], pads: list[list[int]]) -> np.ndarray[Any, Any]:
    """By its definition, a picture at a time."""
    rest = x.ndim - len(block) - 1
    padded = np.pad(x, [(0, 0), *map(tuple, pads), *[(0, 0)] * rest])
    every = [
        padded[(slice(None), *(slice(at, None, step) for at, step in zip(place, block, strict=True)))]
        for place in np.ndindex(*block)
    ]
    return np.concatenate(every)


@pytest.mark.parametrize(
    ("shape", "block", "pads"),
    [
        ((2, 6, 8, 3), (2, 4), [[0, 0], [0, 0]]),
        ((1, 5, 7, 2), (3, 2), [[1, 0], [0, 3]]),
        ((3, 7), (4,), [[1, 4]]),
        ((2, 3, 4, 5), (1, 2, 5), [[2, 1], [0, 0], [3, 2]]),
    ],
)
def test_blocks_go_to_the_batch_and_back(
    shape: tuple[int, ...], block: tuple[int, ...], pads: list[list[int]]
) -> None:
    builder = GraphBuilder()
    x = builder.input("x", np.dtype(np.float32), shape)
    padding = builder.constant(np.array(pads, np.int32))
    y = blocks_to_batch(builder, x, block, padding)
    z = batch_to_blocks(builder, y, block, padding)
    graph = builder.graph({"y": y, "z": z}, "blocks")
    given = np.random.default_rng(0).random(shape, np.float32)
    found = _run(graph, given)
    assert np.array_equal(found["y"], spread(given, block, pads))
    assert np.array_equal(found["z"], given)


def _run(graph: Any, x: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Evaluate a graph node by node with the references of its operators."""
    values: dict[str, Any] = {**graph.constants, "x": x}
    for node in graph.nodes:
        inputs = [values[name] if name else None for name in node.inputs]
        values.update(zip(node.outputs, node.op.reference(*inputs), strict=False))
    return values


@pytest.mark.parametrize("shape", [(2, 7, 10, 3), (2, 8, 9, 3)])
def test_a_block_that_does_not_divide_is_an_error(shape: tuple[int, ...]) -> None:
    """Pictures are not mixed in silence where the number of elements happens to divide."""
    model = cenote.load(OPEN)
    model(np.zeros((2, 8, 10, 3), np.float32))
    with pytest.raises(cenote.CenoteError):
        model(np.zeros(shape, np.float32))
