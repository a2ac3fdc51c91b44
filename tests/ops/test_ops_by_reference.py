"""Operators that run by their reference: other implementations as oracles, older opsets, and refusals."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cenote.core.errors import (
    ArgumentError,
    CenoteError,
    DTypeError,
    InputError,
    ShapeError,
    UnsupportedError,
)
from cenote.core.types import Array, TensorType
from cenote.ops.base import Imported, Op, Rewired, ShapeFromData, ValueNeeded
from cenote.ops.checks import int64s
from cenote.ops.conv.col2im import Col2Im
from cenote.ops.conv.deform_conv import DeformConv
from cenote.ops.elementwise.cast import Cast
from cenote.ops.linear.einsum import Einsum
from cenote.ops.movement.data_dependent import Compress, NonZero, OneHot, Unique
from cenote.ops.movement.grid_sample import MODES, PADDINGS, GridSample
from cenote.ops.movement.indexing import Gather, GatherND
from cenote.ops.movement.parts import Slice, Split
from cenote.ops.movement.reshape import Reshape
from cenote.ops.movement.scatter import ScatterElements, ScatterND, TensorScatter
from cenote.ops.movement.shape import Range, Shape
from cenote.ops.quantization.quantize import QuantizeLinear
from cenote.ops.random.dropout import Dropout
from cenote.ops.reduction.non_max_suppression import NonMaxSuppression
from cenote.ops.reduction.topk import TopK
from cenote.ops.sequence.attention import Attention
from cenote.ops.sequence.recurrent import LSTM
from cenote.ops.table import DECODERS
from cenote.ops.values import seeded


def decode(
    name: str, opset: int, inputs: Sequence[Array | None], outputs: int = 1, **attributes: Any
) -> tuple[Op, list[Array | None]]:
    """A node of an opset as its operator and the operator's inputs."""
    present = tuple(x is not None for x in inputs)
    made = DECODERS[name](Imported(name, "", opset, attributes, present, outputs))
    if isinstance(made, Rewired):
        return made.op, [inputs[x] if isinstance(x, int) else x for x in made.inputs]
    return made, list(inputs)


def run(
    name: str, opset: int, inputs: Sequence[Array | None], outputs: int = 1, **attributes: Any
) -> tuple[Array, ...]:
    op, arrays = decode(name, opset, inputs, outputs, **attributes)
    return op.reference(*arrays)


X = seeded((2, 3, 4))

SLICES, ONE = [int64s((1, 0)), int64s((2, -1)), int64s((1, 2))], np.zeros((1, 1, 1), np.int64)
GRID, CORNER = seeded((1, 2, 2, 2)), X[:1, :1, :1]

# (operator, older opset, its inputs and attributes, those of the newest opset): they must mean the same.
OPSETS: list[tuple[str, int, list[Any], dict[str, Any], list[Any], dict[str, Any]]] = [
    ("Squeeze", 11, [X[:1]], {"axes": (0,)}, [X[:1], int64s((0,))], {}),
    ("Unsqueeze", 11, [X], {"axes": (-1, 0)}, [X, int64s((-1, 0))], {}),
    ("Slice", 9, [X], {"starts": (1, 0), "ends": (2, -1), "axes": (1, 2)}, [X, *SLICES], {}),
    ("Slice", 9, [X], {"starts": (1,), "ends": (2,)}, [X, int64s((1,)), int64s((2,))], {}),
    ("Split", 11, [X], {"split": (1, 3), "axis": 2}, [X, int64s((1, 3))], {"axis": 2}),
    ("TopK", 9, [X], {"k": 2, "axis": 1}, [X, int64s((2,))], {"axis": 1}),
    ("DFT", 17, [X[..., None]], {"axis": 2}, [X[..., None], None, np.array(2)], {}),
    ("GridSample", 16, [X[None, :1], GRID], {"mode": "bicubic"}, [X[None, :1], GRID], {"mode": "cubic"}),
    ("Dropout", 10, [X], {"ratio": 0.3}, [X, np.array(0.3, np.float32)], {}),
    ("Scatter", 9, [X, ONE, CORNER], {"axis": 1}, [X, ONE, CORNER], {"axis": 1}),
    ("Hardmax", 11, [X], {"axis": 2}, [X], {"axis": 2}),
]


@pytest.mark.parametrize(("name", "opset", "old", "settings_", "new", "settings_now"), OPSETS)
def test_old_opsets_mean_the_same(
    name: str, opset: int, old: Any, settings_: Any, new: Any, settings_now: Any
) -> None:
    outputs = 2 if name in ("Split", "TopK", "Dropout") else 1
    newest = "ScatterElements" if name == "Scatter" else name
    before, now = run(name, opset, old, outputs, **settings_), run(newest, 28, new, outputs, **settings_now)
    for a, b in zip(before, now, strict=True):
        np.testing.assert_array_equal(a, b)


def test_hardmax_of_opset_11_takes_the_axes_from_its_axis_on_as_one() -> None:
    (y,) = run("Hardmax", 11, [X], axis=1)
    assert y.sum() == 2
    assert (y.reshape(2, -1).argmax(1) == X.reshape(2, -1).argmax(1)).all()


@pytest.mark.parametrize("name", sorted(DECODERS))
def test_unknown_attributes_are_refused(name: str) -> None:
    with pytest.raises(CenoteError, match="no_such_attribute"):
        DECODERS[name](Imported(name, "", 28, {"no_such_attribute": 1}, (True,) * 9, 1))


@given(st.data())
@settings(max_examples=200)
def test_slice_takes_what_onnx_describes(data: st.DataObject) -> None:
    extent, bound = data.draw(st.integers(0, 6)), st.integers(-9, 9) | st.sampled_from([-(2**63), 2**63 - 1])
    start, end = data.draw(bound), data.draw(bound)
    step = data.draw(st.integers(-3, 3).filter(bool))
    x = np.arange(extent)
    (y,) = Slice().reference(x, int64s((start,)), int64s((end,)), int64s((0,)), int64s((step,)))
    first, last = (b + extent if b < 0 else b for b in (start, end))
    if step > 0:
        first, last = np.clip([first, last], 0, extent).tolist()
    else:
        first, last = min(max(first, 0), extent - 1), min(max(last, -1), extent - 1)
    wanted, place = [], first
    while (place < last if step > 0 else place > last) and 0 <= place < extent:
        wanted.append(place)
        place += step
    assert y.tolist() == wanted


@given(st.data())
@settings(max_examples=100)
def test_scatter_elements_is_the_loop(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    reduction = data.draw(st.sampled_from(["none", "add", "mul", "max", "min"]))
    count = tuple(data.draw(st.integers(1, e)) for e in shape)
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    x, updates = generator.integers(-5, 6, shape), generator.integers(-5, 6, count)
    indices = generator.integers(-shape[axis], shape[axis], count)
    (y,) = ScatterElements(axis, reduction).reference(x, indices, updates)
    combine = {"none": lambda a, b: b, "add": int.__add__, "mul": int.__mul__, "max": max, "min": min}[
        reduction
    ]
    wanted = x.copy()
    for place in np.ndindex(*count):
        target = list(place)
        target[axis] = int(indices[place])
        wanted[tuple(target)] = combine(int(wanted[tuple(target)]), int(updates[place]))
    np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", MODES)
def test_grid_sample_is_pytorch_s(mode: str, padding: str, align_corners: bool) -> None:
    torch = pytest.importorskip("torch")
    x, grid = seeded((2, 3, 5, 6), 1, np.float64), np.clip(seeded((2, 4, 7, 2), 2, np.float64), -1.7, 1.7)
    name = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    wanted = torch.nn.functional.grid_sample(
        torch.from_numpy(x), torch.from_numpy(grid), name, padding, align_corners=align_corners
    )
    op, _ = decode(
        "GridSample", 20, [x, grid], mode=mode, padding_mode=padding, align_corners=int(align_corners)
    )
    (y,) = op.reference(x, grid)
    np.testing.assert_allclose(y, wanted.numpy(), rtol=1e-9, atol=1e-12)


def test_deform_conv_is_a_convolution_of_moved_pixels() -> None:
    """Whole offsets move pixels: the answer is the plain sum over taps, computed one by one."""
    x, w = seeded((1, 4, 6, 5), 1, np.float64), seeded((2, 2, 2, 3), 2, np.float64)
    offset = np.random.default_rng(3).integers(-2, 3, (1, 2 * 6 * 2, 5, 3)).astype(np.float64)
    mask = seeded((1, 2 * 6, 5, 3), 4, np.float64)
    (y,) = DeformConv(groups=2, offset_groups=2).reference(x, w, offset, None, mask)
    wanted = np.zeros(y.shape)
    for m, c, (i, j), (r, s) in itertools.product(range(2), range(2), np.ndindex(2, 3), np.ndindex(5, 3)):
        tap, channel = i * 3 + j, m * 2 + c
        part = channel // 2
        down, right = offset[0, (part * 6 + tap) * 2 : (part * 6 + tap) * 2 + 2, r, s].astype(int)
        row, column = r + i + down, s + j + right
        if 0 <= row < 6 and 0 <= column < 5:
            wanted[0, m, r, s] += x[0, channel, row, column] * w[m, c, i, j] * mask[0, part * 6 + tap, r, s]
    np.testing.assert_allclose(y, wanted, rtol=1e-12, atol=1e-12)


def test_col2im_is_pytorch_s_fold() -> None:
    torch = pytest.importorskip("torch")
    settings = {"kernel_size": (2, 3), "dilation": (2, 1), "padding": (1, 2), "stride": (2, 1)}
    columns = seeded((2, 18, 3 * 8), 1, np.float64)
    wanted = torch.nn.functional.fold(torch.from_numpy(columns), (6, 6), **settings)
    op = Col2Im((2, 1), ((1, 1), (2, 2)), (2, 1))
    (y,) = op.reference(columns, int64s((6, 6)), int64s((2, 3)))
    np.testing.assert_allclose(y, wanted.numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    "equation", ["bij,bjk->bik", "ij,ij->", "ii->i", "...i,i->...", "abc->cab", "ij,kl", "i,j,ij->j"]
)
def test_einsum_is_pytorch_s(equation: str) -> None:
    torch = pytest.importorskip("torch")
    extents = dict.fromkeys("abcijkl", 3)
    terms = equation.replace(" ", "").split("->")[0].split(",")
    arrays = [
        seeded((*((2, 1) if "..." in t else ()), *(extents[a] for a in t.replace("...", ""))), i, np.float64)
        for i, t in enumerate(terms)
    ]
    wanted = torch.einsum(equation, *map(torch.from_numpy, arrays))
    op = Einsum(equation)
    (y,) = op.reference(*arrays)
    np.testing.assert_allclose(y, wanted.numpy(), rtol=1e-10, atol=1e-12)
    assert op.infer(*(TensorType.of(a.dtype, a.shape) for a in arrays))[0].shape == y.shape


def test_non_max_suppression_is_the_greedy_loop() -> None:
    generator = np.random.default_rng(5)
    boxes, scores = generator.random((2, 20, 4)), generator.random((2, 3, 20)).round(1)
    arguments = (int64s((6,)), np.array([0.25]), np.array([0.15]))
    (found,) = NonMaxSuppression().reference(boxes, scores, *arguments)
    wanted = []
    for n, c in np.ndindex(2, 3):
        kept: list[int] = []
        for box in sorted(range(20), key=lambda b: (-scores[n, c, b], b)):
            if (
                scores[n, c, box] > 0.15
                and len(kept) < 6
                and all(overlap(boxes[n, box], boxes[n, k]) <= 0.25 for k in kept)
            ):
                kept.append(box)
        wanted += [[n, c, box] for box in kept]
    assert found.tolist() == wanted
    assert len(wanted) > 12


def overlap(a: Array, b: Array) -> float:
    low_a, high_a = np.minimum(a[:2], a[2:]), np.maximum(a[:2], a[2:])
    low_b, high_b = np.minimum(b[:2], b[2:]), np.maximum(b[:2], b[2:])
    shared = np.prod(np.maximum(np.minimum(high_a, high_b) - np.maximum(low_a, low_b), 0))
    return float(shared / (np.prod(high_a - low_a) + np.prod(high_b - low_b) - shared))


def test_top_k_keeps_the_order_of_equals() -> None:
    x = np.array([2, 3, 3, 1, 3, 2], np.int32)
    values, indices = TopK(0).reference(x, int64s((4,)))
    assert (values.tolist(), indices.tolist()) == ([3, 3, 3, 2], [1, 2, 4, 0])
    values, indices = TopK(0, largest=False).reference(x, int64s((3,)))
    assert (values.tolist(), indices.tolist()) == ([1, 2, 2], [3, 0, 5])


F, I = np.float32, np.int64

REFUSALS: list[tuple[Op, Sequence[Any], type[CenoteError], str]] = [
    (Reshape(), [X, int64s((5, 5))], ShapeError, "do not fit"),
    (Reshape(), [X, int64s((-1, -1))], ShapeError, "at most one -1"),
    (Reshape(), [X, int64s((0, 0, 0, 0))], ShapeError, "does not have"),
    (Reshape(allow_zero=True), [X[:0], int64s((0, -1))], ShapeError, "ambiguous"),
    (Slice(), [X, int64s((0,)), int64s((1,)), int64s((0,)), int64s((0,))], ArgumentError, "step of 0"),
    (Slice(), [X, int64s((0, 0)), int64s((1, 1)), int64s((0, -3))], ArgumentError, "twice"),
    (Split(3), [X], ShapeError, "not 3 equal parts"),
    (Split(2, 2), [X, int64s((1, 1))], ShapeError, "2 parts"),
    (Gather(), [X, np.zeros(2, F)], DTypeError, "int32 or int64"),
    (GatherND(3), [X, np.zeros((2, 3, 4, 1), I)], ShapeError, "batch axes"),
    (ScatterND("div"), [X, np.zeros((1, 1), I), X[:1]], ArgumentError, "reduction"),
    (ScatterElements(reduction="add"), [X > 0, np.zeros((1, 1, 1), I), X[:1, :1, :1] > 0], DTypeError, "bool"),
    (Range(), [np.array(0, F), np.array(1, F), np.array(0, F)], ArgumentError, "no end"),
    (Range(), [np.array(0, F), np.array(np.inf, F), np.array(np.inf, F)], ArgumentError, "no end"),
    (Range(), [np.array(0, F), np.array(1, F), np.array(np.nan, F)], ArgumentError, "no end"),
    (TopK(), [X, int64s((5,))], ArgumentError, "has 4 elements"),
    (OneHot(), [int64s((1,)), int64s((-2,)), np.zeros(2)], ArgumentError, "negative"),
    (Einsum("ij,jk->il"), [X[0], X[0].T], ArgumentError, "name axes of the inputs"),
    (Einsum("ij,jk"), [X[0], X[0]], ShapeError, "both"),
    (Einsum("i j -> 1"), [X[0]], ArgumentError, "signs"),
    (Dropout(), [X, np.array(1.5, F), np.array(True)], ArgumentError, "between 0 and 1"),
    (Cast(np.dtype(np.complex64)), [X], UnsupportedError, "complex"),
    (QuantizeLinear(), [X, np.ones(2, F)], ShapeError, "scalar"),
    (QuantizeLinear(), [X, np.ones((), F), np.zeros((), F)], DTypeError, "no quantized type"),
    (Attention(), [X[None], X[None], X[None, :, :2]], ShapeError, "fit"),
    (LSTM(), [X, seeded((1, 20, 4)), seeded((1, 16, 5))], ShapeError, "shape"),
    (GridSample(), [X[None], seeded((1, 2, 2, 3))], ShapeError, "rank"),
    (GridSample(), [np.zeros((1, 1, 2, 2), I), seeded((1, 2, 2, 2))], UnsupportedError, "interpolated"),
    (Compress(0), [X, np.ones(5, bool)], ShapeError, "at most 2"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "inputs", "error", "message"), REFUSALS, ids=lambda value: str(value)[:24])
def test_refusals_say_what_is_wrong(
    op: Op, inputs: Sequence[Any], error: type[CenoteError], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        op.infer(*(None if x is None else TensorType.known(np.asarray(x)) for x in inputs))
    assert op.name in str(caught.value)


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        (Gather(), [X, int64s((2,))]),
        (GatherND(), [X, np.array([[0, -4]], np.int64)]),
        (ScatterElements(), [X, np.full((1, 1, 1), 2), X[:1, :1, :1]]),
        (TensorScatter(), [X, X[:, :2], int64s((0, 2))]),
        (LSTM(), [X, seeded((1, 20, 4)), seeded((1, 20, 5)), None, np.array([1, 2, 3], np.int32)]),
    ],
    ids=lambda value: str(value)[:20],
)
def test_content_out_of_range_raises_when_it_runs(op: Op, inputs: Sequence[Any]) -> None:
    op.infer(*(None if x is None else TensorType.of(x.dtype, x.shape) for x in inputs))
    with pytest.raises((ArgumentError, InputError)):
        op.reference(*inputs)


def test_unknown_content_is_asked_for() -> None:
    x, numbers = TensorType.of(np.float32, (2, 3)), TensorType.of(np.int64, (2,))
    known = TensorType.known(int64s((0, 0)))
    asked = [
        (Reshape(), (x, numbers), 1),
        (Slice(), (x, numbers, known), 1),
        (Slice(), (x, known, numbers), 2),
    ]
    for op, kinds, index in asked:
        with pytest.raises(ValueNeeded) as caught:
            op.infer(*kinds)
        assert caught.value.index == index
    for data_dependent in (NonZero(), Unique(), Compress()):
        condition = [TensorType.of(np.bool_, (2,))] if isinstance(data_dependent, Compress) else []
        with pytest.raises(ShapeFromData):
            data_dependent.infer(x, *condition)


def test_shape_is_known_without_the_data() -> None:
    (kind,) = Shape().infer(TensorType.of(np.float32, (2, 0, 5)))
    assert kind.value is not None
    assert kind.value.tolist() == [2, 0, 5]
