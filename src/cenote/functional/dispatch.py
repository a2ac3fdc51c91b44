"""From a call with arrays to one operator's kernels, without a graph, and back to the caller's kind of array.

A call is parsed and validated once per signature (function, arguments, shapes, strides, types); the prepared runner is
kept. The key holds the arguments' bytes, not the arguments: 1, 1.0 and True are equal and hash alike, but only 1 is a
valid kernel_size.

`prepared_runner` does once, for given types, what does not depend on the arrays' content: it picks a lowering,
generates the kernels and makes a small program. An operator without a lowering for plain memory runs its reference.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, CapacityError, CenoteError, raise_refusal, shown
from cenote.core.limits import check_extents
from cenote.core.types import Array, TensorType, native_dtype
from cenote.functional.arguments import Operation, Types, given_array
from cenote.functional.outputs import check_out
from cenote.functional.ways.way import way_of
from cenote.kernels.launch import Runner
from cenote.ops.base import Arrays, Lowering, Op
from cenote.ops.runner import NativeCall, program_runner
from cenote.runtime.arrays import Restore, dense, same
from cenote.runtime.memory import available_bytes
from cenote.runtime.threads import resolve_threads

Parser = Callable[..., Operation]
"""Called with the inputs' types and the arguments, without the function's name."""

_DEEPEST = 8
FAILURES = (CenoteError, MemoryError, OSError, RuntimeError)
"""Errors that `raise_named` is for."""
MOST_KEPT = 4096  # signatures; then all are forgotten: a loop over sizes must not fill the memory
_kept: dict[Any, Prepared] = {}


@dataclass(frozen=True)
class Prepared:
    """An operation with its runner.

    `dense`: the inputs may be handed on as they are. `moved`: they are channels-first in shape, but channels-last in
    memory, as PyTorch's channels_last tensors, and so are the results. `orders`: the order of its axes in which each
    input is handed on, where the operator reads transposed memory as it is. `in_place`: inputs whose very memory the
    first output may be written to.
    """

    runner: Runner
    outputs: tuple[TensorType, ...]
    dense: bool
    single: bool
    moved: bool = False
    orders: tuple[tuple[int, ...] | None, ...] = ()
    in_place: frozenset[int] = frozenset()

    def fits(self, arrays: Sequence[Array], out: Any) -> Sequence[Array] | None:
        """The arrays to write to where `out` is plainly right: the quick way past `check_out`, which says what is
        wrong. Memory that may overlap is looked at there."""
        if self.moved:
            return None
        if self.single:
            return (out,) if self._takes(arrays, out) else None
        if type(out) is not tuple:
            return None
        targets = out
        if len(targets) != len(self.outputs):
            return None
        others = list(arrays)
        if type(targets[0]) is np.ndarray:
            others = [x for n, x in enumerate(arrays) if x is not targets[0] or n not in self.in_place]
        for target, wanted in zip(targets, self.outputs, strict=True):
            if type(target) is not np.ndarray or target.shape != wanted.shape or target.dtype != wanted.dtype:
                return None
            if not target.flags.carray:
                return None
            for other in others:
                if np.may_share_memory(other, target):
                    return None
            others.append(target)
        return targets

    def _takes(self, arrays: Sequence[Array], target: object) -> bool:
        """`fits` for one result: 2 us less than the general way."""
        wanted = self.outputs[0]
        if type(target) is not np.ndarray or target.shape != wanted.shape or target.dtype != wanted.dtype:
            return False
        if not target.flags.carray:
            return False
        for number, x in enumerate(arrays):
            if (x is not target or number not in self.in_place) and np.may_share_memory(x, target):
                return False
        return True

    def __call__(self, arrays: Sequence[Array], out: Sequence[Array] | None) -> Any:
        """The outputs: one array, or a tuple. `out` must be row-major."""
        if self.moved:
            results = self.runner([np.moveaxis(x, 1, -1) for x in arrays], None)
            results = tuple(np.moveaxis(y, -1, 1) for y in results)
        else:
            if self.orders:
                arrays = [
                    x if o is None else x.transpose(o) for x, o in zip(arrays, self.orders, strict=True)
                ]
            results = self.runner(arrays if self.dense else [dense(x) for x in arrays], out)
        return results[0] if self.single else results


Learn = Callable[[Prepared, tuple[Array, ...], tuple[Any, ...], Any], None]


def call(
    parser: Parser,
    arrays: tuple[Any, ...],
    arguments: tuple[Any, ...],
    out: object,
    threads: Any,
    learn: Learn | None = None,
) -> Any:
    """Run the function whose name is the first of the arguments, and whose `parser(types, *others)` reads the others,
    on arrays of any library. `learn` is told of a call on NumPy's arrays that has been prepared before.

    Raises InputError for inputs that are no arrays, DTypeError and ShapeError for those that do not fit,
    ArgumentError for arguments out of range. `raise_named` is for the function that callers see.
    """
    try:
        said = marshal.dumps((arguments, threads), 2)
    except ValueError:
        return _convert_and_call(parser, arrays, arguments, out, threads)
    prepared = None
    if len(arrays) == 1:  # nearly every call has one array or two: 1 us less than the general way
        (x,) = arrays
        if type(x) is np.ndarray:
            prepared = _kept.get((parser, said, x.shape, x.strides, x.dtype))
    elif len(arrays) == 2:
        x, y = arrays
        if type(x) is np.ndarray is type(y):
            prepared = _kept.get((parser, said, x.shape, x.strides, x.dtype, y.shape, y.strides, y.dtype))
    elif all(type(x) is np.ndarray for x in arrays):
        prepared = _kept.get(_key(parser, said, arrays))
    if prepared is not None:
        if learn is not None:
            learn(prepared, arrays, arguments, threads)
        if out is None:
            return prepared(arrays, None)
        targets = prepared.fits(arrays, out)
        if targets is not None:
            prepared(arrays, targets)
            return out
    return _convert_and_call(parser, arrays, arguments, out, threads)


def forget_prepared() -> None:
    """Forget what has been prepared; `callers.forget` does so for calls that native code knows, too."""
    _kept.clear()


def raise_named(name: str, error: Exception) -> NoReturn:
    """Raise an error of a call, which begins with the function's name from here on: in place of that of an operator or
    of a function that it runs. Functions of the user's own (`fused`) let these stand. Refusals of the system become
    CapacityErrors."""
    name, _, _ = name.partition("__")
    if isinstance(error, CenoteError):
        import cenote.functional as functions  # all of them take a moment to import, and most calls are right
        from cenote.ops.table import operators

        head, colon, rest = str(error).partition(": ")
        begins = head.partition("(")[0]  # without an operator's attributes
        lower = begins.lower()  # without the capital letters of ONNX's names
        known = lower in functions.__all__ or any(lower == op.name for op in operators())
        if not (colon and (known or lower in ("", name))):
            error.args = (f"{name}: {error}", *error.args[1:])
        elif begins != name and (name in functions.__all__ or not begins):
            error.args = (f"{name}: {rest}", *error.args[1:])
    raise_refusal(name, error)


def _key(parser: Parser, said: bytes, arrays: Sequence[Array]) -> tuple[Any, ...]:
    """The signature of a call."""
    return (parser, said, *[item for x in arrays for item in (x.shape, x.strides, x.dtype)])


def _convert_and_call(
    parser: Parser, arrays: tuple[Any, ...], arguments: tuple[Any, ...], out: object, threads: object
) -> Any:
    converted = []
    restore: Restore = same
    for position, x in enumerate(arrays):
        what = "input" if position == 0 else f"array {position + 1}"
        array, back = given_array(what, x)
        converted.append(array)
        restore = back if position == 0 else restore
    prepared = prepare(parser, tuple(converted), arguments, threads)
    if out is not None:
        targets = check_out(out, prepared.outputs, converted, prepared.in_place)
        _fill(prepared, converted, targets)
        return out
    results = prepared(converted, None)
    return restore(results) if prepared.single else tuple(restore(y) for y in results)


def prepare(parser: Parser, arrays: tuple[Array, ...], arguments: tuple[Any, ...], threads: Any) -> Prepared:
    """The prepared call of a signature, kept if it may be."""
    key = None
    if _is_plain((arguments, threads)):
        key = _key(parser, marshal.dumps((arguments, threads), 2), arrays)
        if key in _kept:
            return _kept[key]
    name, algorithm = named(arguments[0])
    count = None if threads is None else resolve_threads(threads)
    types = tuple(TensorType(native_dtype(x.dtype), x.shape) for x in arrays)
    operation = parser(types, *arguments[1:])
    op, given, orders, moved = in_memory(operation, arrays)
    batched = tuple(TensorType(t.dtype, shape) for t, shape in zip(types, given, strict=True))
    made = op.infer(*batched)
    for y in made:
        check_extents(f"{name}: a result", y.shape, y.dtype.itemsize)
    _check_memory(name, made)
    runner, in_place = prepared_runner(op, batched, count, () if moved else operation.shapes, algorithm)
    prepared = Prepared(
        runner=runner,
        outputs=tuple(TensorType(y.dtype, shape) for y, shape in zip(made, operation.shapes, strict=True)),
        dense=all(
            (x if o is None else x.transpose(o)).flags.c_contiguous and x.dtype.isnative
            for x, o in zip(arrays, orders or (None,) * len(arrays), strict=True)
        ),
        single=len(made) == 1,
        moved=moved,
        orders=orders,
        in_place=frozenset() if moved else in_place,
    )
    if key is not None:
        if len(_kept) >= MOST_KEPT:
            _kept.clear()
        _kept[key] = prepared
    return prepared


def named(first: str | tuple[str, object]) -> tuple[str, str | None]:
    """The name of a function and that of its algorithm, of the begin of a call's arguments. Raises ArgumentError."""
    if isinstance(first, str):
        return first, None
    name, algorithm = first
    if not isinstance(algorithm, str):
        raise ArgumentError(f"algorithm: {shown(algorithm)} is no name")
    return name, algorithm


def _check_memory(name: str, outputs: Sequence[TensorType]) -> None:
    """CapacityError for results that do not fit: the system may promise memory that is not there, and kill its user."""
    needed, available = sum(y.nbytes for y in outputs), available_bytes()
    if needed > available:
        raise CapacityError(
            f"the result {outputs[0]} needs {needed / 1e6:.0f} MB, only {available / 1e6:.0f} MB are available"
        )


def in_memory(
    operation: Operation, arrays: tuple[Array, ...]
) -> tuple[Op, tuple[tuple[int, ...], ...], tuple[tuple[int, ...] | None, ...], bool]:
    """The operator for the arrays as they lie in memory, the shapes and the orders of axes in which they are handed on,
    and whether channels go last."""
    last = _in_channels_last(operation, arrays)
    return *(last or _in_memory_order(operation, arrays)), last is not None


def _in_channels_last(
    operation: Operation, arrays: Sequence[Array]
) -> tuple[Op, tuple[tuple[int, ...], ...], tuple[()]] | None:
    """The operation for channels-last memory, where all inputs are batched, channels-first in shape and dense once
    channels go last; None where they are not, or the operator knows no such memory."""
    op = operation.op.in_channels_last()
    if op is None or not all(
        x.shape == shape
        and x.dtype.isnative
        and not x.flags.c_contiguous
        and np.moveaxis(x, 1, -1).flags.c_contiguous
        for x, shape in zip(arrays, operation.batched, strict=True)
    ):
        return None
    return op, tuple((n, *size, c) for n, c, *size in operation.batched), ()


def _in_memory_order(
    operation: Operation, arrays: tuple[Array, ...]
) -> tuple[Op, tuple[tuple[int, ...], ...], tuple[tuple[int, ...] | None, ...]]:
    """The operation for inputs as they lie in memory, where the operator can read transposed ones without a copy."""
    op, given = operation.op, list(operation.batched)
    orders: list[tuple[int, ...] | None] = [None] * len(arrays)
    for index, x in enumerate(arrays):
        if x.flags.c_contiguous or given[index] != x.shape:
            continue
        order = tuple(int(axis) for axis in np.argsort([-step for step in x.strides], kind="stable"))
        turned = op.reordered(index, order) if x.transpose(order).flags.c_contiguous else None
        if turned is not None:
            op, orders[index], given[index] = turned, order, tuple(x.shape[axis] for axis in order)
    return op, tuple(given), tuple(orders) if any(orders) else ()


def _is_plain(value: Any, depth: int = 0) -> bool:
    """True for what marshal writes without ambiguity: other things may share their bytes. Not for lists within lists
    deeper than any argument: one that holds itself."""
    if type(value) in (tuple, list):
        return depth < _DEEPEST and all(_is_plain(item, depth + 1) for item in value)
    return value is None or type(value) in (int, bool, float, str)


def _fill(prepared: Prepared, arrays: Sequence[Array], targets: Sequence[Array]) -> None:
    """Run into the targets, through a copy where their memory is not row-major."""
    if not prepared.moved and all(y.flags.c_contiguous for y in targets):
        prepared(arrays, targets)
        return
    results = prepared(arrays, None)
    for target, y in zip(targets, (results,) if prepared.single else results, strict=True):
        target[...] = y


# ---- runners ---------------------------------------------------------------------------------------------------------


def prepared_runner(
    op: Op,
    inputs: Sequence[TensorType | None],
    threads: int | None = None,
    shapes: Sequence[tuple[int, ...]] = (),
    algorithm: str | None = None,
) -> tuple[Runner, frozenset[int]]:
    """The runner for inputs of these types, and the inputs in whose memory it may write the first output. `shapes` of
    as many elements may replace those of the outputs. `algorithm`: the name of that which the caller wants. A
    reference computes all it gives before any of it is written.

    Raises what `op.infer` raises, and ArgumentError for a number of threads out of range and for an algorithm that is
    not to be had.
    """
    types = op.infer(*inputs)
    output_shapes = tuple(shapes) or tuple(y.shape for y in types)
    count = resolve_threads(threads)
    way = way_of(op, inputs, types, count, algorithm)
    if way is None:
        return _reference_runner(op, tuple(inputs), types, output_shapes), frozenset(range(len(inputs)))
    if not isinstance(way, Lowering):
        return program_runner(way.program, output_shapes), frozenset()
    return NativeCall(way, inputs, types, output_shapes, count).runner(), frozenset(way.in_place)


def _reference_runner(
    op: Op, inputs: tuple[TensorType | None, ...], outputs: Types, shapes: Sequence[tuple[int, ...]]
) -> Runner:
    def runner(arrays: Sequence[Array | None], out: Sequence[Array] | None) -> Arrays:
        shaped = [
            None if x is None or t is None else x.reshape(t.shape)
            for x, t in zip(arrays, inputs, strict=True)
        ]
        results = op.reference(*shaped)
        if out is None:
            return tuple(y.reshape(shape) for y, shape in zip(results, shapes, strict=True))
        for target, y in zip(out, results, strict=True):
            target[...] = y.reshape(target.shape)
        return tuple(out)

    return runner
