"""The placement: no two buffers that live at the same time overlap, and little more memory is used than must be."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cenote.codegen import jit
from cenote.compiler import placement
from cenote.compiler.memory import Placement, place_values
from cenote.compiler.placement import Buffer, live_peak, place
from cenote.compiler.schedule import schedule
from cenote.core.errors import CapacityError
from cenote.core.types import Declared, TensorType
from cenote.graph.graph import Graph, Node
from cenote.ops.conv.conv import Conv
from cenote.ops.elementwise.activation import Relu
from cenote.ops.elementwise.binary import Add
from cenote.ops.movement.parts import Concat
from cenote.passes.specialize import specialize


def assert_no_overlap(buffers: list[Buffer]) -> None:
    """Every pair that is alive at one step lies apart."""
    for a, b in itertools.combinations(
        [b for b in buffers if b.slot and b.slot.kind == "arena" and b.last >= 0], 2
    ):
        assert a.slot
        assert b.slot
        if a.first <= b.last and b.first <= a.last:
            apart = a.slot.offset + a.nbytes <= b.slot.offset or b.slot.offset + b.nbytes <= a.slot.offset
            assert apart, f"{a.root} and {b.root} share memory while both live"


lifetimes = st.lists(
    st.tuples(st.integers(0, 5000), st.integers(0, 30), st.integers(0, 12)).map(
        lambda t: Buffer(f"{t}", nbytes=t[0], first=t[1], last=t[1] + t[2])
    ),
    max_size=40,
)


@pytest.mark.parametrize("most", [0, 2048], ids=["in the order of time", "greedy"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lifetimes)
def test_placed_buffers_never_overlap(monkeypatch: Any, most: int, buffers: list[Buffer]) -> None:
    monkeypatch.setattr(placement, "_MOST_COMPARED", most)
    total = place(buffers)
    assert_no_overlap(buffers)
    assert total >= live_peak(buffers)
    for buffer in buffers:
        assert buffer.slot is not None
        assert buffer.slot.offset % 64 == 0
        assert buffer.slot.offset + buffer.nbytes <= total


def test_very_many_buffers_share_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain of values of many sizes, placed in the order of time, takes little more than two neighbours."""
    monkeypatch.setattr(placement, "_MOST_COMPARED", 0)
    chain = [Buffer(str(i), nbytes=64 * (1 + i * 37 % 50), first=i, last=i + 1) for i in range(3000)]
    assert place(chain) <= 2 * live_peak(chain)
    assert_no_overlap(chain[:300])


def test_a_gap_is_reused() -> None:
    a, b, c = (Buffer(n, nbytes=640, first=f, last=l) for n, f, l in (("a", 0, 1), ("b", 0, 5), ("c", 3, 5)))
    assert place([a, b, c]) == 1280
    assert c.slot == a.slot


def planned(graph: Graph, **shapes: tuple[int, ...]) -> Placement:
    types = {name: TensorType.of(np.float32, shape) for name, shape in shapes.items()}
    return place_values(schedule(specialize(graph, types).graph, jit.host_target()))


def convolution(rng: np.random.Generator, inputs: int, outputs: int) -> np.ndarray:
    return rng.standard_normal((outputs, inputs, 3, 3)).astype(np.float32)


def dense_block() -> Graph:
    """x -> conv -> a; concat(a, conv(a)) -> b; concat(b, conv(b)) -> y: the nested concats of a DenseNet."""
    rng, pads = np.random.default_rng(0), ((1, 1), (1, 1))
    constants = {
        "w0": convolution(rng, 16, 16),
        "w1": convolution(rng, 16, 16),
        "w2": convolution(rng, 32, 16),
    }
    nodes = (
        Node(Conv(pads=pads), ("x", "w0"), ("a",)),
        Node(Conv(pads=pads), ("a", "w1"), ("p",)),
        Node(Concat(axis=1), ("a", "p"), ("b",)),
        Node(Conv(pads=pads), ("b", "w2"), ("q",)),
        Node(Concat(axis=1), ("b", "q"), ("c",)),
        Node(Relu(), ("c",), ("y",)),
    )
    return Graph((Declared("x", np.dtype(np.float32), (1, 16, 9, 9)),), ("y",), nodes, constants)


def test_nested_concats_share_one_buffer() -> None:
    plan = planned(dense_block(), x=(1, 16, 9, 9))
    roots = {plan.buffer_of[name].root for name in ("a", "p", "b", "q", "c")}
    assert len(roots) == 1, "every piece lies in the last concat's memory"
    offsets = {name: plan.views[name].slot.offset for name in ("a", "p", "b", "q", "c")}
    assert offsets["a"] == offsets["b"] == offsets["c"]
    assert offsets["a"] < offsets["p"] < offsets["q"]
    assert_no_overlap(list(plan.buffers))


def test_an_elementwise_operator_writes_over_its_dead_input_only() -> None:
    nodes = (
        Node(Relu(), ("x",), ("a",)),
        Node(Relu(), ("a",), ("b",)),
        Node(Add(), ("b", "a"), ("c",)),
        Node(Relu(), ("c",), ("y",)),
    )
    graph = Graph((Declared("x", np.dtype(np.float32), (4, 8)),), ("y",), nodes)
    plan = planned(graph, x=(4, 8))
    assert plan.buffer_of["a"] is not plan.buffer_of["b"], "a is read again by the addition"
    assert plan.buffer_of["x"].slot is not None
    assert plan.buffer_of["x"].slot.kind == "input", "the caller's array is never written to"
    assert plan.buffer_of["y"].slot is not None
    assert plan.buffer_of["y"].slot.kind == "output"


def test_sizes_beyond_any_machine_are_refused() -> None:
    graph = Graph((Declared("x", np.dtype(np.float32), ("n", 8)),), ("y",), (
        Node(Relu(), ("x",), ("a",)), Node(Relu(), ("a",), ("y",)),
    ))  # fmt: skip
    with pytest.raises(CapacityError, match="use a smaller input"):
        planned(graph, x=(1 << 44, 8))
