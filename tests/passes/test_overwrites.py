"""Slices written element by element that cover a whole tensor become what is written."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cenote.core.types import Array, Declared, TensorType
from cenote.graph.graph import Graph, Node
from cenote.graph.interpreter import evaluate
from cenote.ops.base import Op
from cenote.ops.movement.parts import Concat
from cenote.ops.movement.reshape import Expand, Unsqueeze
from cenote.ops.movement.scatter import ScatterND
from cenote.passes import specialize as specialization
from cenote.passes.cleanup import eliminate_dead, remove_identities
from cenote.passes.overwrites import recognize_overwrites
from cenote.passes.specialize import specialize

SHAPE = (3, 3, 4)


def written(columns: list[Array], shape: tuple[int, ...] = SHAPE, reduction: str = "none") -> Graph:
    """ScatterND with indices in the pieces of PyTorch's exporter: each coordinate expanded, then joined."""
    nodes: list[Node] = []
    for axis, _ in enumerate(columns):
        nodes.append(Node(Expand(), (f"column{axis}", "shape"), (f"expanded{axis}",)))
        nodes.append(Node(Unsqueeze(), (f"expanded{axis}", "last"), (f"lifted{axis}",)))
    lifted = tuple(f"lifted{axis}" for axis, _ in enumerate(columns))
    nodes.append(Node(Concat(-1), lifted, ("indices",)))
    return finished([*nodes], columns, shape, ScatterND(reduction))


def finished(nodes: list[Node], columns: list[Array], shape: tuple[int, ...], op: Op) -> Graph:
    updates = (*shape, *SHAPE[len(shape) :])
    constants = {f"column{axis}": column for axis, column in enumerate(columns)}
    constants |= {"shape": np.array(shape), "last": np.array([-1])}
    types = {"x": TensorType.of(np.float32, SHAPE), "u": TensorType.of(np.float32, updates)}
    declared = tuple(Declared(name, np.dtype(np.float32), kind.shape) for name, kind in types.items())
    graph = Graph(declared, ("y",), (*nodes, Node(op, ("x", "indices", "u"), ("y",))), constants)
    return specialize(graph, types).graph


def places(shape: tuple[int, ...] = SHAPE) -> list[Array]:
    """The places along each axis, so that they broadcast."""
    return [
        np.arange(extent).reshape(-1, *[1] * (len(shape) - 1 - axis)) for axis, extent in enumerate(shape)
    ]


def names(graph: Graph) -> list[str]:
    return [node.op.name for node in eliminate_dead(remove_identities(recognize_overwrites(graph))).nodes]


def is_same(graph: Graph) -> bool:
    noise = np.random.default_rng(0)
    given = {each.name: noise.standard_normal(each.shape).astype(np.float32) for each in graph.inputs}
    return bool(
        np.array_equal(evaluate(recognize_overwrites(graph), given)["y"], evaluate(graph, given)["y"])
    )


@pytest.fixture(params=[0, 1 << 20], ids=["pieces", "constant"])
def folded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Indices too large to be folded, and folded ones."""
    monkeypatch.setattr(specialization, "FOLD_BYTES", request.param)
    monkeypatch.setattr(specialization, "FOLD_RATIO", 1)


@pytest.mark.usefixtures("folded")
@pytest.mark.parametrize("shape", [SHAPE, SHAPE[:2], SHAPE[:1]], ids=str)
def test_a_whole_tensor_is_what_is_written(shape: tuple[int, ...]) -> None:
    graph = written(places(shape), shape)
    assert "scatter_nd" in [node.op.name for node in graph.nodes]
    assert names(graph) == ["identity"]  # an output of the graph that is an input
    assert is_same(graph)


def reversed_rows(columns: list[Array]) -> list[Array]:
    return [columns[0][::-1].copy(), *columns[1:]]


def one_row_twice(columns: list[Array]) -> list[Array]:
    return [columns[0] * 0, *columns[1:]]


def turned(columns: list[Array]) -> list[Array]:
    return [columns[1], columns[0], *columns[2:]]


@pytest.mark.usefixtures("folded")
@pytest.mark.parametrize("change", [reversed_rows, one_row_twice, turned])
def test_another_order_stays(change: Callable[[list[Array]], list[Array]]) -> None:
    graph = written(change(places()))
    assert "scatter_nd" in names(graph)
    assert is_same(graph)


@pytest.mark.usefixtures("folded")
def test_sums_and_parts_stay() -> None:
    assert "scatter_nd" in names(written(places(), reduction="add"))
    part = written(places((2, 3, 4)), (2, 3, 4))
    assert "scatter_nd" in names(part)
    assert is_same(part)
