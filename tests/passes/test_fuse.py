"""The rewriter that fusing rules work with."""

from __future__ import annotations

import numpy as np

from cenote.core.types import Declared, TensorType
from cenote.graph.graph import Graph, Node
from cenote.ops.elementwise.activation import Sigmoid, Swish
from cenote.ops.elementwise.binary import Mul
from cenote.passes.fuse import Rewriter, fuse, recognize_gate


def gated() -> Graph:
    """x * sigmoid(x), where x = a * b."""
    type = TensorType.of(np.float32, (1, 8))
    nodes = (
        Node(Mul(), ("a", "b"), ("x",)),
        Node(Sigmoid(), ("x",), ("gate",)),
        Node(Mul(), ("x", "gate"), ("y",)),
    )
    inputs = tuple(Declared(name, np.dtype(np.float32), (1, 8)) for name in "ab")
    return Graph(inputs, ("y",), nodes, types=dict.fromkeys(("a", "b", "x", "gate", "y"), type))


def test_a_merged_node_reads_its_input_once() -> None:
    """Two nodes read x before, one does after: the rules that follow may take x's producer in as well."""
    rewriter = Rewriter(gated())
    assert rewriter.producer("x", Mul) is None
    node = rewriter.nodes[2]
    assert node is not None
    assert recognize_gate(rewriter, node)
    assert rewriter.uses["x"] == 1
    assert rewriter.uses["gate"] == 0
    assert rewriter.producer("x", Mul) is not None


def test_swish() -> None:
    assert [type(node.op) for node in fuse(gated()).nodes] == [Mul, Swish]
