"""Operators whose results' sizes depend on content: what a model runs for them gives the reference's bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cenote.core.types import Array
from cenote.graph.graph import Node
from cenote.graph.interpreter import run_node
from cenote.ops.base import Op
from cenote.ops.movement.data_dependent import Compress, NonZero, Unique
from cenote.ops.reduction.non_max_suppression import NonMaxSuppression

RANDOM = np.random.default_rng(5)
SHAPES = [(5,), (40_001,), (3, 130, 77), (2, 0, 3)]
DTYPES = [np.float32, np.float16, np.float64, np.int64, np.uint8, np.bool_]


def numbers(shape: tuple[int, ...], dtype: Any) -> Array:
    """Few different numbers, zeros of both signs, infinities and NaN among them."""
    x = RANDOM.integers(-3, 4, shape)
    if np.dtype(dtype).kind != "f":
        return x.astype(dtype)
    values = np.array([np.nan, -np.inf, -0.0, 0.0, 1.5, np.inf, -np.nan], dtype)
    return values[x + 3]


def same_bits(op: Op, threads: int, *inputs: Array | None) -> None:
    for y, wanted in zip(op.run_on_host(threads, *inputs), op.reference(*inputs), strict=True):
        assert (y.dtype, y.shape, y.tobytes()) == (wanted.dtype, wanted.shape, wanted.tobytes())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_non_zero(shape: tuple[int, ...], dtype: Any) -> None:
    for threads in (1, 2):
        same_bits(NonZero(), threads, numbers(shape, dtype))
    same_bits(NonZero(), 2, numbers((*shape, 2), dtype)[..., 0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_unique(dtype: Any) -> None:
    for shape in SHAPES:
        for ascending in (True, False):
            for count in (1, 2, 4):
                same_bits(Unique(None, ascending, count), 2, numbers(shape, dtype))
    same_bits(Unique(0, True, 4), 1, numbers((9001,), dtype))
    same_bits(Unique(0, True, 4), 1, numbers((3000, 2), dtype))
    same_bits(Unique(None, False, 4), 1, RANDOM.permutation(9001).astype(dtype))


@pytest.mark.parametrize("dtype", [*DTYPES, np.complex128])
def test_compress(dtype: Any) -> None:
    for shape in SHAPES:
        x = numbers(shape, dtype)
        condition = RANDOM.random(x.size) < 0.4
        same_bits(Compress(), 2, x, condition)
        same_bits(Compress(), 1, x, condition[: x.size // 2])
        same_bits(Compress(-1), 1, x, RANDOM.random(shape[-1]) < 0.4)
    same_bits(Compress(), 1, x, np.zeros(x.size, bool))


def test_objects_go_by_the_reference() -> None:
    words = np.array(["a", "", "b"] * 5000, object)
    np.testing.assert_array_equal(
        Unique(count=4).run_on_host(1, words)[3], Unique(count=4).reference(words)[3]
    )
    same_bits(Unique(), 1, np.arange(6000)[::-1])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
@pytest.mark.parametrize("centered", [False, True])
def test_non_max_suppression(centered: bool, dtype: Any) -> None:
    boxes = (RANDOM.random((2, 300, 4)) * [10, 10, 10, 10]).astype(dtype)
    boxes[0, :7] = [
        [np.nan] * 4,
        [np.inf] * 4,
        [0] * 4,
        [-1, -1, -2, -3],
        [0, 0, np.inf, 1],
        [0] * 4,
        [1] * 4,
    ]
    scores = np.round(RANDOM.random((2, 3, 300)), 1).astype(dtype)
    scores[0, 0, ::9], scores[1, 2] = np.nan, 0
    op = NonMaxSuppression(centered)
    for most in (0, 1, 5, 1000):
        for overlap in (0.0, 0.3, 1.0):
            limits = [np.array([most]), np.array([overlap], np.float32), np.array([0.2], np.float32)]
            same_bits(op, 1, boxes, scores, *limits)
            same_bits(op, 1, boxes, scores, *limits[:2], None)
    same_bits(op, 1, boxes[:, :0], scores[..., :0], np.array([3]), None, None)
    for sample in op.samples():
        same_bits(sample.op, 1, *sample.inputs)


def test_a_node_at_a_cut_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its types were inferred by running the reference, and then it ran again."""
    calls, compute = [], NonZero.compute
    monkeypatch.setattr(NonZero, "compute", lambda op, x: calls.append(1) or compute(op, x))
    node = Node(NonZero(), ("x",), ("y",), "n")
    run_node(node, [np.ones(3, np.float32)])
    run_node(node, [np.ones(3, np.float32)], 1)
    assert len(calls) == 2
    run_node(node, [np.ones(9000, np.float32)], 1)
    assert len(calls) == 2
