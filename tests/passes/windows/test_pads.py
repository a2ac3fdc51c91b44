"""Pads become part of the convolutions and pools that read them where that gives the same numbers; others stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cenote.core.types import Array, Declared, TensorType
from cenote.graph.graph import Graph, Node
from cenote.graph.interpreter import evaluate
from cenote.graph.verify import verify
from cenote.ops.base import Op
from cenote.ops.conv.conv import Conv
from cenote.ops.elementwise.activation import Clip, Relu, Sigmoid, Tanh
from cenote.ops.movement.pad import Pad
from cenote.ops.pool.average import AveragePool
from cenote.ops.pool.window import MaxPool, MinPool
from cenote.ops.quantization.quantized_linear import ConvInteger, QLinearConv
from cenote.ops.values import seeded
from cenote.passes.cleanup import eliminate_dead
from cenote.passes.specialize import specialize
from cenote.passes.windows.pads import absorb_pads

SHAPE = (2, 4, 7, 8)
AROUND = ((0, 0), (0, 0), (1, 0), (2, 1))
FILTERS = seeded((6, 4, 3, 3))


def padded(
    op: Op,
    pad: Op,
    x: Array,
    more: dict[str, Array] | None = None,
    before: Op | None = None,
    read: bool = False,
) -> tuple[Graph, dict[str, Array]]:
    """x, what may be before, the pad, and the operator with more inputs; `read`: the padded map is an output too."""
    constants = dict(more or {})
    source = "a" if before else "x"
    nodes = [Node(before, ("x",), ("a",))] if before else []
    outputs = ("y", "p") if read else ("y",)
    nodes += [Node(pad, (source,), ("p",)), Node(op, ("p", *constants), ("y",))]
    graph = Graph((Declared("x", x.dtype, x.shape),), outputs, tuple(nodes), constants)
    return specialize(graph, {"x": TensorType.of(x.dtype, x.shape)}).graph, {"x": x}


def absorbed(graph: Graph, inputs: dict[str, Array]) -> bool:
    """Whether the pass takes the pad away; the numbers are the same in any case."""
    after = verify(eliminate_dead(absorb_pads(graph)))
    before, got = evaluate(graph, inputs), evaluate(after, inputs)
    for name, wanted in before.items():
        finite = np.isfinite(wanted)
        assert np.array_equal(got[name][~finite], wanted[~finite])  # maxima of nothing but padding
        np.testing.assert_allclose(got[name][finite], wanted[finite], rtol=1e-5, atol=1e-6)
    return not any(isinstance(node.op, Pad) for node in after.nodes)


@pytest.mark.parametrize(
    ("op", "w"),
    [
        (Conv(), FILTERS),
        (Conv(strides=(2, 2), pads=((0, 1), (1, 1))), FILTERS),
        (Conv(dilations=(2, 1), auto_pad="VALID"), FILTERS),
        (Conv(groups=4), seeded((8, 1, 3, 3))),
        (Conv(), seeded((6, 4, 1, 1))),  # whose outer results are the bias
    ],
)
def test_convolutions_add_them_to_their_own(op: Op, w: Array) -> None:
    for more in ({"w": w}, {"w": w, "b": seeded((len(w),))}):
        assert absorbed(*padded(op, Pad(AROUND), seeded(SHAPE), more))


@pytest.mark.parametrize("shape", [(1, 3, 9), (1, 3, 4, 5, 6)])
def test_one_and_three_axes(shape: tuple[int, ...]) -> None:
    around = ((0, 0), (0, 0), *((1, 2),) * (len(shape) - 2))
    w = seeded((5, 3, *(2,) * (len(shape) - 2)))
    assert absorbed(*padded(Conv(), Pad(around), seeded(shape), {"w": w}))


@pytest.mark.parametrize(
    "pad",
    [
        Pad(AROUND, value=1.0),
        Pad(AROUND, "reflect"),
        Pad(((0, 0), (0, 0), (-1, 0), (2, 1))),
        Pad(((0, 0), (1, 1), (1, 0), (0, 0))),
        Pad(((1, 0), (0, 0), (1, 0), (0, 0))),
    ],
)
def test_other_pads_of_convolutions_stay(pad: Op) -> None:
    channels = 6 if pad == Pad(((0, 0), (1, 1), (1, 0), (0, 0))) else 4
    assert not absorbed(*padded(Conv(), pad, seeded(SHAPE), {"w": seeded((6, channels, 3, 3))}))


def test_a_convolution_whose_pads_depend_on_its_input_keeps_it() -> None:
    same = Conv(strides=(2, 2), auto_pad="SAME_UPPER")
    assert not absorbed(*padded(same, Pad(AROUND), seeded(SHAPE), {"w": FILTERS}))


def test_a_pad_that_is_read_stays_but_for_the_convolution() -> None:
    graph, inputs = padded(Conv(), Pad(AROUND), seeded(SHAPE), {"w": FILTERS}, read=True)
    assert not absorbed(graph, inputs)
    assert absorb_pads(graph).nodes[-1].inputs[0] == "x"


@pytest.mark.parametrize("value", [-np.inf, 0.0])
@pytest.mark.parametrize(
    "before", [Relu(), Sigmoid(), Clip(0.0, 6.0), Clip(0.5, None), Tanh(), Clip(-1.0, 1.0), None]
)
def test_maxima_do_without_the_lowest_number(before: Op | None, value: float) -> None:
    """Zero is that where nothing is less."""
    graph, inputs = padded(
        MaxPool((3, 3), (2, 2)), Pad(AROUND, value=value), seeded(SHAPE) - 2, before=before
    )
    not_negative = isinstance(before, Relu | Sigmoid) or (isinstance(before, Clip) and before.low != -1)
    assert absorbed(graph, inputs) == (value < 0 or not_negative)


def test_maxima_of_bytes() -> None:
    for dtype, low in ((np.uint8, 0), (np.int8, -128)):
        for value in (low, low + 1):
            graph, inputs = padded(
                MaxPool((2, 2)), Pad(((0, 0), (0, 0), (1, 1), (1, 0)), value=value), seeded(SHAPE, 1, dtype)
            )
            assert absorbed(graph, inputs) == (value == low)


@pytest.mark.parametrize(
    "pool",
    [
        MaxPool((3, 3), ceil_mode=True),
        MaxPool((3, 3), pads=((1, 1), (1, 1))),
        MaxPool((3, 2)),  # a window that lies on padding alone
        MaxPool((3, 3), dilation=(2, 1)),
        MaxPool((3, 3), nan="ignore"),
        MaxPool((3, 3), auto_pad="SAME_UPPER"),
        MinPool((3, 3)),
    ],
)
def test_pools_of_other_rules_keep_it(pool: Op) -> None:
    assert not absorbed(*padded(pool, Pad(AROUND, value=-np.inf), seeded(SHAPE)))


def test_a_maximum_whose_place_is_asked_keeps_it() -> None:
    """Places count the elements of the padding."""
    nodes = (
        Node(Pad(AROUND, value=-np.inf), ("x",), ("p",)),
        Node(MaxPool((3, 3), return_indices=True), ("p",), ("y", "i")),
    )
    made = Graph((Declared("x", np.dtype(np.float32), SHAPE),), ("y", "i"), nodes, {})
    graph = specialize(made, {"x": TensorType.of(np.float32, SHAPE)}).graph
    assert not absorbed(graph, {"x": seeded(SHAPE)})


@pytest.mark.parametrize(
    ("pool", "taken"),
    [
        (AveragePool((3, 3)), True),
        (AveragePool((3, 3), (2, 1), count_include_pad=True), True),
        (AveragePool((3, 3), divisor_override=5), True),
        (AveragePool((3, 3), pads=((1, 1), (1, 1))), False),
        (AveragePool((3, 3), ceil_mode=True), False),
    ],
)
def test_averages_count_zeros(pool: Op, taken: bool) -> None:
    assert absorbed(*padded(pool, Pad(AROUND), seeded(SHAPE))) == taken
    assert not absorbed(*padded(pool, Pad(AROUND, value=1.0), seeded(SHAPE)))


@pytest.mark.parametrize("value", [3, 4])
def test_convolutions_of_bytes_take_their_zero_point(value: int) -> None:
    x, w = seeded(SHAPE, 2, np.uint8), seeded((6, 4, 3, 3), 3, np.int8)
    zero, none, scale = np.array(3, np.uint8), np.array(0, np.int8), np.array(0.1, np.float32)
    pad = Pad(AROUND, value=value)
    quantized = dict(zip(QLinearConv.operands[1:8], (scale, zero, w, scale, none, scale, zero), strict=True))
    assert absorbed(*padded(QLinearConv(Conv()), pad, x, quantized)) == (value == 3)
    assert absorbed(*padded(ConvInteger(Conv()), pad, x, {"w": w, "xz": zero})) == (value == 3)
    assert not absorbed(*padded(ConvInteger(Conv()), Pad(AROUND, value=value), x, {"w": w}))
    assert absorbed(*padded(ConvInteger(Conv()), Pad(AROUND), x, {"w": w}))


@settings(max_examples=60)
@given(st.data())
def test_any_pads_and_windows(data: Any) -> None:
    """The numbers stay the same, whatever is taken: `absorbed` compares them."""
    pair, extent = st.tuples(st.integers(0, 4), st.integers(0, 4)), st.integers(1, 3)
    pads = ((0, 0), (0, 0), data.draw(pair), data.draw(pair))
    window, stride = (data.draw(extent), data.draw(extent)), (data.draw(extent), data.draw(extent))
    own = tuple((data.draw(st.integers(0, k - 1)), data.draw(st.integers(0, k - 1))) for k in window)
    x = seeded(
        (1, 2, data.draw(st.integers(3, 6)), data.draw(st.integers(3, 6))), data.draw(st.integers(0, 3))
    )
    mine = own if data.draw(st.booleans()) else ()
    kinds: dict[str, tuple[Op, float, dict[str, Array]]] = {
        "conv": (Conv(stride, pads=mine), 0.0, {"w": seeded((3, 2, *window))}),
        "maximum": (MaxPool(window, stride, pads=mine), -np.inf, {}),
        "average": (
            AveragePool(window, stride, count_include_pad=data.draw(st.booleans()), pads=mine),
            0.0,
            {},
        ),
    }
    op, value, more = kinds[data.draw(st.sampled_from(sorted(kinds)))]
    absorbed(*padded(op, Pad(pads, value=value), x, more))


@pytest.mark.parametrize("high", [-1.0, 6.0])
def test_the_higher_bound_of_a_clip_wins(high: float) -> None:
    """Held between 0 and -1 everything is -1, which zeros around it would exceed."""
    graph, inputs = padded(MaxPool((3, 3)), Pad(AROUND), seeded(SHAPE), before=Clip(0.0, high))
    assert absorbed(graph, inputs) == (high > 0)
