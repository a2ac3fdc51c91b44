"""Slices of channels side by side become one split, with the same numbers; others stay."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import cenote
from cenote.core.types import Declared, TensorType
from cenote.graph.graph import Graph, Node
from cenote.graph.interpreter import evaluate
from cenote.graph.verify import verify
from cenote.ops.checks import int64s
from cenote.ops.elementwise.activation import Relu
from cenote.ops.movement.parts import Slice, Split
from cenote.ops.movement.transpose import Transpose
from cenote.ops.values import seeded
from cenote.passes.cleanup import eliminate_dead
from cenote.passes.slices import join_slices
from cenote.passes.specialize import specialize

SHAPE = (2, 12, 5, 4)


def sliced(
    ranges: list[tuple[int, int]], axis: int = 1, step: int = 1, shape: tuple[int, ...] = SHAPE
) -> Graph:
    """Relu, and these slices of it."""
    constants, nodes = {"a": int64s((axis,)), "s": int64s((step,))}, [Node(Relu(), ("x",), ("r",))]
    for number, (begin, end) in enumerate(ranges):
        constants |= {f"b{number}": int64s((begin,)), f"e{number}": int64s((end,))}
        nodes.append(Node(Slice(), ("r", f"b{number}", f"e{number}", "a", "s"), (f"y{number}",)))
    outputs = tuple(f"y{number}" for number in range(len(ranges)))
    graph = Graph((Declared("x", np.dtype(np.float32), shape),), outputs, tuple(nodes), constants)
    return specialize(graph, {"x": TensorType.of(np.float32, shape)}).graph


def joined(graph: Graph, shape: tuple[int, ...] = SHAPE) -> list[str]:
    """Operators behind the activation once slices are joined; the numbers are the same."""
    after, x = verify(eliminate_dead(join_slices(graph))), seeded(shape)
    wanted, got = evaluate(graph, {"x": x}), evaluate(after, {"x": x})
    assert list(wanted) == list(got)
    for name, value in wanted.items():
        np.testing.assert_array_equal(got[name], value)
    return [node.op.name for node in after.nodes[1:]]


@pytest.mark.parametrize(
    "ranges",
    [
        [(0, 6), (6, 12)],
        [(6, 1 << 40), (0, -6)],  # in any order, from either end
        [(0, 4), (4, 8), (8, 12)],
        [(0, 5), (5, 12)],
        [(1, 3), (7, 9)],  # with channels between them that nothing reads
    ],
)
@pytest.mark.parametrize("shape", [SHAPE, (1, 12, 7), (1, 12, 2, 3, 2)])
def test_slices_side_by_side_are_one_split(ranges: list[tuple[int, int]], shape: tuple[int, ...]) -> None:
    assert joined(sliced(ranges, shape=shape), shape) == ["split"]


def test_a_second_slice_of_the_same_channels_stays() -> None:
    assert sorted(joined(sliced([(0, 6), (6, 12), (6, 12)]))) == ["slice", "split"]


@pytest.mark.parametrize(
    ("ranges", "axis", "step"),
    [
        ([(0, 6)], 1, 1),  # alone
        ([(0, 7), (6, 12)], 1, 1),  # overlapping
        ([(0, 2), (2, 5)], 2, 1),  # of rows
        ([(0, 6), (6, 12)], 1, 2),  # every second channel
        ([(0, 1), (1, 2)], 0, 1),  # of pictures
        ([(0, 0), (0, 12)], 1, 1),  # nothing, and everything
    ],
)
def test_others_stay(ranges: list[tuple[int, int]], axis: int, step: int) -> None:
    assert joined(sliced(ranges, axis, step)) == ["slice"] * len(ranges)


def test_slices_along_several_axes_stay() -> None:
    constants = {
        "b": int64s((0, 0)),
        "e": int64s((6, 3)),
        "f": int64s((6, 0)),
        "g": int64s((12, 3)),
        "a": int64s((1, 2)),
    }
    nodes = (
        Node(Slice(), ("x", "b", "e", "a"), ("y0",)),
        Node(Slice(), ("x", "f", "g", "a"), ("y1",)),
    )
    graph = Graph((Declared("x", np.dtype(np.float32), SHAPE),), ("y0", "y1"), nodes, constants)
    kept = join_slices(specialize(graph, {"x": TensorType.of(np.float32, SHAPE)}).graph)
    assert not any(isinstance(node.op, Split) for node in kept.nodes)


def test_an_open_number_of_channels_is_not_split() -> None:
    nodes = [helper.make_node("Slice", ["x", f"b{i}", f"e{i}", "a"], [f"y{i}"]) for i in range(2)]
    numbers = {"b0": 0, "e0": 4, "b1": 4, "e1": 8, "a": 1}
    outputs = [helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, None) for i in range(2)]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "c", 3, 5])],
        outputs,
        [numpy_helper.from_array(int64s((value,)), name) for name, value in numbers.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    loaded = cenote.load(made.SerializeToString(), threads=1)
    for channels in (8, 12, 5):
        x = seeded((2, channels, 3, 5))
        for index, y in enumerate(loaded.run({"x": x}).values()):
            np.testing.assert_array_equal(y, x[:, 4 * index : 4 * index + 4])


@pytest.mark.parametrize("transposes", [True, False])
def test_slices_along_the_first_axis_of_what_is_transposed_are_one_split(transposes: bool) -> None:
    """Queries, keys and values: parts of plain memory. Pictures of a batch may be blocked maps, and stay."""
    shape = (2, 5, 3, 2, 4)
    wide = Transpose((2, 0, 3, 1, 4)) if transposes else Relu()
    nodes = [Node(wide, ("x",), ("r",))]
    constants = {"a": int64s((0,)), "s": int64s((1,))}
    count = 3 if transposes else 2
    for number in range(count):
        constants |= {f"b{number}": int64s((number,)), f"e{number}": int64s((number + 1,))}
        nodes.append(Node(Slice(), ("r", f"b{number}", f"e{number}", "a", "s"), (f"y{number}",)))
    declared = Declared("x", np.dtype(np.float32), shape)
    graph = Graph((declared,), tuple(f"y{number}" for number in range(count)), tuple(nodes), constants)
    typed = specialize(graph, {"x": TensorType.of(np.float32, shape)}).graph
    assert joined(typed, shape) == (["split"] if transposes else ["slice"] * 2)
