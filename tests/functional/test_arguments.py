"""Arguments of every kind for functions that are no pools: the right answer, or an error that names the argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from cenote.core.errors import ArgumentError, CenoteError, DTypeError, InputError, ShapeError
from cenote.core.types import BFLOAT16
from tests.functional.inputs import noise

X = noise(3, 4)
PLACES = np.array([[0, 1, 3, 2]] * 3)


@pytest.mark.parametrize(
    "name", ["sum", "prod", "mean", "amax", "logsumexp", "cumsum", "cumprod", "var", "std", "norm"]
)
@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16])
def test_byte_order_does_not_matter(name: str, kind: Any) -> None:
    """Floats in the other byte order were taken for integers by the reductions that look at types."""
    x, more = X.astype(kind), {"dim": 1}
    swapped = x.astype(x.dtype.newbyteorder())
    got, want = getattr(F, name)(swapped, **more), getattr(F, name)(x, **more)
    assert got.dtype == want.dtype
    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_byte_order_of_a_normalisation(kind: Any) -> None:
    x = noise(2, 3, 4, dtype=kind)
    mean, variance = np.zeros(3, kind), np.ones(3, kind)
    swapped = x.astype(x.dtype.newbyteorder())
    np.testing.assert_array_equal(F.batch_norm(swapped, mean, variance), F.batch_norm(x, mean, variance))
    y = F.batch_norm(swapped, None, None, training=True)
    np.testing.assert_array_equal(y, F.batch_norm(x, None, None, training=True))


def test_byte_order_of_drawn_places() -> None:
    x = noise(1, 2, 9, 9, dtype=np.float64)
    got = F.fractional_max_pool2d(x.astype(">f8"), 2, 4, seed=1)
    np.testing.assert_array_equal(got, F.fractional_max_pool2d(x, 2, 4, seed=1))


WRONG: list[tuple[str, Callable[[], Any], type[CenoteError], str]] = [
    ("permute", lambda: F.permute(X, 1), ShapeError, "permute|transpose"),  # type: ignore[arg-type]
    ("tile", lambda: F.tile(X, 0.5), ArgumentError, "tile: dims"),  # type: ignore[arg-type]
    ("pad", lambda: F.pad(X, 1), ArgumentError, "pad: pad"),  # type: ignore[arg-type]
    ("pad slice", lambda: F.pad(X, slice(None)), ArgumentError, "pad: pad"),  # type: ignore[arg-type]
    ("pad value", lambda: F.pad(X, (1, 1), value="x"), ArgumentError, "pad: value"),  # type: ignore[arg-type]
    ("pad mode", lambda: F.pad(X, (1, 1), mode=["constant"]), ArgumentError, "pad: mode"),  # type: ignore[arg-type]
    ("affine_grid", lambda: F.affine_grid(noise(1, 2, 3), False), ArgumentError, "affine_grid: size"),
    ("sum", lambda: F.sum(X, np.float32(1)), ArgumentError, "sum: dim"),
    ("amax", lambda: F.amax(X, np.bool_(True)), ArgumentError, "amax: dim"),
    ("norm", lambda: F.norm(X, 3.0, np.datetime64("2020")), ArgumentError, "dim"),
    ("var of a list", lambda: F.var([[1.0, 2.0]], 1), InputError, "var: input is a list"),  # type: ignore[type-var]
    ("var of a number", lambda: F.var(3, 0), InputError, "var: input is a int"),  # type: ignore[type-var]
    ("threshold", lambda: F.threshold(X, ..., 2.0), ArgumentError, "threshold: threshold"),  # type: ignore[arg-type]
    ("softplus", lambda: F.softplus(X, None), ArgumentError, "softplus: beta"),  # type: ignore[arg-type]
    ("hardtanh", lambda: F.hardtanh(X, "a", "b"), ArgumentError, "hardtanh: min_val"),  # type: ignore[arg-type]
    ("elu", lambda: F.elu(X, "1"), ArgumentError, "elu: alpha"),  # type: ignore[arg-type]
    ("add", lambda: F.add(X, X, alpha="x"), ArgumentError, "add: alpha"),  # type: ignore[arg-type]
    ("clamp", lambda: F.clamp(X, 10**400), DTypeError, "clamp: .*larger than any float"),
    ("round", lambda: F.round(X, decimals=400), ArgumentError, "round: decimals"),
    ("dates", lambda: F.add(np.array(["2020"], "datetime64[s]"), 1), DTypeError, "add: type datetime64"),
    ("texts", lambda: F.to(np.array(["1"]), "int32"), DTypeError, "to: type <U1"),
    ("long floats", lambda: F.exp(np.ones(3, np.longdouble)), DTypeError, "exp: type float128"),
    ("many axes", lambda: F.masked_select(np.ones((1,) * 33), X > 0), ShapeError, "masked_select: .*axes"),
    ("where", lambda: F.where(X > 0, 300, np.zeros((3, 4), np.int8)), DTypeError, "where: input is 300"),
    ("scatter", lambda: F.scatter(PLACES.astype(np.int8), 1, PLACES, 300), DTypeError, "scatter: src is 300"),
    ("one_hot", lambda: F.one_hot(np.array([np.nan])), DTypeError, "one_hot: input"),
    ("embedding_bag", lambda: F.embedding_bag([[0]], X), InputError, "embedding_bag: input is a list"),  # type: ignore[arg-type]
    ("dropout2d", lambda: F.dropout2d([[1.0], [1.0, 2.0]]), InputError, "dropout2d: input"),  # type: ignore[type-var]
    ("softmax", lambda: F.softmax([1.0], 0, dtype="float32"), InputError, "softmax: input is a list"),  # type: ignore[type-var]
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "error", "words"), [each[1:] for each in WRONG], ids=[each[0] for each in WRONG]
)
def test_what_does_not_fit_is_named(call: Callable[[], Any], error: type[CenoteError], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("reduce", ["mean", "sum"])
def test_out_of_a_scatter_in_steps_is_checked(reduce: Any) -> None:
    """Means, and sums of bools, are computed in steps, and then copied to `out`."""
    x = X if reduce == "mean" else X > 0
    out = np.empty_like(x)
    out.flags.writeable = False
    with pytest.raises(ArgumentError, match="scatter_reduce: out is read-only"):
        F.scatter_reduce(x, 1, PLACES, x, reduce, out=out)
    with pytest.raises(ArgumentError, match=r"scatter_reduce: out must have shape \[3, 4\]"):
        F.scatter_reduce(x, 1, PLACES, x, reduce, out=np.empty((4, 3), x.dtype))


def test_refused_calls_leave_running_statistics_alone() -> None:
    x, mean, variance = noise(2, 3, 5), np.zeros(3, np.float32), np.ones(3, np.float32)
    with pytest.raises(ShapeError):
        F.instance_norm(x, mean, variance, np.ones(4, np.float32), use_input_stats=True)
    assert mean.tolist() == [0, 0, 0]
    y = x.copy()
    F.instance_norm(y, mean, variance, out=y)
    np.testing.assert_allclose(mean, 0.1 * x.mean((0, 2)), rtol=1e-5)


def test_sequences_of_any_kind_are_numbers() -> None:
    x = noise(2, 3, 4)
    for order in ([2, 0, 1], (2, 0, 1), np.array([2, 0, 1]), range(3)):
        wanted = x.transpose(tuple(int(axis) for axis in order))
        np.testing.assert_array_equal(F.permute(x, order), wanted)  # type: ignore[arg-type]
    np.testing.assert_array_equal(F.pad(X, np.array([1, 2])), np.pad(X, ((0, 0), (1, 2))))  # type: ignore[arg-type]


def test_big_whole_numbers_stay_whole() -> None:
    x = np.array([2**62, 2**62 + 1, 2**62 + 2])
    assert F.threshold(x, 2**62 + 1, 2**62 + 5).tolist() == [2**62 + 5, 2**62 + 5, 2**62 + 2]
    assert F.add(x, x, alpha=-1).tolist() == [0, 0, 0]


def test_bfloat16_bounds() -> None:
    """A bound that 16 bits do not hold is rounded as a result is, also inside of a chain."""
    for kind in (np.float16, BFLOAT16):
        x = noise(5, 7, dtype=kind)
        fused = F.fused(lambda v: F.hardtanh(v, -0.1, 0.1) * 3.0)
        want = F.mul(F.hardtanh(x, -0.1, 0.1), 3.0)
        assert fused(x).tobytes() == want.tobytes()
