"""Conv → MaxPool as one node: where it may be done, and what the graph is then."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cenote.codegen import jit
from cenote.core.load_options import LoadOptions
from cenote.core.types import Array, Declared, TensorType
from cenote.graph.graph import Graph, Node
from cenote.graph.interpreter import evaluate
from cenote.ops.base import Op
from cenote.ops.conv.conv import Conv
from cenote.ops.elementwise.activation import HardSwish, Relu
from cenote.ops.elementwise.binary import Add
from cenote.ops.normalization.batch_normalization import BatchNormalization
from cenote.ops.pool.window import MaxPool, MinPool
from cenote.passes.fuse import fuse
from cenote.passes.pipeline import optimize
from cenote.passes.specialize import specialize

ONE = ((1, 1), (1, 1))
CONV = Conv(pads=ONE)
POOL = MaxPool((2, 2), (2, 2))


def chain(*ops: Op, x: tuple[int, ...] = (1, 16, 7, 8), filters: int = 16) -> Graph:
    """Operators one after the other; the convolution has weights and bias, the others take parameters of ones."""
    random = np.random.default_rng(0)
    conv: Any = next(op for op in ops if isinstance(op, Conv))
    constants: dict[str, Array] = {
        "w": random.standard_normal((filters, x[1] // conv.groups, 3, 3)).astype(np.float32) / 12,
        "b": random.standard_normal(filters).astype(np.float32),
    }
    for index, name in enumerate(("scale", "shift", "mean", "variance")):
        constants[name] = np.full(filters, (-1, 0.5, 0.25, 2)[index], np.float32)
    nodes, last = [], "x"
    for index, op in enumerate(ops):
        more: tuple[str, ...] = ()
        if isinstance(op, Conv):
            more = ("w", "b")
        elif isinstance(op, BatchNormalization):
            more = ("scale", "shift", "mean", "variance")
        elif isinstance(op, Add):
            more = ("r",)
        y = "y" if index == len(ops) - 1 else f"v{index}"
        nodes.append(Node(op, (last, *more), (y,), ""))
        last = y
    declared = [Declared("x", np.dtype(np.float32), x)]
    given = {"x": TensorType.of(np.float32, x)}
    if any(isinstance(op, Add) for op in ops):
        shape = (x[0], filters, x[2] // 2, x[3] // 2)
        declared.append(Declared("r", np.dtype(np.float32), shape))
        given["r"] = TensorType.of(np.float32, shape)
    used = {name for node in nodes for name in node.inputs}
    constants = {name: value for name, value in constants.items() if name in used}
    before = Graph(tuple(declared), ("y",), tuple(nodes), constants)
    return specialize(before, given).graph


def steps(graph: Graph) -> list[str]:
    return [line.strip() for line in str(graph).splitlines() if " = " in line and "constant" not in line]


def check_values(before: Graph, after: Graph) -> None:
    random = np.random.default_rng(1)
    feed = {
        d.name: random.standard_normal(before.types[d.name].shape).astype(np.float32) for d in before.inputs
    }
    wanted, seen = evaluate(before, feed)["y"], evaluate(after, feed)["y"]
    assert wanted.shape == seen.shape
    np.testing.assert_allclose(seen, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("ops", [(CONV, Relu(), POOL), (CONV, POOL, Relu())])
def test_pool_becomes_a_field_of_the_convolution(ops: tuple[Op, ...]) -> None:
    before = chain(*ops)
    after = fuse(before)
    order = ["conv", "relu", "max_pool"] if isinstance(ops[1], Relu) else ["conv", "max_pool", "relu"]
    assert [line.split()[2].split("(")[0] for line in steps(before)] == order
    assert steps(after) == [
        "%y = conv(pads=((1,1),(1,1)), activation=relu, pool=True) %x, %w, %b : f32[1,16,3,4]"
    ]
    check_values(before, after)
    (node,) = after.nodes
    types = after.input_types(node)
    assert {lowering.name for lowering in node.op.lowerings(types, jit.host_target())} >= {"winograd_f2_pool"}


@pytest.mark.parametrize(
    "pool",
    [
        MaxPool((2, 2), (2, 2), auto_pad="VALID"),
        MaxPool((2, 2), (2, 2), ceil_mode=True),  # 8x8: nothing to round
        MaxPool((2, 2), (2, 2), ((0, 0), (0, 0)), (1, 1)),
    ],
)
def test_other_ways_to_say_it(pool: MaxPool) -> None:
    before = chain(CONV, pool, x=(2, 16, 8, 8))
    after = fuse(before)
    assert len(after.nodes) == 1
    check_values(before, after)


@pytest.mark.parametrize(
    ("conv", "pool"),
    [
        (CONV, MaxPool((2, 2), (2, 2), ceil_mode=True)),  # 7 rows: 4 windows
        (CONV, MaxPool((2, 2), (2, 2), auto_pad="SAME_UPPER")),
        (CONV, MaxPool((3, 3), (2, 2), ONE)),
        (CONV, MaxPool((2, 2), (1, 1))),
        (CONV, MaxPool((2, 2), (2, 2), ONE)),
        (CONV, MaxPool((2, 2), (2, 2), nan="ignore")),
        (CONV, MinPool((2, 2), (2, 2))),
        (replace(CONV, exact=True), POOL),
        (replace(CONV, strides=(2, 2)), POOL),
        (Conv(pads=((2, 2), (2, 2)), dilations=(2, 2)), POOL),
        (replace(CONV, groups=2), POOL),
    ],
)
def test_what_has_no_kernel_stays_two_nodes(conv: Conv, pool: MaxPool) -> None:
    after = fuse(chain(conv, pool))
    assert [type(node.op) for node in after.nodes] == [Conv, type(pool)]


def test_few_channels_stay_two_nodes() -> None:
    assert len(fuse(chain(CONV, POOL, x=(1, 3, 8, 8))).nodes) == 2


def test_a_map_that_others_read_is_kept() -> None:
    before = chain(CONV, POOL)
    assert len(fuse(before.replace(outputs=("y", "v0"))).nodes) == 2


@pytest.mark.parametrize(
    "last", [HardSwish(), BatchNormalization(), Add()], ids=["decreasing", "negative scale", "residual"]
)
def test_what_follows_the_pool_is_not_moved_before_it(last: Op) -> None:
    before = chain(CONV, POOL, last)
    after = fuse(before)
    assert [node.op.name for node in after.nodes] == ["conv", last.name]
    check_values(before, after)


def test_exact_precision_pools_apart() -> None:
    target, before = jit.host_target(), chain(CONV, POOL)
    assert len(optimize(before, target).nodes) == 1
    apart = optimize(before, target, LoadOptions(precision="exact"))
    assert [node.op.name for node in apart.nodes] == ["conv", "max_pool"]
    assert all(list(node.op.lowerings(apart.input_types(node), target)) for node in apart.nodes)
