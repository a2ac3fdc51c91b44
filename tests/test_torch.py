"""cenote.torch under torch.compile and torch.export: PyTorch's own checks of operators, and eager results."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from tests.functional.pool.gradient_cases import CASES

torch = pytest.importorskip("torch")
F = pytest.importorskip("cenote.torch")
# The least of what compiles: the graph as it was traced, its gradient's too.
compiled = functools.partial(torch.compile, backend="aot_eager", fullgraph=True)


@pytest.fixture(autouse=True)
def forgotten() -> Any:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def case(name: str, args: Any, kwargs: Any, shape: Any) -> tuple[Any, Any]:
    given = tuple(torch.from_numpy(each) if isinstance(each, np.ndarray) else each for each in args)
    values = np.random.default_rng(3).permutation(np.prod(shape)).reshape(shape) / np.prod(
        shape
    )  # all different
    return getattr(F, name), (torch.from_numpy(values).requires_grad_(), given, kwargs)


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "shape"), CASES, ids=lambda v: v if isinstance(v, str) else ""
)
def test_every_pool_is_one_graph_with_the_same_results(name: str, args: Any, kwargs: Any, shape: Any) -> None:
    pool, (x, given, kwargs) = case(name, args, kwargs, shape)

    def loss(x: Any) -> Any:
        result = pool(torch.relu(x) + 0.5, *given, **kwargs)
        return result[0] if isinstance(result, tuple) else result

    eager, traced = loss(x), compiled(loss)(x)
    assert torch.equal(eager, traced)
    grads = [torch.autograd.grad((y * y).sum(), x)[0] for y in (eager, traced)]
    assert torch.equal(*grads)
    assert grads[0].any()


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "shape"), CASES[::4], ids=lambda v: v if isinstance(v, str) else ""
)
def test_pytorch_s_check_of_operators_passes(name: str, args: Any, kwargs: Any, shape: Any) -> None:
    """Schema, registration of the gradient, shapes without content, and tracing of both with symbolic sizes."""
    _, (x, given, kwargs) = case(name, args, kwargs, shape)
    others: list[Any] = []
    args = tuple(F._named(value, others) for value in given)
    call = F._written(name, args, {key: F._named(value, others) for key, value in kwargs.items()})
    torch.library.opcheck(torch.ops.cenote.pool.default, (x, others, call))


def test_one_graph_serves_any_number_of_pictures() -> None:
    counted = torch._dynamo.testing.CompileCounter()
    pool = torch.compile(lambda x: F.max_pool2d(x, 2), backend=counted, fullgraph=True, dynamic=True)
    for batch in (2, 3, 7):
        x = torch.randn(batch, 3, 8, 8)
        assert torch.equal(pool(x), F.max_pool2d(x, 2))
    assert counted.frame_count == 1


def test_another_size_of_the_map_is_traced_again_and_right() -> None:
    pool = compiled(lambda x: F.avg_pool2d(x, 3, stride=2), dynamic=True)
    for side in (9, 12, 33):
        x = torch.randn(2, 3, side, side)
        assert torch.equal(pool(x), F.avg_pool2d(x, 3, stride=2))


def test_boxes_may_be_many_or_few() -> None:
    pool = compiled(lambda x, boxes: F.roi_align(x, boxes, 3), dynamic=True)
    x = torch.randn(2, 3, 16, 16)
    for count in (2, 5):
        boxes = torch.tensor([[0.0, 1, 2, 9, 12], [1, 0, 0, 15, 15]]).repeat(count, 1)
        assert torch.equal(pool(x, boxes), F.roi_align(x, boxes, 3))


def test_a_module_is_exported_with_the_pool_in_it() -> None:
    class Net(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            values, where = F.max_pool2d(x, 2, return_indices=True)
            return F.max_unpool2d(values, where, 2)

    x = torch.randn(2, 3, 8, 8)
    exported = torch.export.export(Net(), (x,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    assert "cenote.pool" in exported.graph_module.code
    assert torch.equal(exported.module()(torch.cat([x, x])), Net()(torch.cat([x, x])))


def test_layouts_without_a_batch_are_shaped_right() -> None:
    x = torch.randn(3, 8, 8)
    assert torch.equal(compiled(lambda x: F.max_pool2d(x, 2))(x), F.max_pool2d(x, 2))
    nhwc = torch.randn(2, 8, 8, 3)
    pool = functools.partial(F.max_pool2d, kernel_size=2, layout="NHWC")
    assert torch.equal(compiled(lambda x: pool(x))(nhwc), pool(nhwc))
    flat = functools.partial(F.median_pool, kernel_size=3, padding=1, layout="HW")
    assert torch.equal(compiled(lambda x: flat(x))(x[0]), flat(x[0]))


def test_arguments_of_any_kind_are_read_as_they_were_written() -> None:
    given = ((3, (1, 2)), float("inf"), -0.0, "same", None, True, np.int64(4), 1e-30)
    _, args, kwargs = F._read(F._written("pool", given, {"seed": 3}), [])
    assert args == (*given[:6], 4, 1e-30)
    assert str(args[2]) == "-0.0"
    assert type(args[6]) is int
    assert kwargs == {"seed": 3}
    with pytest.raises(TypeError):
        F._written("pool", (object(),), {})


def test_a_second_derivative_is_refused() -> None:
    x = torch.randn(1, 1, 4, 4, requires_grad=True)
    (first,) = torch.autograd.grad((F.avg_pool2d(x, 2) ** 2).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()
    grad = torch.ops.cenote.pool_backward(
        torch.ones(1, 1, 2, 2, requires_grad=True), x, [], [], "('avg_pool2d', (2,), {})"
    )
    with pytest.raises(RuntimeError, match="no second derivatives"):
        grad.sum().backward()
