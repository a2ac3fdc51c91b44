"""Slices written element by element become what is written, joined to what is around it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import cenote
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


def shifted(columns: list[Array], starts: tuple[int, ...]) -> list[Array]:
    return [column + start for column, start in zip(columns, starts, strict=True)]


@pytest.mark.usefixtures("folded")
@pytest.mark.parametrize(
    ("shape", "starts", "made"),
    [
        ((2, 3, 4), (0, 0, 0), ["slice", "concat"]),
        ((2, 3), (1, 0), ["slice", "concat"]),
        ((3, 3, 2), (0, 0, 1), ["slice", "slice", "concat"]),
        ((2,), (1,), ["slice", "concat"]),
        ((2, 3, 2), (0, 0, 1), ["slice", "slice", "slice", "concat", "slice", "concat"]),
    ],
)  # fmt: skip
def test_a_part_is_joined_to_what_is_around_it(
    shape: tuple[int, ...], starts: tuple[int, ...], made: list[str]
) -> None:
    graph = written(shifted(places(shape), starts), shape)
    assert names(graph) == made
    assert is_same(graph)


@pytest.mark.usefixtures("folded")
def test_sums_and_small_parts_stay() -> None:
    assert "scatter_nd" in names(written(places(), reduction="add"))
    part = written(shifted(places((1, 2, 2)), (1, 0, 2)), (1, 2, 2))
    assert "scatter_nd" in names(part)
    assert is_same(part)


@pytest.mark.usefixtures("folded")
@pytest.mark.parametrize("starts", [(2, 0, 0), (-1, 0, 0)], ids=["behind", "counted from the end"])
def test_places_that_are_no_part_of_the_axis_stay(starts: tuple[int, ...]) -> None:
    assert "scatter_nd" in names(written(shifted(places((2, 3, 4)), starts), (2, 3, 4)))


# `y[:, :, 1:] = u` as PyTorch's exporter writes it; the sizes of all axes are open.
OPEN = """<ir_version: 10, opset_import: ["" : 18]>
network (float[a,b,c] x) => (float[a,b,c] z) {
    s = Shape (x)  a = Gather (s, zero)  b = Gather (s, one)  c = Gather (s, two)  y = Neg (x)
    ra = Range (zero, a, one)  rb = Range (zero, b, one)  rc = Range (FIRST, c, one)  rest = SLICE
    la = Reshape (ra, ones3)  lb = Reshape (rb, ones2)  tail = Slice (x, first, last, axis)  u = Relu (tail)
    e = Shape (u)  ka = Expand (la, e)  kb = Expand (lb, e)  kc = Expand (rest, e)
    ca = Unsqueeze (ka, minus)  cb = Unsqueeze (kb, minus)  cc = Unsqueeze (kc, minus)
    i = Concat <axis = -1> (ca, cb, cc)  z = ScatterND (y, i, u)
}"""
NUMBERS = {
    "zero": 0, "one": 1, "two": 2, "ones3": [-1, 1, 1], "ones2": [-1, 1], "first": [1], "last": [1 << 40],
    "axis": [2], "minus": [-1], "zero1": [0],
}  # fmt: skip


def run(text: str, expected: Callable[[Array], Array]) -> set[str]:
    """The operators of a model that is loaded once and right at several sizes."""
    onnx = pytest.importorskip("onnx")
    model = onnx.parser.parse_model(text)
    numbers = (onnx.numpy_helper.from_array(np.array(value), name) for name, value in NUMBERS.items())
    model.graph.initializer.extend(numbers)
    loaded = cenote.load(model, threads=1)
    for shape in [(2, 3, 5), (2, 4, 2), (3, 1, 40)]:
        x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
        np.testing.assert_array_equal(loaded(x), expected(x))
    return {step.op.split("(")[0] for step in loaded.plan.describe().steps}


def with_part(x: Array, part: Array) -> Array:
    made = -x
    made[..., 1:] = part
    return made


@pytest.mark.parametrize(
    ("first", "rest"), [("zero", "Slice (rc, first, last, zero1)"), ("one", "Identity (rc)")]
)
def test_parts_of_open_sizes_are_joined(first: str, rest: str) -> None:
    text = OPEN.replace("FIRST", first).replace("SLICE", rest)
    assert "scatter_nd" not in run(text, lambda x: with_part(x, np.maximum(x[..., 1:], 0)))


def test_parts_of_open_sizes_that_are_written_backwards_stay() -> None:
    text = OPEN.replace("FIRST", "one").replace("SLICE", "Neg (rc)")
    assert "scatter_nd" in run(text, lambda x: with_part(x, np.maximum(x[..., 1:], 0)[..., ::-1]))


# `y[1:] = u` as PyTorch's newer exporter writes it: rows alone.
ROWS = """<ir_version: 10, opset_import: ["" : 18]>
network (float[a,b,c] x) => (float[a,b,c] z) {
    s = Shape (x)  a = Gather (s, zero)  y = Neg (x)  r = Range (zero, a, one)  q = Slice (r, first, last, zero1)
    i = Unsqueeze (q, minus)  tail = Slice (x, first, last, zero1)  u = Relu (tail)  z = ScatterND (y, i, u)
}"""


def test_rows_of_open_sizes_are_joined() -> None:
    steps = run(ROWS, lambda x: np.concatenate([-x[:1], np.maximum(x[1:], 0)]))
    assert "scatter_nd" not in steps
