"""Attention of groups of queries: remainders of every kind, views, masks, half precision, sizes that are not known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from onnx import TensorProto, helper

import cenote
from cenote.core.target import Target
from cenote.core.types import BFLOAT16, Array, TensorType
from cenote.kernels.product.attention import AttentionSpec
from cenote.ops.sequence.scaled_dot_product import ScaledDotProduct
from tests.harness import calls_of, lowerings_of, run_lowering
from tests.targets import TARGETS, over_targets, target_name

HEADS = (0, 2, 1, 3)
SWAPPED = (0, 1, 3, 2)


def noise(*shape: int, seed: int = 0, dtype: object = np.float32) -> Array:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(dtype)  # type: ignore[arg-type]


def check(op: ScaledDotProduct, arrays: list[Array], target: Target, tolerance: float = 1e-5) -> Array:
    """Against float64, with junk of two kinds around everything; whatever items are computed together."""
    exact = [x if x.dtype == np.bool_ else x.astype(np.float64) for x in arrays]
    with np.errstate(invalid="ignore"):
        (wanted,) = op.compute(*exact, *[None] * (4 - len(arrays)))
    (lowering,) = lowerings_of(op, arrays, target, constants=False)
    (y,) = run_lowering(op, lowering, arrays, target, constants=False)
    (again,) = run_lowering(op, lowering, arrays, target, constants=False, chunk=1, junk=0x5A)
    np.testing.assert_array_equal(y, again)
    scale = max(1.0, float(np.nanmax(np.abs(wanted), initial=0)))
    np.testing.assert_allclose(y.astype(np.float64), wanted, rtol=0, atol=tolerance * scale)
    return y


SIZES = (
    (3, 1, 1, 1), (5, 7, 3, 5), (9, 20, 16, 40), (16, 16, 8, 16), (17, 129, 33, 100), (49, 49, 32, 32),
    (64, 128, 64, 64), (65, 257, 20, 129), (81, 13, 7, 80), (197, 197, 64, 64),
)  # fmt: skip
MASKS = ("added", "bool", "added row", "bool row", "half", "causal", "ahead", "behind")
VIEWS = (
    ((HEADS, HEADS, HEADS, HEADS), 50), ((HEADS, HEADS, HEADS, HEADS), 260), (((), SWAPPED, (), ()), 20),
    (((), (), SWAPPED, ()), 20), (((), SWAPPED, SWAPPED, ()), 7),
)  # fmt: skip


@pytest.mark.parametrize(
    ("queries", "keys", "depth", "columns", "target"), over_targets(SIZES, 3), ids=target_name
)
def test_remainders(queries: int, keys: int, depth: int, columns: int, target: Target) -> None:
    q, k, v = noise(2, queries, depth), noise(2, keys, depth, seed=1), noise(2, keys, columns, seed=2)
    check(ScaledDotProduct(depth**-0.5), [q, k, v], target)


@pytest.mark.parametrize(
    ("kind", "lengths", "target"),
    over_targets([*itertools.product(MASKS, [(50, 150), (7, 20)])], 3),
    ids=target_name,
)
def test_masks(kind: str, lengths: tuple[int, int], target: Target) -> None:
    queries, keys = lengths
    q, k, v = noise(2, 3, queries, 16), noise(2, 3, keys, 16, seed=1), noise(2, 3, keys, 24, seed=2)
    mask = noise(3, queries, keys, seed=4)
    masks = {"added": mask, "bool": mask > 0.5, "added row": mask[:, :1], "bool row": mask[:, :1] > 0.5,
             "half": mask.astype(np.float16)}  # fmt: skip
    if kind in masks:
        check(ScaledDotProduct(0.25, zeros=True), [q, k, v, masks[kind]], target)
        return
    offset = {"causal": 0, "ahead": 30, "behind": -5}[kind]
    y = check(ScaledDotProduct(0.25, causal=True, offset=offset, zeros=True), [q, k, v], target)
    assert kind != "behind" or not y[:, :, :5].any()


@pytest.mark.parametrize(
    ("dtype", "view", "target"),
    over_targets([*itertools.product([np.float32, np.float16, BFLOAT16], VIEWS)]),
    ids=target_name,
)
def test_views(dtype: object, view: tuple[tuple[tuple[int, ...], ...], int], target: Target) -> None:
    """Heads beside each other, keys or values transposed: what cannot be read where it lies is copied."""
    orders, queries = view
    given = [noise(2, 3, queries, 20), noise(2, 3, 40, 20, seed=1), noise(2, 3, 40, 33, seed=2)]
    arrays = [
        np.ascontiguousarray(x.transpose(order) if order else x).astype(dtype)  # type: ignore[arg-type]
        for x, order in zip(given, orders, strict=False)
    ]
    op = ScaledDotProduct(
        0.2, permute_q=orders[0], permute_k=orders[1], permute_v=orders[2], permute_y=orders[3]
    )
    check(op, arrays, target, 1e-5 if dtype is np.float32 else 1e-2)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_heads_share_keys(target: Target) -> None:
    q, k, v = noise(2, 2, 3, 21, 8), noise(2, 2, 1, 140, 8, seed=1), noise(2, 1, 1, 140, 9, seed=2)
    check(ScaledDotProduct(0.3), [q, k, v], target)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_nan_reaches_only_who_attends_it(target: Target) -> None:
    q, k, v = noise(1, 40, 8), noise(1, 300, 8, seed=1), noise(1, 300, 8, seed=2)
    k[0, 20] = np.nan
    op = ScaledDotProduct(0.3, causal=True)
    (lowering,) = lowerings_of(op, [q, k, v], target, constants=False)
    (y,) = run_lowering(op, lowering, [q, k, v], target, constants=False)
    assert np.isfinite(y[0, :20]).all()
    assert np.isnan(y[0, 20:]).all()
    open_ = np.ones((1, 40, 300), bool)
    open_[..., 20] = False
    op = ScaledDotProduct(0.3)
    (lowering,) = lowerings_of(op, [q, k, v, open_], target, constants=False)
    (y,) = run_lowering(op, lowering, [q, k, v, open_], target, constants=False)
    assert np.isfinite(y).all()  # a key that is masked out may hold anything; a value may not


@pytest.mark.parametrize(
    ("queries", "keys", "target"), over_targets([(1, 77), (2, 300), (40, 13), (40, 300)], 3), ids=target_name
)
def test_weights_that_are_nan_count_as_zeros(queries: int, keys: int, target: Target) -> None:
    """Closed queries, infinite and NaN scores in any chunk of keys: zeros, unless a value is NaN itself."""
    op = ScaledDotProduct(0.3, nan_to_zero=True)
    q, v = noise(1, queries, 8), noise(1, keys, 24, seed=2)
    closed = np.zeros((queries, keys), np.float32)
    closed[0] = -np.inf
    for where in (0, keys // 2, keys - 1):
        for unusual in (np.nan, np.inf, -np.inf):
            k = noise(1, keys, 8, seed=1)
            y = check(op, [q, k, v, closed], target)
            assert not y[0, 0].any()
            k[0, where, 3] = unusual
            y = check(op, [q, k, v], target)
            assert np.isfinite(y).all()
            assert not (np.isnan(unusual) and y.any())
    v[0, keys // 2, 5] = np.nan
    y = check(op, [q, noise(1, keys, 8, seed=1), v, closed], target)
    assert np.isnan(y[..., 5]).all()
    assert np.isfinite(np.delete(y, 5, -1)).all()


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_scores_of_every_size(target: Target) -> None:
    """The largest score in any chunk, scores that overflow e^x, masks of the least number instead of infinity."""
    q, v = noise(1, 20, 8), noise(1, 300, 8, seed=2)
    for where in (0, 150, 299):
        k = noise(1, 300, 8, seed=1)
        k[0, where] *= 300
        check(ScaledDotProduct(1.0), [q, k, v], target, 1e-4)
    least = np.full((20, 300), np.finfo(np.float32).min, np.float32)
    y = check(ScaledDotProduct(1.0), [q, k * 0, v, least], target)
    np.testing.assert_allclose(y[0], np.broadcast_to(v[0].mean(0), (20, 8)), atol=1e-6)
    closed = np.zeros((20, 300), bool)
    closed[3:] = True
    check(ScaledDotProduct(1.0, zeros=True), [q, k, v, closed], target, 1e-4)
    check(ScaledDotProduct(1.0), [q, k, v, closed], target, 1e-4)


def test_what_is_copied() -> None:
    def copies(op: ScaledDotProduct, *shapes: tuple[int, ...], dtype: object = np.float32) -> int:
        types = [TensorType.of(dtype, shape) for shape in shapes]  # type: ignore[arg-type]
        (lowering,) = op.lowerings(types, TARGETS[0])
        calls = calls_of(op, lowering, types)
        assert isinstance(calls[-1].spec, AttentionSpec)
        return len(calls) - 1

    heads = ScaledDotProduct(permute_q=HEADS, permute_k=HEADS, permute_v=HEADS)
    assert copies(ScaledDotProduct(), (2, 197, 64), (2, 197, 64), (2, 197, 64)) == 0
    assert copies(heads, *[(2, 197, 6, 64)] * 3) == 0
    assert copies(heads, *[(2, 512, 6, 64)] * 3) == 1  # V: its rows lie apart and are read again and again
    assert copies(ScaledDotProduct(permute_k=(0, 2, 1)), (2, 20, 16), (2, 16, 30), (2, 30, 16)) == 1
    assert copies(ScaledDotProduct(), *[(2, 20, 16)] * 3, dtype=np.float16) == 2


@pytest.mark.parametrize("causal", [0, 1])
def test_any_length_is_as_a_fixed_one(causal: int) -> None:
    """One plan for all lengths gives the bits of a plan for each."""

    def model(length: int | str, keys: int | str) -> cenote.Model:
        shapes = {"q": (1, 2, length, 16), "k": (1, 2, keys, 16), "v": (1, 2, keys, 24)}
        inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 2, length, 24))
        node = helper.make_node("Attention", ["q", "k", "v"], ["y"], is_causal=causal)
        graph = helper.make_graph([node], "attention", inputs, [y])
        opsets = [helper.make_opsetid("", 23)]
        return cenote.load(helper.make_model(graph, opset_imports=opsets, ir_version=10), threads=1)

    whole = model("L", "S")
    for length, keys in ((49, 49), (3, 200), (16, 1), (17, 128), (65, 129), (129, 300), (200, 17)):
        x = {"q": noise(1, 2, length, 16), "k": noise(1, 2, keys, 16), "v": noise(1, 2, keys, 24)}
        got, want = whole.run(x)["y"], model(length, keys).run(x)["y"]
        np.testing.assert_array_equal(got, want, err_msg=f"{length} queries, {keys} keys")
        op = ScaledDotProduct(0.25, causal=bool(causal))
        np.testing.assert_allclose(got, op.compute(*x.values(), None)[0], atol=1e-5)
