"""The pools of cenote.functional for PyTorch, differentiable: the same names and arguments, on CPU tensors.

    import cenote.torch as F

    y = F.max_pool2d(x, 2)      # x.requires_grad
    y.sum().backward()

Other functions have no gradient: call those of cenote.functional, which take tensors too. Needs PyTorch: `pip install
torch`, or Cenote's extra `torch`. Max pools keep their indices, the others their input, for the gradient. Second
derivatives are not available: asking for them raises PyTorch's error. Indices and `pool_output_shape` have none.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

try:
    import torch
except ImportError as error:  # an optional package
    raise ImportError("cenote.torch needs PyTorch: pip install torch (a CPU build is enough)") from error

from cenote import functional
from cenote.functional.record import RECORDS

if TYPE_CHECKING:
    from cenote.functional.differentiable import *  # noqa: F403  # the functions that are made below

Function = Callable[..., Any]


class _Pool(torch.autograd.Function):
    """One call of a function of cenote.functional; the tensor to differentiate by comes first."""

    @staticmethod
    def forward(ctx: Any, input: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        ctx.name, ctx.args, ctx.kwargs = name, args, kwargs
        function: Function = getattr(functional, name)
        if not RECORDS[name].indexed or kwargs.get("training") is False:
            ctx.save_for_backward(input)
            return function(input, *args, **kwargs)
        y, indices = function(input, *args, **kwargs)
        ctx.save_for_backward(input, indices)
        ctx.mark_non_differentiable(indices)
        return y, indices

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Any, *unused: Any) -> Any:
        input, *indices = ctx.saved_tensors
        function: Function = getattr(functional, f"{ctx.name}_backward")
        kwargs = {key: value for key, value in ctx.kwargs.items() if key not in _FORWARD}
        if not RECORDS[ctx.name].gradient:  # the indices alone say it
            layout = {"layout": kwargs["layout"]} if "layout" in kwargs else {}
            return function(grad.contiguous(), input, indices[0], **layout), None, None, None
        if indices:
            kwargs["indices"] = indices[0]
        return function(grad.contiguous(), input, *ctx.args, **kwargs), None, None, None


# Keywords of a function that its gradient does not take: its algorithms are others.
_FORWARD = ("return_indices", "algorithm")
_apply: Function = _Pool.apply


def _differentiable(name: str) -> Function:
    """The function with autograd; without a tensor that asks for a gradient it is the plain function."""
    plain: Function = getattr(functional, name)

    @functools.wraps(plain)
    def function(input: Any, *args: Any, **kwargs: Any) -> Any:
        tracked = isinstance(input, torch.Tensor) and input.requires_grad and torch.is_grad_enabled()
        if not tracked:
            return plain(input, *args, **kwargs)
        if kwargs.get("out") is not None:
            raise RuntimeError(f"{name}: out= cannot be used with a tensor that requires grad")
        if not RECORDS[name].indexed or kwargs.get("training") is False:
            return _apply(input, name, args, kwargs)
        args, kwargs, wanted = _with_indices(plain, args, kwargs)
        y, indices = _apply(input, name, args, kwargs)
        return (y, indices) if wanted else y

    return function


def _with_indices(
    plain: Function, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], bool]:
    """The arguments with return_indices=True, and whether it was asked for."""
    code = plain.__code__
    given = dict(zip(code.co_varnames[1 : code.co_argcount], args, strict=False)) | kwargs
    wanted = bool(given.pop("return_indices", False))
    return (), {**given, "return_indices": True}, wanted


_NAMES = [
    name
    for name in functional.__all__
    if f"{name}_backward" in functional.__all__ and not name.endswith("_backward")
]
globals().update({name: _differentiable(name) for name in _NAMES})

pool_output_shape = functional.pool_output_shape

__all__ = [*_NAMES, "pool_output_shape"]

if not TYPE_CHECKING:  # a type checker would take every name for one that is there

    def __getattr__(name: str) -> Any:
        if name in functional.__all__:
            raise AttributeError(
                f"cenote.torch has no {name}: it has no gradient; call cenote.functional.{name}"
            )
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
