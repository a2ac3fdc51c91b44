"""Whatever the bytes or the graph: a right answer or an error of Cenote, never anything else.

Bytes: random, truncated, mutated files. Graphs: a small convolutional network whose nodes are dropped, renamed,
rewired (into cycles too), whose attributes change value or type and whose shapes turn negative or huge. What loads is
run twice, by references node by node and in typed stages, which must agree; so a graph that means something else than
before is compared with what it means now.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import onnx
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from cenote.core.errors import CenoteError
from cenote.frontends.onnx import load_onnx
from cenote.graph.graph import Graph
from cenote.graph.interpreter import evaluate
from cenote.graph.verify import verify
from cenote.passes.cleanup import eliminate_common, eliminate_dead, remove_identities
from cenote.passes.specialize import run_in_stages
from tests.frontends.onnx_network import NETWORK, RNG

EXTENTS = st.sampled_from([-(1 << 63), -5, -1, 0, 1, 2, 3, 7, 64, 1 << 20, 1 << 31, (1 << 63) - 1])
SETTINGS = settings(max_examples=150)


CONTENT = NETWORK.SerializeToString()
X = RNG.standard_normal((2, 2, 4, 4)).astype(np.float32)


def staged(graph: Graph) -> dict[str, np.ndarray]:
    """Run in stages, cleaning up and verifying each typed graph."""

    def run(part: Graph, inputs: Any) -> dict[str, np.ndarray]:
        for graph_pass in (remove_identities, eliminate_common, eliminate_dead):
            part = verify(graph_pass(verify(part)))
        return evaluate(part, inputs)

    return run_in_stages(graph, {"x": X}, run)


def survives(source: Any) -> bool:
    """True when it loads and runs, False when an error of Cenote says why not; anything else escapes."""
    try:
        graph = verify(load_onnx(source).graph)
        expected = evaluate(graph, {"x": X})
    except CenoteError as error:
        return not str(error)  # an error without a message would be no answer
        return False
    try:
        seen = staged(graph)
    except CenoteError as error:
        raise AssertionError(f"the interpreter runs it, but in stages: {error}") from error
    for name, array in expected.items():
        assert seen[name].dtype == array.dtype
        np.testing.assert_array_equal(seen[name], array)
    return True


def test_the_network_itself_runs() -> None:
    assert survives(NETWORK)
    assert survives(CONTENT)


@SETTINGS
@given(st.binary(max_size=300))
def test_random_bytes(content: bytes) -> None:
    survives(content)


@SETTINGS
@given(st.integers(0, len(CONTENT) - 1))
def test_truncated_files(length: int) -> None:
    assert not survives(CONTENT[:length])


@SETTINGS
@given(st.lists(st.tuples(st.integers(0, len(CONTENT) - 1), st.integers(0, 255)), min_size=1, max_size=6))
def test_mutated_bytes(edits: list[tuple[int, int]]) -> None:
    content = bytearray(CONTENT)
    for position, byte in edits:
        content[position] = byte
    survives(bytes(content))


@SETTINGS
@given(st.integers(0, len(CONTENT) - 1), st.integers(0, 40), st.binary(max_size=40))
def test_replaced_pieces(start: int, length: int, piece: bytes) -> None:
    survives(CONTENT[:start] + piece + CONTENT[start + length :])


NAMES = sorted(
    {name for item in NETWORK.graph.node for name in (*item.input, *item.output)} | {"x", "nothing"}
)
OPERATORS = sorted(
    {item.op_type for item in NETWORK.graph.node} | {"Add", "Transpose", "Flatten", "Foo", "If", ""}
)


def edit(draw: Any, proto: onnx.ModelProto) -> None:
    """One change of the graph."""
    nodes = proto.graph.node
    chosen = nodes[draw(st.integers(0, len(nodes) - 1))]
    kind = draw(
        st.sampled_from(
            ["drop", "swap", "rewire", "output", "operator", "attribute", "type", "weight", "input"]
        )
    )
    if kind == "drop" and len(nodes) > 1:
        nodes.remove(chosen)
    elif kind == "swap" and len(chosen.input) > 1:
        first, last = chosen.input[0], chosen.input[-1]
        chosen.input[0], chosen.input[-1] = last, first
    elif kind == "rewire" and chosen.input:
        chosen.input[draw(st.integers(0, len(chosen.input) - 1))] = draw(st.sampled_from(NAMES))
    elif kind == "output":
        chosen.output[0] = draw(st.sampled_from(NAMES))
    elif kind == "operator":
        chosen.op_type = draw(st.sampled_from(OPERATORS))
    elif kind in ("attribute", "type") and chosen.attribute:
        _edit_attribute(draw, chosen.attribute[draw(st.integers(0, len(chosen.attribute) - 1))], kind)
    elif kind == "weight":
        weight = proto.graph.initializer[draw(st.integers(0, len(proto.graph.initializer) - 1))]
        _edit_weight(draw, weight)
    elif kind == "input":
        shape = proto.graph.input[0].type.tensor_type.shape
        shape.dim[draw(st.integers(0, 3))].dim_value = draw(EXTENTS)


def _edit_attribute(draw: Any, attribute: onnx.AttributeProto, kind: str) -> None:
    """Another value of the same type, or another type."""
    name = attribute.name
    if kind == "type":
        content = draw(st.sampled_from([1, 1.5, "text", [1, 2], [0.5], ["a"], np.zeros(2)]))
        made = (
            helper.make_attribute(name, onnx.numpy_helper.from_array(content))
            if isinstance(content, np.ndarray)
            else helper.make_attribute(name, content)
        )
    elif attribute.type == onnx.AttributeProto.INTS:
        made = helper.make_attribute(
            name, draw(st.lists(EXTENTS, max_size=5)), attr_type=onnx.AttributeProto.INTS
        )
    elif attribute.type == onnx.AttributeProto.INT:
        made = helper.make_attribute(name, draw(EXTENTS))
    else:
        made = helper.make_attribute(name, draw(st.floats(width=32)))
    attribute.CopyFrom(made)


def _edit_weight(draw: Any, weight: onnx.TensorProto) -> None:
    """Another shape, another type, or (for integers) other content."""
    if weight.data_type == onnx.TensorProto.INT64 and draw(st.booleans()):
        content = np.array(draw(st.lists(EXTENTS, max_size=3)), np.int64)
        weight.CopyFrom(onnx.numpy_helper.from_array(content, weight.name))
    elif draw(st.booleans()) and weight.dims:
        weight.dims[draw(st.integers(0, len(weight.dims) - 1))] = draw(EXTENTS)
    else:
        weight.data_type = draw(st.integers(0, 30))


@settings(max_examples=400)
@given(st.data())
def test_edited_graphs(data: st.DataObject) -> None:
    proto = copy.deepcopy(NETWORK)
    for _ in range(data.draw(st.integers(1, 3))):
        edit(data.draw, proto)
    survives(proto)
