"""Products, convolutions and attention on arrays: against float64, on views, from threads, with bad arguments."""

from __future__ import annotations

import numpy as np
import pytest

import cenote.functional as F
from cenote.codegen import jit
from cenote.core.errors import ArgumentError, DTypeError, ShapeError
from cenote.core.types import BFLOAT16, TensorType
from cenote.ops.conv.conv import Conv


def noise(*shape: int, seed: int = 0, dtype: object = np.float32) -> np.ndarray:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(dtype)  # type: ignore[arg-type]


def close(got: np.ndarray, wanted: np.ndarray, tolerance: float = 2e-6) -> None:
    assert got.shape == wanted.shape
    scale = max(1.0, float(np.abs(wanted).max(initial=0)))
    assert np.abs(got.astype(np.float64) - wanted).max(initial=0) <= tolerance * scale


SIZES = [(1, 1, 1), (1, 300, 200), (2, 17, 5), (5, 129, 65), (7, 1, 33), (49, 310, 70), (130, 257, 131), (400, 40, 90),
         (500, 600, 70), (3, 5000, 40), (1, 40, 3000), (90, 33, 1)]  # fmt: skip


@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_products_of_matrices_in_all_orders(m: int, k: int, n: int) -> None:
    a, b = noise(m, k), noise(k, n, seed=1)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    for left in (a, np.asfortranarray(a)):
        for right in (b, np.asfortranarray(b)):
            close(F.matmul(left, right), wanted, 1e-5)
    close(
        F.matmul(noise(2 * m, 2 * k)[::2, ::2], b), noise(2 * m, 2 * k)[::2, ::2].astype(np.float64) @ b, 1e-5
    )


def test_transposed_views_are_not_copied() -> None:
    """The runner gets the caller's memory: an input changed in place changes the next result."""
    a, b = noise(33, 40), noise(2, 3, 50, 33, seed=1)
    for _ in range(2):
        close(
            F.matmul(b.swapaxes(2, 3), noise(50, 9)), b.swapaxes(2, 3).astype(np.float64) @ noise(50, 9), 1e-5
        )
        close(F.matmul(b.transpose(1, 0, 2, 3), a), b.transpose(1, 0, 2, 3).astype(np.float64) @ a, 1e-5)
        b *= 2


@pytest.mark.parametrize(
    ("a", "b"),
    [((2, 1, 4, 6), (3, 6, 5)), ((4, 6), (2, 3, 6, 5)), ((3, 1, 2, 7), (1, 5, 7, 3)), ((6,), (2, 6, 3)),
     ((2, 5, 6), (6,)), ((9,), (9,)), ((0, 3, 4), (4, 5)), ((2, 3, 0), (0, 4)), ((1, 2, 1, 5), (4, 2, 5, 6))],
)  # fmt: skip
def test_batches_broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = noise(*a), noise(*b, seed=1)
    wanted = np.matmul(x.astype(np.float64), y.astype(np.float64))
    close(np.asarray(F.matmul(x, y)), np.asarray(wanted), 1e-5)


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16])
def test_halves_are_summed_in_float32(dtype: object) -> None:
    a, b = noise(70, 900, dtype=dtype), noise(900, 130, seed=1, dtype=dtype)
    got = F.matmul(a, b)
    assert got.dtype == a.dtype
    wanted = (a.astype(np.float64) @ b.astype(np.float64)).astype(dtype)  # type: ignore[arg-type]
    close(got, wanted.astype(np.float64), 2e-3 if dtype is np.float16 else 1e-2)


def test_infinities_and_nan_stay_where_they_belong() -> None:
    a, b = noise(40, 70), noise(70, 130, seed=1)
    a[3, 5], b[7, 100] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        wanted = a.astype(np.float64) @ b.astype(np.float64)
    got = F.matmul(a, b)
    assert (np.isnan(got) == np.isnan(wanted)).all()
    assert (np.isinf(got) == np.isinf(wanted)).all()


def test_denormal_numbers_are_summed() -> None:
    a = np.full((4, 8), 1e-40, np.float32)
    assert F.matmul(a, np.ones((8, 3), np.float32)).min() > 0


@pytest.mark.parametrize(
    "function",
    [
        lambda threads: F.matmul(noise(700, 800), noise(800, 900, seed=1), threads=threads),
        lambda threads: F.matmul(noise(1, 3000), noise(3000, 5000, seed=1), threads=threads),
        lambda threads: F.linear(noise(37, 900), noise(1000, 900, seed=1), noise(1000), threads=threads),
        lambda threads: F.conv2d(
            noise(2, 32, 40, 40), noise(48, 32, 3, 3, seed=1), padding=1, threads=threads
        ),
        lambda threads: F.scaled_dot_product_attention(
            *(noise(2, 4, 300, 64, seed=s) for s in range(3)), threads=threads
        ),
    ],
)
def test_the_same_bits_for_any_number_of_threads(function: object) -> None:
    one = function(1)  # type: ignore[operator]
    for threads in (2, 3):
        assert (one == function(threads)).all()  # type: ignore[operator]


def test_addmm_ignores_the_input_with_beta_zero() -> None:
    a, b = noise(4, 5), noise(5, 6, seed=1)
    close(
        F.addmm(np.full((4, 6), np.nan, np.float32), a, b, beta=0, alpha=2),
        2 * a.astype(np.float64) @ b,
        1e-5,
    )


# Winograd's algorithm is for windows of 3 without dilation and groups; elsewhere the answer must not depend on it.
@pytest.mark.parametrize(
    ("channels", "filters", "groups", "arguments"),
    [
        (32, 32, 1, {"padding": 1}),
        (32, 32, 1, {"padding": 2, "dilation": 2}),
        (32, 32, 4, {"padding": 1}),
        (32, 64, 32, {"padding": 1}),
        (3, 64, 1, {"padding": 1}),
        (32, 16, 1, {"stride": 2, "padding": 1}),
        (32, 16, 2, {"padding": "same", "dilation": 3}),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_convolutions_of_3x3_windows(
    channels: int, filters: int, groups: int, arguments: dict[str, object], dtype: object
) -> None:
    torch = pytest.importorskip("torch")
    x = noise(2, channels, 19, 18, dtype=dtype)
    w = noise(filters, channels // groups, 3, 3, seed=1, dtype=dtype) / np.float32(channels**0.5)
    w, b = w.astype(x.dtype), noise(filters, dtype=dtype)
    wide = [torch.from_numpy(array.astype(np.float64)) for array in (x, w, b)]
    wanted = torch.nn.functional.conv2d(*wide, groups=groups, **arguments).numpy()
    got = F.conv2d(x, w, b, groups=groups, **arguments)  # type: ignore[arg-type]
    assert got.dtype == x.dtype
    close(got, wanted, 1e-5 if dtype is np.float32 else 2e-3)


def test_winograd_is_offered_where_it_is_right_and_pays() -> None:
    def offered(x: tuple[int, ...], w: tuple[int, ...], dtype: object = np.float32, **fields: object) -> bool:
        types = [TensorType.of(dtype, x), TensorType.known(np.ones(w, dtype))]  # type: ignore[arg-type, call-overload]
        found = Conv(**fields).lowerings(types, jit.host_target())  # type: ignore[arg-type]
        return any(lowering.name.startswith("winograd") for lowering in found)

    map_ = (1, 32, 20, 20)
    assert offered(map_, (32, 32, 3, 3))
    assert not offered(map_, (32, 32, 3, 3), exact=True)
    assert offered(map_, (32, 32, 3, 3), dilations=(2, 2))
    assert not offered(map_, (32, 32, 3, 3), dilations=(2, 2), pads=((1, 1), (1, 1)))
    assert offered(map_, (32, 32, 3, 3), strides=(2, 2))
    assert not offered(map_, (32, 32, 3, 3), strides=(2, 1))
    assert not offered(map_, (32, 32, 3, 3), strides=(3, 3))
    assert offered(map_, (32, 16, 3, 3), groups=2)
    assert not offered(map_, (32, 8, 3, 3), groups=4)
    assert not offered((1, 3, 20, 20), (32, 3, 3, 3))
    assert not offered(map_, (32, 32, 3, 3), np.float16)
    assert not offered(map_, (32, 32, 3, 3), np.float64)


def test_weights_may_change_from_call_to_call() -> None:
    x = noise(1, 16, 9, 9)
    first, second = noise(16, 16, 3, 3, seed=1), noise(16, 16, 3, 3, seed=2)
    a, b = F.conv2d(x, first), F.conv2d(x, second)
    close(F.conv2d(x, first + second), a.astype(np.float64) + b, 1e-5)


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
    """Attention in float64, zeros for queries without keys."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores + (np.where(mask, 0, -np.inf) if mask.dtype == np.bool_ else mask)
    most = scores.max(-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isneginf(most), 0, most))
    total = powers.sum(-1, keepdims=True)
    return np.asarray(powers / np.where(total == 0, 1, total) @ v)


@pytest.mark.parametrize(
    ("length", "keys", "size"), [(1, 1, 1), (1, 700, 64), (197, 197, 64), (300, 33, 40), (5, 129, 80)]
)
def test_attention(length: int, keys: int, size: int) -> None:
    q, k, v = noise(2, 3, length, size), noise(2, 3, keys, size, seed=1), noise(2, 3, keys, 24, seed=2)
    close(F.scaled_dot_product_attention(q, k, v), attend(q, k, v), 1e-5)
    rows = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3) for x in (q, k, v)]
    close(F.scaled_dot_product_attention(*rows), attend(q, k, v), 1e-5)
    mask = noise(length, keys) > 1
    close(F.scaled_dot_product_attention(q, k, v, mask), attend(q, k, v, mask), 1e-5)
    bias = noise(3, 1, keys)
    close(F.scaled_dot_product_attention(q, k, v, bias), attend(q, k, v, bias), 1e-5)
    causal = np.tril(np.ones((length, keys), bool))
    close(F.scaled_dot_product_attention(q, k, v, is_causal=True), attend(q, k, v, causal), 1e-5)


def test_attention_with_shared_heads() -> None:
    q, k, v = noise(2, 6, 9, 16), noise(2, 2, 11, 16, seed=1), noise(2, 2, 11, 16, seed=2)
    wanted = attend(q, np.repeat(k, 3, 1), np.repeat(v, 3, 1))
    close(F.scaled_dot_product_attention(q, k, v, enable_gqa=True), wanted, 1e-5)


def test_large_scores_do_not_overflow() -> None:
    q, k, v = 1e4 * noise(1, 4, 64), 1e4 * noise(1, 9, 64, seed=1), noise(1, 9, 8, seed=2)
    assert np.isfinite(F.scaled_dot_product_attention(q, k, v)).all()


X, W = np.zeros((1, 4, 5, 5), np.float32), np.zeros((8, 4, 3, 3), np.float32)


@pytest.mark.parametrize(
    ("error", "words", "call"),
    [
        (ShapeError, "4 columns", lambda: F.matmul(noise(3, 4), noise(5, 6))),
        (ShapeError, "at least one axis", lambda: F.matmul(np.float32(1) + np.zeros((), np.float32), noise(3, 4))),
        (ShapeError, "bmm: batches differ", lambda: F.bmm(noise(2, 3, 4), noise(3, 4, 5))),
        (ShapeError, "bmm: needs 3D", lambda: F.bmm(noise(3, 4), noise(3, 4, 5))),
        (DTypeError, "matmul", lambda: F.matmul(noise(3, 4), noise(4, 5, dtype=np.float64))),
        (DTypeError, "matmul", lambda: F.matmul(np.zeros((2, 2), np.bool_), np.zeros((2, 2), np.bool_))),
        (ShapeError, "linear: input", lambda: F.linear(noise(3, 4), noise(6, 5))),
        (ShapeError, "linear: bias", lambda: F.linear(noise(3, 4), noise(6, 4), noise(5))),
        (ShapeError, "addmm", lambda: F.addmm(noise(5, 5), noise(3, 4), noise(4, 6))),
        (ShapeError, "conv2d: expected", lambda: F.conv2d(X[0, 0], W)),
        (ShapeError, "channels", lambda: F.conv2d(X, np.zeros((8, 3, 3, 3), np.float32))),
        (ArgumentError, "groups", lambda: F.conv2d(X, W, groups=3)),
        (ArgumentError, "stride", lambda: F.conv2d(X, W, stride=0)),
        (ArgumentError, "padding='same'", lambda: F.conv2d(X, W, padding="same", stride=2)),
        (ArgumentError, "dilation", lambda: F.conv2d(X, W, dilation=-1)),
        (ShapeError, "covers 9", lambda: F.conv2d(X, W, dilation=4)),
        (DTypeError, "conv2d", lambda: F.conv2d(X.astype(np.int32), W.astype(np.int32))),
        (ArgumentError, "output_padding", lambda: F.conv_transpose2d(X, W.swapaxes(0, 1), output_padding=1)),
        (ArgumentError, "dropout_p", lambda: F.scaled_dot_product_attention(X, X, X, dropout_p=0.5)),
        (ArgumentError, "is_causal", lambda: F.scaled_dot_product_attention(X, X, X, X, is_causal=True)),
        (ShapeError, "scaled_dot", lambda: F.scaled_dot_product_attention(X, X, X[..., :4, :])),
        (ShapeError, "mask", lambda: F.scaled_dot_product_attention(X, X, X, np.zeros((3, 5), bool))),
        (DTypeError, "attn_mask", lambda: F.scaled_dot_product_attention(X, X, X, np.zeros((5, 5), np.int32))),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said(error: type[Exception], words: str, call: object) -> None:
    with pytest.raises(error, match=words.replace("(", r"\(")):
        call()  # type: ignore[operator]


def test_out_is_written() -> None:
    a, b = noise(30, 40), noise(40, 50, seed=1)
    out = np.full((30, 50), np.nan, np.float32)
    assert F.matmul(a, b, out=out) is out
    close(out, a.astype(np.float64) @ b, 1e-5)
    turned = np.full((50, 30), np.nan, np.float32)
    F.matmul(a, b, out=turned.T)
    assert (out == turned.T).all()
