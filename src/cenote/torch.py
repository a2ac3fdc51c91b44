"""The pools of cenote.functional for PyTorch, differentiable: the same names and arguments, on CPU tensors.

    import cenote.torch as F

    y = F.max_pool2d(x, 2)      # x.requires_grad
    y.sum().backward()

Other functions have no gradient: call those of cenote.functional, which take tensors too. Needs PyTorch: `pip install
torch`, or Cenote's extra `torch`. Max pools keep their indices, the others their input, for the gradient. Second
derivatives are not available: asking for them raises an error. Indices and `pool_output_shape` have none.

The pools are operators of PyTorch (`cenote::pool`): `torch.compile(fullgraph=True)` and `torch.export` keep them as
nodes, with their gradients. A graph holds for any number of pictures or boxes; another size of a map is traced again.
"""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

try:
    import torch
except ImportError as error:  # an optional package
    raise ImportError("cenote.torch needs PyTorch: pip install torch (a CPU build is enough)") from error

from cenote import functional
from cenote.core.types import Array
from cenote.functional.record import RECORDS

if TYPE_CHECKING:
    from cenote.functional.differentiable import *  # noqa: F403  # the functions that are made below

Function = Callable[..., Any]


# ---- operators of PyTorch ----------------------------------------------------------------------------------------
#
# torch.compile and torch.export keep them as nodes. Which function is called, and how, is a text: no schema could hold
# the arguments of all of them. Tensors beside the input (boxes, indices) are named in it by their numbers.

_LIBRARY: Any = torch.library.Library("cenote", "FRAGMENT")  # type: ignore[no-untyped-call]
_LIBRARY.define("pool(Tensor input, Tensor[] others, str call) -> Tensor[]")
_LIBRARY.define(
    "pool_backward(Tensor grad, Tensor input, Tensor[] others, Tensor[] indices, str call) -> Tensor"
)
# Keywords of a function that its gradient does not take: its algorithms are others.
_FORWARD = ("return_indices", "algorithm")
# Functions whose result has a row for each box.
_OF_BOXES = ("roi_align", "roi_pool", "ps_roi_pool")
_Call = tuple[str, tuple[Any, ...], dict[str, Any]]


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _written(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return the text of a call whose tensors are replaced by their names. Raises TypeError for other objects."""
    return repr((name, _literal(args), {key: _literal(value) for key, value in kwargs.items()}))


def _literal(value: object) -> object:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, float):
        return f"float {value.hex()}"  # infinity has no literal
    if isinstance(value, list | tuple):
        return tuple(map(_literal, value))
    if not isinstance(value, SupportsIndex):
        raise TypeError(f"a traced call takes numbers, texts and tensors, not {type(value).__name__}")
    return operator.index(value)


def _read(call: str, others: Sequence[Any]) -> _Call:
    """Return the name and the arguments of a text, with its tensors."""

    def value(written: object) -> Any:
        if isinstance(written, tuple):
            return tuple(map(value, written))
        kind, _, rest = written.partition(" ") if isinstance(written, str) else ("", "", "")
        return others[int(rest)] if kind == "tensor" else float.fromhex(rest) if kind == "float" else written

    name, args, kwargs = _parsed(call)
    return name, value(args), {key: value(given) for key, given in kwargs.items()}


@functools.lru_cache(maxsize=1024)
def _parsed(call: str) -> _Call:
    name, args, kwargs = ast.literal_eval(call)
    return name, args, kwargs


def _pool(input: torch.Tensor | Array, others: Sequence[torch.Tensor | Array], call: str) -> list[Any]:
    name, args, kwargs = _read(call, others)
    function: Function = getattr(functional, name)
    result = function(input, *args, **kwargs)
    return list(result) if isinstance(result, tuple) else [result]


def _pool_shapes(input: torch.Tensor, others: list[torch.Tensor], call: str) -> list[torch.Tensor]:
    """Return tensors of the result's shapes: those that the function gives for zeros.

    The number of pictures, or of boxes, may stay a symbol of the tracer; a trace holds for one value of other sizes.
    """
    name, _, kwargs = _parsed(call)
    boxes, layout = name in _OF_BOXES, kwargs.get("layout", "NCHW")
    batched = not boxes and input.dim() == 2 + (RECORDS[name].rank or len(layout) - 2)
    zeros = np.zeros(
        [1 if batched and not axis else int(size) for axis, size in enumerate(input.shape)], np.float32
    )
    content = [
        np.zeros(
            [1 if not axis and (boxes or batched) else int(size) for axis, size in enumerate(other.shape)],
            np.float32 if other.is_floating_point() else np.int64,
        )
        for other in others
    ]
    results = _pool(zeros, content, call)
    first = sum(other.shape[0] for other in others) if boxes else input.shape[0]
    types = (input.dtype, torch.int64)
    return [
        input.new_empty(
            [first if (boxes or batched) and not axis else size for axis, size in enumerate(y.shape)],
            dtype=dtype,
        )
        for y, dtype in zip(results, types, strict=False)
    ]


def _pool_backward(
    grad: torch.Tensor,
    input: torch.Tensor,
    others: list[torch.Tensor],
    indices: list[torch.Tensor],
    call: str,
) -> torch.Tensor:
    name, args, kwargs = _read(call, others)
    function: Function = getattr(functional, f"{name}_backward")
    kwargs = {key: value for key, value in kwargs.items() if key not in _FORWARD}
    if not RECORDS[name].gradient:  # the indices alone say it
        layout = {"layout": kwargs["layout"]} if "layout" in kwargs else {}
        result: torch.Tensor = function(grad.contiguous(), input, indices[0], **layout)
    else:
        if indices:
            kwargs["indices"] = indices[0]
        result = function(grad.contiguous(), input, *args, **kwargs)
    return result


class _Context(torch.autograd.function.FunctionCtx):
    """State of a call for its gradient: its text, the number of its `others`, tensors."""

    call: str
    others: int
    saved_tensors: tuple[torch.Tensor, ...]


def _keep(ctx: _Context, inputs: tuple[Any, ...], output: list[torch.Tensor]) -> None:
    input, others, ctx.call = inputs
    ctx.others = len(others)
    ctx.save_for_backward(input, *others, *output[1:])


def _kept(ctx: _Context) -> tuple[torch.Tensor, list[torch.Tensor], list[torch.Tensor]]:
    input, *kept = ctx.saved_tensors
    return input, kept[: ctx.others], kept[ctx.others :]


def _differentiate(ctx: _Context, grads: list[torch.Tensor]) -> tuple[Any, ...]:
    input, others, indices = _kept(ctx)
    grad = torch.ops.cenote.pool_backward(grads[0], input, others, indices, ctx.call)
    return grad, [None] * len(others), None


def _no_second_derivative(ctx: _Context, grad: torch.Tensor) -> None:
    raise RuntimeError(
        "cenote.torch: a pool's gradient cannot be differentiated again (no second derivatives)"
    )


for _name, _implementation in (("pool", _pool), ("pool_backward", _pool_backward)):
    _LIBRARY.impl(_name, _implementation, "CPU")
torch.library.register_fake("cenote::pool", _pool_shapes, lib=_LIBRARY)
torch.library.register_fake(
    "cenote::pool_backward",
    lambda grad, input, others, indices, call: input.new_empty(input.shape),
    lib=_LIBRARY,
)
torch.library.register_autograd("cenote::pool", _differentiate, setup_context=_keep, lib=_LIBRARY)
torch.library.register_autograd("cenote::pool_backward", _no_second_derivative, lib=_LIBRARY)


class _Pool(torch.autograd.Function):
    """`cenote::pool` without the dispatcher of operators, which takes a third of the time of a call on a small map."""

    @staticmethod
    def forward(ctx: _Context, input: torch.Tensor, others: list[torch.Tensor], call: str) -> Any:
        result = _pool(input, others, call)
        _keep(ctx, (input, others, call), result)
        ctx.mark_non_differentiable(*result[1:])
        return tuple(result)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: _Context, *grads: Any) -> Any:
        input, others, indices = _kept(ctx)
        return _pool_backward(grads[0], input, others, indices, ctx.call), None, None


# ---- functions -----------------------------------------------------------------------------------------------------


_apply: Function = _Pool.apply


def _differentiable(name: str) -> Function:
    """The function with autograd; without a tensor that asks for a gradient it is the plain function."""
    plain: Function = getattr(functional, name)
    indexed = RECORDS[name].indexed
    names = plain.__code__.co_varnames[1 : plain.__code__.co_argcount]

    @functools.wraps(plain)
    def function(input: Any, *args: Any, **kwargs: Any) -> Any:
        tracked = isinstance(input, torch.Tensor) and input.requires_grad and torch.is_grad_enabled()
        traced = torch.compiler.is_compiling() and kwargs.get("out") is None
        if not tracked and not traced:
            return plain(input, *args, **kwargs)
        if kwargs.get("out") is not None:
            raise RuntimeError(f"{name}: out= cannot be used with a tensor that requires grad")
        wanted = True
        if indexed and kwargs.get("training") is not False:  # the gradient takes the indices
            kwargs = dict(zip(names, args, strict=False)) | kwargs
            wanted, args = bool(kwargs.get("return_indices", False)), ()
            kwargs["return_indices"] = True
        others: list[torch.Tensor] = []
        args = tuple(_named(value, others) for value in args)
        kwargs = {key: _named(value, others) for key, value in kwargs.items()}
        call = _written(name, args, kwargs)
        result = torch.ops.cenote.pool(input, others, call) if traced else _apply(input, others, call)
        return tuple(result) if wanted and len(result) > 1 else result[0]

    return function


def _named(value: object, others: list[torch.Tensor]) -> object:
    """Return an argument with its tensors replaced by their names, which are put into `others`."""
    if isinstance(value, list | tuple):
        return tuple(_named(each, others) for each in value)
    if not isinstance(value, torch.Tensor) and not hasattr(value, "__dlpack__"):
        return value
    others.append(value if isinstance(value, torch.Tensor) else torch.utils.dlpack.from_dlpack(value))
    return f"tensor {len(others) - 1}"


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
