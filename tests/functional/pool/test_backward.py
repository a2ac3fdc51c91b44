"""Gradients: finite differences in float64, PyTorch, and what gradients must satisfy."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from cenote.core.errors import CenoteError, DTypeError, InputError, ShapeError
from cenote.core.types import BFLOAT16
from cenote.ops.roi.align import RoiAlign
from tests.functional.pool.gradient_cases import CASES


def distinct(*shape: int) -> Any:
    """Values at least 0.01 apart, none near zero: no step of a finite difference changes an order."""
    generator = np.random.default_rng(sum(shape))
    count = int(np.prod(shape))
    values = (generator.permutation(count) + 1) * 0.05 * generator.choice((-1, 1), count)
    return values.reshape(shape)


def numeric(function: Callable[[Any], Any], x: Any, grad: Any, step: float = 1e-6) -> Any:
    """Central differences of sum(grad * function(x))."""
    result = np.zeros_like(x)
    for place in np.ndindex(*x.shape):
        moved = x.copy()
        moved[place] += step
        up = function(moved)
        moved[place] -= 2 * step
        result[place] = ((up - function(moved)) * grad).sum() / (2 * step)
    return result


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "shape"), CASES, ids=lambda v: v if isinstance(v, str) else ""
)
def test_finite_differences(name: str, args: Any, kwargs: Any, shape: tuple[int, ...]) -> None:
    x = distinct(*shape)
    function = lambda value: getattr(F, name)(value, *args, **kwargs)  # noqa: E731
    y = function(x)
    grad = np.random.default_rng(3).standard_normal(y.shape)
    got = getattr(F, f"{name}_backward")(grad, x, *args, **kwargs)
    assert (got.shape, got.dtype) == (x.shape, x.dtype)
    np.testing.assert_allclose(got, numeric(function, x, grad), rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(got, getattr(F, f"{name}_backward")(grad, x, *args, **kwargs))


def test_every_backward_has_a_case() -> None:
    named = {name.removesuffix("_backward") for name in F.__all__ if name.endswith("_backward")}
    elsewhere = {
        "max_unpool1d",
        "max_unpool2d",
        "max_unpool3d",
        "fractional_max_pool2d",
        "fractional_max_pool3d",
    }
    assert named == {case[0] for case in CASES} | elsewhere


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_unpool_and_fractional(rank: int) -> None:
    x = distinct(1, 2, *(5, 4, 4)[:rank])
    y, where = getattr(F, f"max_pool{rank}d")(x, 3, 1, return_indices=True)  # overlapping: equal indices
    unpool = lambda value: getattr(F, f"max_unpool{rank}d")(value, where, 3, 1)  # noqa: E731
    grad = np.random.default_rng(1).standard_normal(unpool(y).shape)
    got = getattr(F, f"max_unpool{rank}d_backward")(grad, y, where, 3, 1)
    np.testing.assert_allclose(got, numeric(unpool, y, grad), rtol=1e-6, atol=1e-8)
    if rank > 1:
        name = f"fractional_max_pool{rank}d"
        fractional = lambda value: getattr(F, name)(value, 2, 3, seed=1)  # noqa: E731
        y, where = getattr(F, name)(x, 2, 3, seed=1, return_indices=True)
        grad = np.random.default_rng(2).standard_normal(y.shape)
        got = getattr(F, f"{name}_backward")(grad, x, where)
        np.testing.assert_allclose(got, numeric(fractional, x, grad), rtol=1e-6, atol=1e-8)


def test_given_indices_are_used() -> None:
    x = distinct(2, 3, 6, 5)
    for name, args in (("max_pool2d", (3, 2, 1)), ("adaptive_max_pool2d", (2,)), ("min_pool", (2,))):
        y, where = getattr(F, name)(x, *args, return_indices=True)
        grad = distinct(*y.shape)
        backward = getattr(F, f"{name}_backward")
        np.testing.assert_array_equal(backward(grad, x, *args, indices=where), backward(grad, x, *args))
    with pytest.raises(InputError, match="index 99"):
        F.max_pool2d_backward(
            np.ones((1, 1, 1, 1)), np.ones((1, 1, 2, 2)), 2, indices=np.full((1, 1, 1, 1), 99)
        )


def test_stride_larger_than_window() -> None:
    """Elements that no window reads have the gradient 0."""
    x = distinct(1, 1, 9)
    np.testing.assert_array_equal(F.max_pool1d_backward(np.ones((1, 1, 3)), x, 1, 3)[0, 0], [1, 0, 0] * 3)
    np.testing.assert_array_equal(
        F.avg_pool1d_backward(np.ones((1, 1, 2)), x, 2, 5)[0, 0], [0.5, 0.5, 0, 0, 0, 0.5, 0.5, 0, 0]
    )


def test_adaptive_windows_that_overlap_sum() -> None:
    """5 to 3: windows 0-1, 1-3, 3-4."""
    got = F.adaptive_avg_pool1d_backward(np.ones((1, 1, 3)), np.zeros((1, 1, 5)), 3)
    np.testing.assert_allclose(got[0, 0], [1 / 2, 1 / 2 + 1 / 3, 1 / 3, 1 / 3 + 1 / 2, 1 / 2])


def test_lp_of_zeros() -> None:
    for p in (1.0, 1.5, 2.0, 3.0, np.inf):
        got = F.lp_pool1d_backward(np.ones((1, 1, 2)), np.zeros((1, 1, 4)), p, 2)
        np.testing.assert_array_equal(got, 0)


SIZES = [
    (2.0, BFLOAT16, (1e-39, 6e37)),
    (2.0, np.float32, (1e-41, 6e37)),
    (3.0, np.float32, (1e-41, 1e-30, 1e30)),
    (8.0, np.float32, (1e-30, 1e-6, 1e6, 1e30)),
]


@pytest.mark.parametrize(
    ("p", "dtype", "size"), [(p, dtype, size) for p, dtype, sizes in SIZES for size in sizes]
)
def test_norms_whose_powers_float32_does_not_hold(p: float, dtype: Any, size: float) -> None:
    """x^(p - 1) and norm^(1 - p) are huge and tiny, their product is about 1: that of the same windows of size 1."""
    x = (distinct(1, 3, 4, 6) * size).astype(dtype)
    grad = np.random.default_rng(0).standard_normal((1, 3, 2, 3)).astype(dtype)
    got = F.lp_pool2d_backward(grad, x, p, 2)
    wanted = F.lp_pool2d_backward(grad.astype(np.float64), x.astype(np.float64) / size, p, 2)
    np.testing.assert_allclose(
        got.astype(np.float64), wanted, rtol=1e-5 if dtype == np.float32 else 1e-2, atol=1e-7
    )


@pytest.mark.parametrize(("p", "value"), [(1.0, 0.0), (2.0, np.nan), (3.0, np.nan), (np.inf, 0.0)])
def test_lp_of_nan_in_pytorch(p: float, value: float) -> None:
    """What docs/pooling_semantics.md says of PyTorch: all of a window with a NaN gets the same."""
    torch = pytest.importorskip("torch")
    x = torch.tensor([[[1.0, np.nan, 3.0, 4.0, np.nan, 0.0]]], requires_grad=True)
    (got,) = torch.autograd.grad(torch.nn.functional.lp_pool1d(x, p, 2).sum(), x)
    np.testing.assert_array_equal(got[0, 0, [0, 1, 4, 5]], np.full(4, value))
    assert got[0, 0, 3] > 0


def test_max_gradient_is_conserved() -> None:
    x = np.round(distinct(2, 3, 9, 8))  # ties
    for args in ((3, 1, 1), (2, 2), (3, 2, 1, 2)):
        grad = np.random.default_rng(0).integers(-9, 9, F.max_pool2d(x, *args).shape).astype(np.float64)
        assert F.max_pool2d_backward(grad, x, *args).sum() == grad.sum()
    assert F.max_pool1d_backward(np.ones((1, 1, 1)), np.array([[[1, np.nan, np.nan, 2]]]), 4).tolist() == [
        [[0, 0, 1, 0]]
    ]


def test_narrow_types_round_once() -> None:
    """300 overlapping windows add up in float64: sums of 1 / 300 in float16 go wrong in the third digit."""
    x = np.zeros((1, 1, 600), np.float16)
    got = F.avg_pool1d_backward(np.ones((1, 1, 301), np.float16), x, 300, 1)
    assert got.dtype == np.float16
    assert float(got[0, 0, 299]) == 1.0


def test_errors() -> None:
    x, grad = np.zeros((1, 1, 4, 4)), np.zeros((1, 1, 2, 2))
    with pytest.raises(ShapeError, match="grad_output"):
        F.max_pool2d_backward(grad[..., :1], x, 2)
    with pytest.raises(DTypeError, match="grad_output"):
        F.max_pool2d_backward(grad.astype(np.float32), x, 2)
    with pytest.raises(DTypeError):
        F.max_pool2d_backward(grad.astype(np.int64), x.astype(np.int64), 2)
    with pytest.raises(CenoteError, match="kernel_size"):
        F.max_pool2d_backward(grad, x, 0)
    with pytest.raises(CenoteError, match="kernel"):
        F.max_pool2d_backward(grad, x, 2, kernel=3)
    with pytest.raises(CenoteError, match="indices"):
        F.avg_pool2d_backward(grad, x, 2, indices=np.zeros((1, 1, 2, 2), np.int64))


PADDING_ALONE = (
    "a window of padding alone: PyTorch gives it an index outside of the input, and its gradient writes there"
)


def test_pytorch_samples() -> None:
    """max_pool2d_with_indices_backward of op_db: 1,440 float32 samples, with and without its indices."""
    pytest.importorskip("expecttest")
    from tests.functional.op_db.database import op_db, torch

    op = next(item for item in op_db if item.name == "nn.functional.max_pool2d")
    seen = 0
    torch.manual_seed(0)
    for sample in op.sample_inputs("cpu", torch.float32, requires_grad=False):
        x = sample.input.clone().requires_grad_()
        given = {**sample.kwargs, "return_indices": True}
        y, where = torch.nn.functional.max_pool2d(x, *sample.args, **given)
        assert torch.isfinite(y).all(), PADDING_ALONE
        grad = torch.randn_like(y)
        (want,) = torch.autograd.grad(y, x, grad)
        del given["return_indices"]
        arrays = grad.numpy(), sample.input.numpy(), *sample.args
        got = F.max_pool2d_backward(*arrays, **given, indices=where.numpy())
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-5, atol=1e-5)
        if seen % 10 == 0:
            np.testing.assert_array_equal(F.max_pool2d_backward(*arrays, **given), got)
        seen += 1
    assert seen >= 1000


TORCH_CASES: list[tuple[str, tuple[Any, ...], tuple[int, ...]]] = [
    ("max_pool1d", (3, 2, 1), (2, 3, 9)), ("max_pool3d", (2, 1, 1), (1, 2, 4, 5, 3)),
    ("avg_pool1d", (3, 2, 1), (2, 3, 9)), ("avg_pool2d", (3, 2, 1, True, False), (2, 3, 8, 7)),
    ("avg_pool3d", (2, 2, 1, True), (1, 2, 4, 5, 3)), ("adaptive_avg_pool2d", ((3, 4),), (2, 3, 7, 5)),
    ("adaptive_max_pool2d", ((3, 4),), (2, 3, 7, 5)), ("adaptive_avg_pool3d", (2,), (1, 2, 3, 5, 3)),
    ("lp_pool2d", (2.0, 3, 2, True), (1, 2, 7, 6)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "shape"), TORCH_CASES, ids=[case[0] for case in TORCH_CASES])
def test_pytorch_agrees(name: str, args: Any, shape: Any) -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    y = getattr(torch.nn.functional, name)(x, *args)
    assert torch.isfinite(y).all(), PADDING_ALONE
    grad = torch.randn_like(y)
    (want,) = torch.autograd.grad(y, x, grad)
    more = {"semantics": "torch"} if name.startswith("lp") else {}
    got = getattr(F, f"{name}_backward")(grad.numpy(), x.detach().numpy(), *args, **more)
    np.testing.assert_allclose(got, want.numpy(), rtol=1e-9, atol=1e-12)


def _called(function: Any, args: Any, kwargs: Any, x: Any) -> Any:
    return function(x, *args, **kwargs)


def test_what_cenote_torch_offers_is_what_type_checkers_are_told() -> None:
    """The pages said that every function has a gradient there, and so did the types."""
    pytest.importorskip("torch")
    functions = pytest.importorskip("cenote.torch")
    stub = Path(F.__file__ or "").with_name("differentiable.pyi")
    (told,) = [
        {alias.asname for alias in node.names}
        for node in ast.parse(stub.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom)
    ]
    assert {*told, "pool_output_shape"} == {*functions.__all__}
    with pytest.raises(AttributeError, match=r"no relu: it has no gradient; call cenote\.functional\.relu"):
        _ = functions.relu
    with pytest.raises(AttributeError, match="no attribute 'relux'"):
        _ = functions.relux


def test_autograd() -> None:
    """cenote.torch passes PyTorch's own gradient check, and trains."""
    torch = pytest.importorskip("torch")
    functions = pytest.importorskip("cenote.torch")
    assert set(functions.__all__) >= {name for name, *_ in CASES}
    for name, args, kwargs, shape in CASES:
        x = torch.from_numpy(distinct(*shape)).requires_grad_()
        given = tuple(torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in args)
        function = functools.partial(_called, getattr(functions, name), given, kwargs)
        assert torch.autograd.gradcheck(function, (x,), fast_mode=True), name
    x = torch.from_numpy(distinct(1, 2, 6, 6)).requires_grad_()
    y, where = functions.max_pool2d(x, 2, return_indices=True)
    assert where.dtype == torch.int64
    assert not where.requires_grad
    back = functions.max_unpool2d(y, where, 2)
    (back**2).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * back.detach().numpy())
    plain = functions.avg_pool2d(x.detach(), 2)
    assert not plain.requires_grad
    with pytest.raises(InputError, match=r"cenote\.torch"):
        F.max_pool2d(x, 2)
    fractional = functions.fractional_max_pool2d(x, 2, 3, seed=3)
    fractional.sum().backward()


def test_roi_align_grid_is_shared() -> None:
    """The gradient uses the samples of the pool itself."""
    op = RoiAlign((2, 2), sampling_ratio=3)
    found = op.terms(np.ones((1, 6, 6)), np.array([0.5, 0.5, 4, 4]), np.float64)
    assert found is not None
    assert found[0].shape == (4, 1, 2, 3, 2, 3)


def test_an_algorithm_is_that_of_the_function_and_not_of_its_gradient() -> None:
    torch = pytest.importorskip("torch")
    functions = pytest.importorskip("cenote.torch")
    x = torch.randn(1, 4, 12, 12, requires_grad=True)
    for name, algorithm in (("max_pool2d", "argmax_generic"), ("avg_pool2d", "separable")):
        grads = [
            torch.autograd.grad(getattr(functions, name)(x, 3, **more).sum(), x)[0]
            for more in ({}, {"algorithm": algorithm})
        ]
        assert torch.equal(*grads)
