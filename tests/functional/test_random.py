"""Philox and what is drawn with it: known answers, the documented order, statistics, PyTorch's formulas, errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import cenote
import cenote.functional as F
from cenote.core.errors import ArgumentError, CenoteError, DTypeError, ShapeError
from cenote.core.types import BFLOAT16, Array
from cenote.ops.random.philox import normal, philox, seed_from_float, words
from cenote.ops.values import seeded

# kat_vectors of Random123, philox4x32 of 10 rounds: counter, key, result.
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]  # fmt: skip
ONES = np.ones(100_000, np.float32)


@pytest.mark.parametrize(("counter", "key", "wanted"), KNOWN)
def test_known_answers(counter: tuple[int, ...], key: tuple[int, int], wanted: tuple[int, ...]) -> None:
    assert [int(word) for word in philox([np.array(c) for c in counter], key)] == [*wanted]


def test_each_element_takes_the_documented_word() -> None:
    seed = 0x1234567890ABCDEF
    drawn = words(1000, seed)
    for e in (0, 1, 15, 16, 63, 64, 777, 999):
        counter = 16 * (e // 64) + e % 16
        four = philox([np.array(counter), *[np.array(0)] * 3], (seed & 0xFFFFFFFF, seed >> 32))
        assert drawn[e] == int(four[e % 64 // 16])
    _, mask = F.dropout(ONES[:1000], 0.3, seed=seed, return_mask=True)
    assert np.array_equal(mask, drawn >= round(0.3 * 2**32))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BFLOAT16, np.float64])
@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_dropout_keeps_the_mean(dtype: Any, p: float) -> None:
    x = ONES.astype(dtype)
    y, mask = F.dropout(x, p, seed=3, return_mask=True)
    assert (y.dtype, mask.dtype) == (x.dtype, np.bool_)
    share = 1 - mask.mean()
    assert abs(share - p) < 6 * math.sqrt(p * (1 - p) / x.size) + 1e-12
    scale = np.asarray(1 / (1 - p) if p < 1 else 0, dtype)
    np.testing.assert_allclose(
        y.astype(np.float64),
        np.where(mask, scale.astype(np.float64), 0.0),
        rtol=1e-2 if x.itemsize == 2 else 1e-6,
    )


def test_neighbours_are_independent() -> None:
    """Pairs at any small distance are both dropped with p squared; counts of seeds differ."""
    _, mask = F.dropout(ONES, 0.5, seed=11, return_mask=True)
    for distance in (1, 2, 15, 16, 17, 48, 64, 1024):
        assert abs((mask[distance:] & mask[:-distance]).mean() - 0.25) < 0.01
    _, other = F.dropout(ONES, 0.5, seed=12, return_mask=True)
    assert abs((mask == other).mean() - 0.5) < 0.01


@pytest.mark.parametrize("count", [1, 63, 64, 65, 16383, 16385, 100_000])
def test_same_seed_same_bits_for_any_threads(count: int) -> None:
    x = seeded((count,), 1)
    one, two = (F.dropout(x, 0.4, seed=9, threads=threads) for threads in (1, 2))
    assert np.array_equal(one, two)
    assert np.array_equal(F.dropout(seeded((100_000,), 1), 0.4, seed=9)[:0], one[:0])
    _, mask = F.dropout(ONES, 0.4, seed=9, return_mask=True)
    assert np.array_equal(one != 0, mask[:count])  # a longer tensor starts with the same draws


def test_without_a_seed_calls_differ() -> None:
    assert (F.dropout(ONES) != F.dropout(ONES)).any()


def test_evaluation_copies() -> None:
    x = seeded((3, 5))
    for y in (F.dropout(x, 0.5, training=False), F.alpha_dropout(x), F.dropout(x, 0.0)):
        assert np.array_equal(y, x)
        assert not np.shares_memory(y, x)
    _, mask = F.dropout(x, 0.5, False, return_mask=True)
    assert mask.all()


def test_in_place() -> None:
    x = seeded((99, 101))
    wanted = F.dropout(x, 0.5, seed=4)
    y, z = x.copy(), x.copy()
    assert F.dropout(y, 0.5, inplace=True, seed=4) is y
    F.dropout(z, 0.5, seed=4, out=z)
    assert np.array_equal(y, wanted)
    assert np.array_equal(z, wanted)


def test_dropped_nan_is_zero() -> None:
    y, mask = F.dropout(np.full(1000, np.nan, np.float32), 0.5, seed=1, return_mask=True)
    assert np.array_equal(np.isnan(y), mask)


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    x = seeded((200_000,), 5)
    y = F.alpha_dropout(x, 0.3, True, seed=6)
    assert abs(y.mean()) < 0.02
    assert abs(y.std() - 1) < 0.02
    a = ((1.7580993408473766**2 * 0.3 + 1) * 0.7) ** -0.5
    assert abs(np.isclose(y, -1.7580993408473766 * a * 0.7, atol=1e-6).mean() - 0.3) < 0.01
    kept = np.isclose(y, x * a + 1.7580993408473766 * a * 0.3, atol=1e-5)
    assert abs(kept.mean() - 0.7) < 0.01


@pytest.mark.parametrize(
    ("function", "shape", "axes"),
    [
        (F.dropout1d, (40, 30, 7), 2), (F.dropout1d, (900, 7), 1), (F.dropout2d, (40, 30, 5, 7), 2),
        (F.dropout3d, (40, 30, 3, 5, 7), 2), (F.dropout3d, (900, 3, 5, 7), 1),
        (lambda x, p, **more: F.feature_alpha_dropout(x, p, True, **more), (40, 30, 7), 2),
        (lambda x, p, **more: F.stochastic_depth(x, p, "row", **more), (900, 3, 5), 1),
        (lambda x, p, **more: F.stochastic_depth(x, p, "batch", **more), (9, 3, 5), 0),
    ],
)  # fmt: skip
def test_runs_are_dropped_whole(function: Callable[..., Array], shape: tuple[int, ...], axes: int) -> None:
    x = np.ones(shape, np.float32)
    y = function(x, 0.25, seed=8).reshape(*shape[:axes], -1)
    assert (y == y[..., :1]).all()
    if axes:
        assert abs((y[..., 0] == y.min()).mean() - 0.25) < 0.08
    else:
        seen = [float(function(x, 0.25, seed=seed).max()) for seed in range(200)]
        assert 0.1 < seen.count(0.0) / 200 < 0.4


REFUSED: list[tuple[Callable[[], Any], type[CenoteError], str]] = [
    *[(lambda p=p: F.dropout(ONES, p), ArgumentError, "p must be") for p in (-0.1, 1.1, math.nan, math.inf)],
    (lambda: F.alpha_dropout(ONES, 2.0, True), ArgumentError, "p must be"),
    (lambda: F.dropout(ONES, "half"), ArgumentError, "p must be"),  # type: ignore[arg-type]  # on purpose
    (lambda: F.dropout(ONES, seed=-1), ArgumentError, "seed"),
    (lambda: F.dropout(ONES, seed=2**64), ArgumentError, "seed"),
    (lambda: F.dropout(np.arange(3)), DTypeError, "float"),
    (lambda: F.dropout2d(ONES), ShapeError, "axes"),
    (lambda: F.stochastic_depth(ONES, 0.5, "column"), ArgumentError, "mode"),  # type: ignore[arg-type]
    (lambda: F.dropout(ONES, inplace=True, return_mask=True), ArgumentError, "inplace"),
]


@pytest.mark.parametrize(("ask", "error", "message"), REFUSED)
def test_refusals(ask: Callable[[], Any], error: type[CenoteError], message: str) -> None:
    with pytest.raises(error, match=message):
        ask()


# ---- in graphs --------------------------------------------------------------------------------------------------


def model(
    nodes: list[Any], inputs: dict[str, Array], outputs: int = 1, opset: int = 22, **constants: Array
) -> Any:
    code = helper.np_dtype_to_tensor_dtype
    kinds = [helper.make_tensor_value_info(n, code(x.dtype), x.shape) for n, x in inputs.items()]
    made = [onnx.ValueInfoProto(name=f"y{n}" if n else "y") for n in range(outputs)]
    graph = helper.make_graph(
        nodes, "g", kinds, made, [onnx.numpy_helper.from_array(a, name) for name, a in constants.items()]
    )
    return cenote.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8))


def test_dropout_in_training_mode() -> None:
    x = seeded((40, 50))
    settings = {"ratio": np.array(0.25, np.float32), "training": np.array(True)}
    node = helper.make_node("Dropout", ["x", "ratio", "training"], ["y", "y1"], seed=7)
    loaded = model([node], {"x": x}, 2, 13, **settings)
    y, mask = loaded(x)
    wanted, kept = F.dropout(x, 0.25, seed=7, return_mask=True)
    assert np.array_equal(y, wanted)
    assert np.array_equal(mask, kept)
    assert np.array_equal(loaded(x)[0], y)
    assert not any(step.kind == "host" for step in loaded.plan.describe().steps)
    free = model(
        [helper.make_node("Dropout", ["x", "ratio", "training"], ["y"])], {"x": x}, 1, 13, **settings
    )
    assert (free(x) != free(x)).any()


@pytest.mark.parametrize("opset", [7, 10])
def test_dropout_of_older_opsets_is_the_identity(opset: int) -> None:
    x = seeded((4, 5))
    y, mask = model([helper.make_node("Dropout", ["x"], ["y", "y1"], ratio=0.9)], {"x": x}, 2, opset)(x)
    assert np.array_equal(y, x)
    assert mask.dtype == (np.float32 if opset < 10 else np.bool_)
    assert mask.all()


def test_uniform_and_normal() -> None:
    x = seeded((200, 300))
    for name, mean, deviation, numbers in (
        ("RandomUniform", 1.0, 6 / math.sqrt(12), {"low": -2.0, "high": 4.0}),
        ("RandomNormal", 3.0, 0.5, {"mean": 3.0, "scale": 0.5}),
    ):
        like = model([helper.make_node(f"{name}Like", ["x"], ["y"], seed=5.0, **numbers)], {"x": x})
        y = like(x)
        assert np.array_equal(y, like(x))
        assert (y.shape, y.dtype) == (x.shape, x.dtype)
        assert abs(y.mean() - mean) < 0.05
        assert abs(y.std() - deviation) < 0.05
        assert len(np.unique(y)) > 0.95 * y.size
        node = helper.make_node(
            name, [], ["z"], shape=[200, 300], seed=5.0, dtype=TensorProto.DOUBLE, **numbers
        )
        cast = helper.make_node("Cast", ["x"], ["xd"], to=TensorProto.DOUBLE)
        both = model([node, cast, helper.make_node("Add", ["xd", "z"], ["y"])], {"x": x})
        assert abs((both(x) - x).mean() - mean) < 0.05
        free = model([helper.make_node(f"{name}Like", ["x"], ["y"], **numbers)], {"x": x})
        assert (free(x) != free(x)).any()
        steps = [str(step) for step in free.plan.describe().steps if step.kind == "host"]
        assert len(steps) == 1  # that draws the seed


def test_normal_numbers_are_quantiles() -> None:
    """Of the shares that the generator's words stand for, as Python's own statistics have them."""
    exact = NormalDist()
    wanted = [exact.inv_cdf((int(word) + 0.5) * 2.0**-32) for word in words(5000, 7)]
    np.testing.assert_allclose(normal(5000, 7), wanted, rtol=1e-13, atol=1e-15)
    assert min(wanted) < -3 < 3 < max(wanted)  # both pairs of polynomials are used


def test_bernoulli_and_multinomial() -> None:
    x = np.tile(np.array([0, 0.2, 0.7, 1], np.float32), (20000, 1))
    drawn = model([helper.make_node("Bernoulli", ["x"], ["y"], seed=2.0, dtype=TensorProto.BOOL)], {"x": x})(
        x
    )
    np.testing.assert_allclose(drawn.mean(0), x[0], atol=0.02)
    assert not drawn[:, 0].any()
    assert drawn[:, 3].all()
    chances = np.log(np.array([[0.1, 0.6, 0.3], [0.5, 0.5, 0.0]]) + 1e-30).astype(np.float32)
    node = helper.make_node("Multinomial", ["x"], ["y"], seed=2.0, sample_size=20000, dtype=TensorProto.INT64)
    y = model([node], {"x": chances})(chances)
    assert (y.shape, y.dtype) == ((2, 20000), np.int64)
    shares = [np.bincount(row, minlength=3) / 20000 for row in y]
    np.testing.assert_allclose(shares, np.exp(chances), atol=0.02)


def test_seeds_given_as_floats() -> None:
    assert seed_from_float(5.0) == 5
    assert len({seed_from_float(value) for value in (5.0, 5.5, -5.0, 1e30)}) == 4
