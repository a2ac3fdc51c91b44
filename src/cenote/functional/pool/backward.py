"""Gradients: for each differentiable pool `f(input, ...)` a function `f_backward(grad_output, input, ...)`.

    y = F.avg_pool2d(x, 3, 2, padding=1)
    grad_x = F.avg_pool2d_backward(grad_y, x, 3, 2, padding=1)

The arguments after `grad_output` are those of the pool, but for return_indices. `grad_output` has the shape and type of
the pool's result, the gradient those of `input`; float types only. Max pools (and stochastic and fractional ones) send
all of a gradient to the element whose index they give; with `indices=` (what return_indices gave) it is not searched
again. Sums run in a fixed order: the same bits on every run. cenote.torch makes autograd functions of them.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from cenote.core.errors import ArgumentError, ShapeError
from cenote.core.types import INT64, TensorType
from cenote.functional.arguments import Operation, Types, form, semantics_named
from cenote.functional.callers import Caller, called
from cenote.functional.dispatch import FAILURES, Parser, call, raise_named
from cenote.functional.kinds import ArrayKind, MapKind
from cenote.functional.names import FAMILIES
from cenote.functional.record import OUT, RECORDS, FunctionParameter, Record, public, written
from cenote.ops.pool.gradient import IndexGradient

Function = Callable[..., Any]


def _parser(record: Record) -> Parser:
    """A parser for the gradient of a function: its inputs are grad_output and the function's."""

    def parse(types: Types, *values: object) -> Operation:
        grad, x = types[:2]
        forward = record.parse(types[1:], *values)
        shape = forward.shapes[0]
        if grad.shape != shape:
            raise ShapeError(
                f"grad_output must have the output's shape {list(shape)}, got {list(grad.shape)}"
            )
        batched = tuple(TensorType(t.dtype, s) for t, s in zip(types[1:], forward.batched, strict=True))
        above = forward.op.infer(*batched)[0].shape
        assert record.gradient is not None, "asked for where there is one"
        return Operation(record.gradient(forward.op), (above, *forward.batched), (x.shape,))

    return parse


def _parse_indices(types: Types, rank: int, layout: object, semantics: object, plain: bool) -> Operation:
    """The gradient by given indices: inputs are grad_output, indices and the pool's input (for its shape)."""
    grad, indices, x = types
    if indices.shape != grad.shape or indices.dtype != INT64:
        raise ShapeError(
            f"indices must be int64 of grad_output's shape {list(grad.shape)}, got {indices.dtype} "
            f"{list(indices.shape)}"
        )
    above, below = (form(t, rank, layout, plain) for t in (grad, x))
    rule = semantics_named("semantics", semantics).index
    op = IndexGradient(below.spatial, rule, below.channels_last)
    return Operation(op, (above.batched, above.batched, below.batched), (x.shape,))


def _gradient(record: Record) -> Function:
    """The function f_backward(grad_output, ...) of a record, with the arguments of f."""
    name, parser = f"{record.name}_backward", _parser(record)
    signature = inspect.signature(record.function)
    arrays = [each.name for each in record.of(ArrayKind)]

    def run(caller: Function, grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
        if "indices" in arrays and indices is not None:
            kwargs["indices"], indices = indices, None
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(str(error)) from None
        bound.apply_defaults()
        given = {**bound.arguments, "return_indices": False}
        to, algorithm = (given["out"], given["threads"]), given["algorithm"]
        first = name if algorithm is None else (name, algorithm)
        if indices is None:
            inputs = (grad_output, *(given[each] for each in arrays))
            return caller(parser, inputs, (first, *(given[each.name] for each in record.arguments)), *to)
        if not record.indexed:
            raise ArgumentError("takes no indices")
        (kind,) = (each.kind for each in record.of(MapKind))
        layout, plain = given["layout"], isinstance(kind, MapKind) and kind.plain
        rest = (first, record.rank_by(layout), layout, given["semantics"], plain)
        return caller(_parse_indices, (grad_output, indices, given["input"]), rest, *to)

    def function(grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
        try:
            return run(call, grad_output, *args, indices=indices, **kwargs)
        except FAILURES as error:
            raise_named(name, error)

    vars(function)["under"] = lambda caller: partial(run, caller)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Gradient of {record.name} with respect to its input: grad_output, then the arguments of "
        f"{record.name}."
    )
    return function


def _of_regions(record: Record) -> Function:
    """The gradient of a function whose arrays are made of what it is given."""
    name = f"{record.name}_backward"
    values = [each.name for each in record.arguments]
    line = called("(grad_output, *arrays(input, boxes))", name, values, "out")
    names = {"call": Caller(_parser(record)), "arrays": record.arrays}
    signature = (FunctionParameter("grad_output", "A"), *record.signature())
    doc = f"Gradient of {record.name} with respect to its input; boxes get none."
    return written(name, signature, "A", line, names, _of_regions, doc)


def _by_indices(record: Record) -> Function:
    """The gradient of a function by the indices that it gave, which alone say it."""
    name = f"{record.name}_backward"
    keys = [repr(record.rank), "layout", "'torch'", "True"]
    line = called("(grad_output, indices, input)", name, keys, "out")
    arrays = (
        FunctionParameter("grad_output", "A"),
        FunctionParameter("input", "A"),
        FunctionParameter("indices", "DLPack"),
    )
    shared = tuple(each for each in record.signature() if each.name in ("layout", "threads", "algorithm"))
    signature = (*arrays, OUT, *shared)
    doc = f"Gradient of {record.name} by the indices that it gave (return_indices=True)."
    return written(name, signature, "A", line, {"call": Caller(_parse_indices)}, _by_indices, doc)


for _family in FAMILIES:
    if _family.startswith("pool.") and not __name__.endswith(_family):
        importlib.import_module(f"cenote.functional.{_family}")
for _record in RECORDS.values():
    if _record.gradient or _record.indexed:
        _make = _by_indices if not _record.gradient else _of_regions if _record.arrays else _gradient
        globals()[f"{_record.name}_backward"] = public(_make(_record))
