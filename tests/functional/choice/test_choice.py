"""Selection and indexing on arrays: NumPy as the oracle, the mistakes of other libraries, errors that name the cause.

The regressions at the top are those of an operator library whose TopK gave the smallest of the first k, whose ArgMax
ignored NaN and keepdims, whose MaskedSelect did not look at sizes, whose one-hot dropped bad indices in silence.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from cenote.core.errors import ArgumentError, CenoteError, DTypeError, InputError, ShapeError
from cenote.core.types import BFLOAT16

X = np.random.default_rng(3).standard_normal((4, 6, 5)).astype(np.float32)
NAN = float("nan")


def sorted_by_numpy(x: Any, axis: int, descending: bool) -> tuple[Any, Any]:
    """A stable sort: NaN is the greatest."""
    values = np.asarray(x, np.float64) if x.dtype.kind in "fV" else x.astype(object)
    if descending:
        places = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(values, axis), axis, kind="stable"), axis)
    else:
        places = np.argsort(values, axis, kind="stable")
    return np.take_along_axis(x, places, axis), places


# ---- topk and sort --------------------------------------------------------------------------------------------------


def test_topk_gives_the_largest() -> None:
    values, places = F.topk(np.array([3, 1, 2, 5], np.float32), 2)
    assert values.tolist() == [5, 3]
    assert places.tolist() == [3, 0]
    assert F.topk(np.array([3, 1, 2, 5]), 2, largest=False)[0].tolist() == [1, 2]


@pytest.mark.parametrize(
    "dtype",
    [
        "float32",
        "float64",
        "float16",
        "bfloat16",
        "int8",
        "uint8",
        "int16",
        "int32",
        "int64",
        "uint64",
        "bool",
    ],
)
@pytest.mark.parametrize("largest", [True, False])
def test_topk_of_random_cases(dtype: str, largest: bool) -> None:
    generator = np.random.default_rng(7)
    kind = BFLOAT16 if dtype == "bfloat16" else np.dtype(dtype)
    for length, k in ((1, 1), (7, 3), (64, 64), (65, 10), (300, 1), (1500, 20), (5000, 700), (3000, 3000)):
        x = (generator.standard_normal((2, length)) * 40).astype(np.int64).astype(kind)
        if kind.kind == "f":
            x[:, :: max(1, length // 3)] = NAN
        wanted = [y[:, :k] for y in sorted_by_numpy(x, -1, largest)]
        for got, want in zip(F.topk(x, k, largest=largest), wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(got, np.float64), np.asarray(want, np.float64))


@pytest.mark.parametrize("order", ["rising", "falling", "equal"])
def test_topk_where_every_element_beats_the_last_or_none_does(order: str) -> None:
    x = {"rising": np.arange(9000), "falling": -np.arange(9000), "equal": np.zeros(9000)}[order].astype(
        np.float32
    )
    for k in (1, 30, 1000):
        values, places = F.topk(x, k)
        wanted, at = sorted_by_numpy(x, 0, True)
        assert np.array_equal(values, wanted[:k])
        assert np.array_equal(places, at[:k])


def test_nan_is_the_greatest_and_equals_keep_their_order() -> None:
    x = np.array([1, NAN, -0.0, 0.0, np.inf, NAN, 1, -np.inf], np.float32)
    assert F.topk(x, 4)[1].tolist() == [1, 5, 4, 0]
    assert F.sort(x)[1].tolist() == [7, 2, 3, 0, 6, 4, 1, 5]
    assert F.argsort(x, descending=True).tolist() == [1, 5, 4, 0, 6, 2, 3, 7]
    values, _ = F.sort(x)
    assert np.signbit(values[1])
    assert not np.signbit(values[2])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_sort_along_any_axis(axis: int) -> None:
    for descending in (False, True):
        for got, want in zip(F.sort(X, axis, descending), sorted_by_numpy(X, axis, descending), strict=True):
            assert np.array_equal(got, want)


def test_k_must_fit() -> None:
    with pytest.raises(ArgumentError, match=r"topk: k is 7, but axis 1 of \[4, 6, 5\] has 6 elements"):
        F.topk(X, 7, 1)
    with pytest.raises(ArgumentError, match="k must be non-negative"):
        F.topk(X, -1)
    values, places = F.topk(X, 0)
    assert values.shape == places.shape == (4, 6, 0)
    assert F.topk(np.zeros((3, 0), np.float32), 0)[0].shape == (3, 0)


def test_results_do_not_depend_on_threads() -> None:
    x = np.random.default_rng(5).standard_normal((16, 40_000)).astype(np.float32)
    for one, two in zip(F.topk(x, 50, threads=1), F.topk(x, 50, threads=2), strict=True):
        assert np.array_equal(one, two)
    mask = x > 0.5
    assert np.array_equal(F.masked_select(x, mask, threads=1), F.masked_select(x, mask, threads=2))


# ---- argmax ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int8, np.uint32, np.int64])
def test_argmax_of_random_cases(name: str, dtype: Any) -> None:
    generator = np.random.default_rng(2)
    for shape in ((3, 1), (3, 16), (2, 77), (1, 1000), (5, 200, 3)):
        x = np.round(np.abs(generator.standard_normal(shape)) * 9).astype(dtype)
        for axis in range(len(shape)):
            assert np.array_equal(getattr(F, name)(x, axis), getattr(np, name)(x, axis))
            last = x.shape[axis] - 1 - getattr(np, name)(np.flip(x, axis), axis)
            assert np.array_equal(getattr(F, name)(x, axis, select_last_index=True), last)
        assert getattr(F, name)(x).shape == ()
        assert getattr(F, name)(x) == getattr(np, name)(x)
        assert getattr(F, name)(x, keepdim=True).shape == (1,) * x.ndim


def test_nan_wins_and_keepdim_keeps() -> None:
    x = np.array([[1, NAN, 9, NAN], [4, 4, 2, 2]], np.float32)
    for function in (F.argmax, F.argmin):
        assert function(x, 1).tolist() == [1, 0 if function is F.argmax else 2]
        assert function(x, 1, select_last_index=True).tolist() == [3, 1 if function is F.argmax else 3]
        assert function(x, 1, keepdim=True).shape == (2, 1)
    rows = np.full((3, 100), -np.inf, np.float32)
    assert F.argmax(rows, 1).tolist() == [0, 0, 0]
    rows[1, 67] = NAN
    assert F.argmax(rows, 1).tolist() == [0, 67, 0]


def test_nothing_has_no_largest() -> None:
    with pytest.raises(ShapeError, match=r"argmax: axis 1 of \[2, 0\] is empty"):
        F.argmax(np.zeros((2, 0), np.float32), 1)
    assert F.argmax(np.zeros((0, 2), np.float32), 1).shape == (0,)
    with pytest.raises(ShapeError, match="without elements"):
        F.argmin(np.zeros((0, 2), np.float32))


# ---- masks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "bool", "int64"])
@pytest.mark.parametrize("density", [0.0, 0.01, 0.5, 0.99, 1.0])
def test_masked_select(dtype: str, density: float) -> None:
    generator = np.random.default_rng(1)
    for size in (1, 63, 16_384, 50_001):
        x = (generator.standard_normal(size) * 50).astype(dtype)
        mask = generator.random(size) < density
        assert np.array_equal(F.masked_select(x, mask), x[mask])


def test_masks_broadcast_and_must_fit() -> None:
    row = np.array([True, False, True, True, False])
    assert np.array_equal(F.masked_select(X, row), X[..., row].reshape(-1))
    assert np.array_equal(F.masked_select(np.float32([[1], [2]]), row), [1, 1, 1, 2, 2, 2])
    with pytest.raises(ShapeError, match="do not broadcast"):
        F.masked_select(X, np.array([True, False]))
    with pytest.raises(DTypeError, match="mask must be bool, got int64"):
        F.masked_select(X, np.zeros(5, np.int64))
    out = np.empty(72, np.float32)
    assert F.masked_select(X, row, out=out) is out
    with pytest.raises(ArgumentError, match="out must have shape"):
        F.masked_select(X, row, out=np.empty(71, np.float32))
    assert F.masked_select(np.zeros((0, 3), np.float32), np.zeros(3, bool)).shape == (0,)


def test_a_mask_that_changes_meanwhile_writes_nothing_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    from cenote.functional.choice import masks

    x, mask = np.arange(40_000, dtype=np.float32), np.zeros(40_000, bool)
    mask[::7] = True
    counted = masks.offsets_of

    def count_then_set(m: Any, threads: int) -> Any:
        offsets = counted(m, threads)
        m[:] = True
        return offsets

    monkeypatch.setattr(masks, "offsets_of", count_then_set)
    memory = np.full(mask.sum() + 64, -1, np.float32)
    F.masked_select(x, mask, out=memory[32:-32])
    assert (memory[:32] == -1).all()
    assert (memory[-32:] == -1).all()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bool", "int64", "uint8"])
def test_nonzero(dtype: str) -> None:
    x = (np.random.default_rng(0).random((7, 300, 11)) < 0.2).astype(dtype)
    assert np.array_equal(F.nonzero(x), np.argwhere(x))
    for got, want in zip(F.nonzero(x, as_tuple=True), np.nonzero(x), strict=True):
        assert np.array_equal(got, want)
    special = np.array([0.0, -0.0, NAN, 1e-45], np.float32)
    assert F.nonzero(special).tolist() == [[2], [3]]
    assert F.nonzero(np.zeros((2, 0))).shape == (0, 2)
    assert F.nonzero(np.float32(3)).shape == (1, 0)


def test_where() -> None:
    mask = X > 0
    assert np.array_equal(F.where(mask, X, -X), np.abs(X))
    assert np.array_equal(F.where(mask[0], X, 0.0), np.where(mask[0], X, 0))
    with pytest.raises(DTypeError, match="one type"):
        F.where(mask, X, X.astype(np.float64))
    with pytest.raises(DTypeError, match="must be bool"):
        F.where(X, X, X)


# ---- indices --------------------------------------------------------------------------------------------------------

BAD = np.array([[0, 3], [9, -7]])
TABLE = np.arange(20, dtype=np.float32).reshape(5, 4)


def test_a_bad_index_is_named() -> None:
    cases: list[tuple[Any, str]] = [
        (
            lambda: F.embedding(BAD, TABLE),
            "embedding: index 9 at [1, 0] is outside an axis of 5 (allowed: 0 to 4)",
        ),
        (
            lambda: F.index_select(TABLE, 1, BAD[0] - 1),
            "index_select: index -1 at [0] is outside an axis of 4",
        ),
        (
            lambda: F.take(TABLE, BAD - 20),
            "take: index -27 at [1, 1] is outside an axis of 20 (allowed: -20 to 19)",
        ),
        (
            lambda: F.gather(TABLE, 0, BAD),
            "gather: index 9 at [1, 0] is outside an axis of 5 (allowed: 0 to 4)",
        ),
        (
            lambda: F.scatter(TABLE, 0, BAD, 1.0),
            "index 9 at [1, 0] is outside an axis of 5 (allowed: 0 to 4)",
        ),
        (
            lambda: F.scatter_add(TABLE, 1, BAD, np.ones((2, 2), np.float32)),
            "index 9 at [1, 0] is outside an axis of 4",
        ),
        (lambda: F.one_hot(BAD, 4), "one_hot: index 9 at [1, 0] is outside an axis of 4 (allowed: 0 to 3)"),
        (lambda: F.embedding_bag(BAD, TABLE), "embedding_bag: index 9 at [2] is outside an axis of 5"),
    ]
    for function, text in cases:
        with pytest.raises(InputError, match=re.escape(text)):
            function()


def test_what_becomes_of_a_bad_index() -> None:
    rows = {"clip": [0, 3, 4, 0], "wrap": [0, 3, 4, 3]}
    for mode, wanted in rows.items():
        assert np.array_equal(F.embedding(BAD, TABLE, invalid=mode).reshape(4, 4), TABLE[wanted])
        assert np.array_equal(F.one_hot(BAD, 5, invalid=mode).reshape(4, 5), np.eye(5)[wanted])
        picked = F.gather(TABLE, 0, BAD, invalid=mode)
        assert np.array_equal(picked, np.take_along_axis(TABLE[:, :2], np.reshape(wanted, (2, 2)), 0))
    zeros = F.embedding(BAD, TABLE, invalid="zero")
    assert np.array_equal(zeros[0], TABLE[[0, 3]])
    assert not zeros[1].any()
    assert not F.one_hot(BAD, 5, invalid="zero")[1].any()
    y = F.scatter(TABLE, 0, BAD, -1.0, invalid="zero")
    assert (y == -1).sum() == 2
    assert np.array_equal(F.take(TABLE, np.array([-1, 20]), invalid="zero"), [19, 0])
    with pytest.raises(ArgumentError, match="invalid must be one of"):
        F.embedding(BAD, TABLE, invalid="drop")


@pytest.mark.parametrize("mode", ["raise", "clip", "wrap", "zero"])
def test_an_empty_axis_has_no_index(mode: Any) -> None:
    empty = np.zeros((0, 3), np.float32)
    if mode == "zero":
        assert F.embedding(np.array([1]), empty, invalid=mode).tolist() == [[0, 0, 0]]
    else:
        with pytest.raises(InputError, match="allowed: none"):
            F.embedding(np.array([1]), empty, invalid=mode)
    assert F.embedding(np.zeros(0, np.int64), empty, invalid=mode).shape == (0, 3)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "bool"])
def test_rows_of_any_length(dtype: str) -> None:
    generator = np.random.default_rng(6)
    for columns in (1, 3, 15, 16, 17, 64, 100, 513):
        table = (generator.standard_normal((37, columns)) * 20).astype(dtype)
        places = generator.integers(0, 37, (50,))
        assert np.array_equal(F.embedding(places.astype(np.int32), table), table[places])
        assert np.array_equal(F.index_select(table.T.copy(), 1, places), table.T[:, places])


def test_large_results_are_written_past_the_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    from cenote.kernels.selection import gather

    monkeypatch.setattr(gather, "STREAMED", 1)
    generator = np.random.default_rng(6)
    for columns, shift in ((129, 0), (128, 4), (200, 1), (333, 7)):
        table = generator.standard_normal((41, columns)).astype(np.float32)
        places = generator.integers(0, 41, 300)
        memory = np.full(300 * columns + 40, -1, np.float32)
        out = memory[shift : shift + 300 * columns].reshape(300, columns)
        F.embedding(places, table, out=out)
        assert np.array_equal(out, table[places])
        assert (memory[:shift] == -1).all()
        assert (memory[shift + out.size :] == -1).all()


def test_scatter_of_equal_indices_has_one_answer() -> None:
    index = np.array([[2, 2, 0, 2]])
    src = np.array([[1, 2, 3, 4]], np.float32)
    zero = np.zeros((1, 3), np.float32)
    assert F.scatter(zero, 1, index, src).tolist() == [[3, 0, 4]]
    assert F.scatter_add(zero, 1, index, src).tolist() == [[3, 0, 7]]
    assert F.scatter_reduce(zero + 9, 1, index, src, "mean", include_self=False).tolist() == [
        [3, 9, np.float32(7 / 3)]
    ]


def test_scatter_in_place() -> None:
    x = TABLE.copy()
    index, src = np.array([[1, 1, 0, 2]]), np.ones((1, 4), np.float32)
    wanted = F.scatter_add(TABLE, 0, index, src)
    assert F.scatter_add(x, 0, index, src, out=x) is x
    assert np.array_equal(x, wanted)


def test_scatter_fits() -> None:
    with pytest.raises(ShapeError, match="must not be larger than src"):
        F.scatter(TABLE, 0, BAD, np.zeros((1, 2), np.float32))
    with pytest.raises(DTypeError, match="type of input"):
        F.scatter_add(TABLE, 0, BAD, np.zeros((2, 2)))
    with pytest.raises(ArgumentError, match="out of range for 2 axes"):
        F.gather(TABLE, 2, BAD)
    with pytest.raises(DTypeError, match="index must be int32 or int64, got float32"):
        F.gather(TABLE, 0, TABLE)


def test_one_hot_values_axis_and_type() -> None:
    y = F.one_hot(np.array([1, 0]), 3, dim=0, on_value=5, off_value=-1, dtype="float32")
    assert y.dtype == np.float32
    assert y.tolist() == [[-1, 5], [5, -1], [-1, -1]]
    assert F.one_hot(np.array([1, 4])).shape == (2, 5)
    with pytest.raises(InputError, match="needs an input with elements"):
        F.one_hot(np.zeros(0, np.int64))


def test_bags_must_rise() -> None:
    for offsets in ([1, 2], [0, 3, 2], [0, 9], []):
        with pytest.raises(ArgumentError, match="offsets must rise"):
            F.embedding_bag(np.array([0, 1, 2]), TABLE, np.array(offsets, np.int64))
    with pytest.raises(ArgumentError, match="needs mode 'sum'"):
        F.embedding_bag(BAD, TABLE, per_sample_weights=np.ones((2, 2), np.float32))


def test_nms_by_hand() -> None:
    boxes = np.array([[0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30], [0, 0, 10, 10]], np.float32)
    scores = np.array([0.5, 0.9, 0.1, 0.9], np.float32)
    assert F.nms(boxes, scores, 0.5).tolist() == [1, 2]
    assert F.nms(boxes, scores, 0.7).tolist() == [1, 3, 2]
    assert F.nms(boxes[:0], scores[:0], 0.5).shape == (0,)
    with pytest.raises(ShapeError, match=r"boxes must have shape \(n, 4\)"):
        F.nms(scores, scores, 0.5)


def test_tensors_come_back_as_tensors() -> None:
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(X)
    assert torch.equal(F.topk(x, 2)[1], torch.topk(x, 2)[1])
    assert torch.equal(F.masked_select(x, x > 0), torch.masked_select(x, x > 0))
    assert torch.equal(F.nonzero(x > 0), torch.nonzero(x > 0))
    places = torch.tensor([[0, 4], [2, 2]])
    table = torch.from_numpy(TABLE)
    assert torch.equal(F.embedding(places, table), torch.nn.functional.embedding(places, table))
    assert torch.equal(F.one_hot(places, 5), torch.nn.functional.one_hot(places, 5))


def test_every_error_is_cenotes() -> None:
    for function in (F.topk, F.argmax, F.nonzero, F.sort):
        with pytest.raises(CenoteError):
            function(np.array(["a"]), *([1] if function is F.topk else []))
