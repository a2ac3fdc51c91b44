"""From a call with arrays to a prepared operator, and back to the caller's kind of array.

A call is parsed and validated once per signature (function, arguments, shapes, strides, types); the prepared runner is
kept. The key holds the arguments' bytes, not the arguments: 1, 1.0 and True are equal and hash alike, but only 1 is a
valid kernel_size.
"""

from __future__ import annotations

import dataclasses
import marshal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cenote.core.errors import (
    ArgumentError,
    CapacityError,
    CenoteError,
    DTypeError,
    InputError,
    raise_refusal,
)
from cenote.core.limits import check_extents
from cenote.core.types import Array, TensorType
from cenote.functional import eager
from cenote.ops.base import Op
from cenote.runtime.arrays import as_numpy, dense
from cenote.runtime.memory import available_bytes
from cenote.runtime.threads import resolve_threads

Types = tuple[TensorType, ...]
Planner = Callable[..., "Plan"]
"""Called with the inputs' types and the arguments, the first of which is the function's name."""

_DEEPEST = 8
MOST_KEPT = 4096  # signatures; then all are forgotten: a loop over sizes must not fill the memory
_kept: dict[Any, Prepared] = {}


@dataclass(frozen=True)
class Plan:
    """What a function's planner makes of the inputs' types and its arguments.

    `op` works on inputs of the shapes `batched`; its outputs are given to the caller as `shapes`.
    """

    op: Op
    batched: tuple[tuple[int, ...], ...]
    shapes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Prepared:
    """A plan with its runner.

    `dense`: the inputs may be handed on as they are. `moved`: they are channels-first in shape, but channels-last in
    memory, as PyTorch's channels_last tensors, and so are the results.
    """

    runner: eager.Runner
    outputs: tuple[TensorType, ...]
    dense: bool
    single: bool
    moved: bool = False

    def fits(self, arrays: Sequence[Array], out: Any) -> Sequence[Array] | None:
        """The arrays to write to where `out` is plainly right: the quick way past `_check_out`, which says what is
        wrong. Memory that may overlap is looked at there."""
        if self.moved or not (self.single or type(out) is tuple):
            return None
        targets = (out,) if self.single else out
        if len(targets) != len(self.outputs):
            return None
        others = list(arrays)
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

    def __call__(self, arrays: Sequence[Array], out: Sequence[Array] | None) -> Any:
        """The outputs: one array, or a tuple. `out` must be row-major."""
        if self.moved:
            results = self.runner([np.moveaxis(x, 1, -1) for x in arrays], None)
            results = tuple(np.moveaxis(y, -1, 1) for y in results)
        else:
            results = self.runner(arrays if self.dense else [dense(x) for x in arrays], out)
        return results[0] if self.single else results


def call(
    planner: Planner, arrays: tuple[Any, ...], arguments: tuple[Any, ...], out: Any, threads: Any
) -> Any:
    """Run the function whose arguments `planner(types, *arguments)` reads, on arrays of any library.

    Raises InputError for inputs that are no arrays, DTypeError and ShapeError for those that do not fit,
    ArgumentError for arguments out of range, CapacityError where there is not enough memory.
    """
    try:
        try:
            said = marshal.dumps((arguments, threads), 2)
        except ValueError:
            return _convert_and_call(planner, arrays, arguments, out, threads)
        prepared = None
        if len(arrays) == 1:  # nearly every call: 0.3 us less than the general way
            (x,) = arrays
            if type(x) is np.ndarray:
                prepared = _kept.get((planner, said, (x.shape, x.strides, x.dtype)))
        elif all(type(x) is np.ndarray for x in arrays):
            prepared = _kept.get((planner, said, *[(x.shape, x.strides, x.dtype) for x in arrays]))
        if prepared is not None:
            if out is None:
                return prepared(arrays, None)
            targets = prepared.fits(arrays, out)
            if targets is not None:
                prepared(arrays, targets)
                return out
        return _convert_and_call(planner, arrays, arguments, out, threads)
    except (MemoryError, OSError, RuntimeError) as error:
        raise_refusal(arguments[0], error)


def _convert_and_call(
    planner: Planner, arrays: tuple[Any, ...], arguments: tuple[Any, ...], out: Any, threads: Any
) -> Any:
    name = arguments[0]
    converted, restore = [], None
    for position, x in enumerate(arrays):
        if type(x) is np.ndarray:
            array, back = x, None
        else:
            try:
                array, back = as_numpy(x)
            except InputError as error:
                what = "input" if position == 0 else f"array {position + 1}"
                raise InputError(f"{name}: {what} {error}") from error
        converted.append(array)
        restore = back if position == 0 else restore
    prepared = prepare(planner, tuple(converted), arguments, threads)
    if out is not None:
        targets = _check_out(name, out, prepared, converted)
        _fill(prepared, converted, targets)
        return out
    results = prepared(converted, None)
    if restore is None:
        return results
    return restore(results) if prepared.single else tuple(restore(y) for y in results)


def prepare(
    planner: Planner, arrays: tuple[Array, ...], arguments: tuple[Any, ...], threads: Any
) -> Prepared:
    """The prepared call of a signature, kept if it may be."""
    key = None
    if _is_plain((arguments, threads)):
        signature = [(x.shape, x.strides, x.dtype) for x in arrays]
        key = (planner, marshal.dumps((arguments, threads), 2), *signature)
        if key in _kept:
            return _kept[key]
    count = None if threads is None else resolve_threads(threads)
    types = tuple(TensorType(x.dtype.newbyteorder("="), x.shape) for x in arrays)
    plan = planner(types, *arguments)
    moved = _is_channels_last_memory(plan, arrays)
    op, given = _moved(plan) if moved else (plan.op, plan.batched)
    batched = tuple(TensorType(t.dtype, shape) for t, shape in zip(types, given, strict=True))
    made = op.infer(*batched)
    for y in made:
        check_extents(f"{arguments[0]}: a result", y.shape, y.dtype.itemsize)
    _check_memory(arguments[0], made)
    prepared = Prepared(
        runner=eager.prepare(op, batched, count, () if moved else plan.shapes),
        outputs=tuple(TensorType(y.dtype, shape) for y, shape in zip(made, plan.shapes, strict=True)),
        dense=all(x.flags.c_contiguous and x.dtype.isnative for x in arrays),
        single=len(made) == 1,
        moved=moved,
    )
    if key is not None:
        if len(_kept) >= MOST_KEPT:
            _kept.clear()
        _kept[key] = prepared
    return prepared


def _check_memory(name: str, outputs: Sequence[TensorType]) -> None:
    """CapacityError for results that do not fit: the system may promise memory that is not there, and kill its user."""
    needed, available = sum(y.nbytes for y in outputs), available_bytes()
    if needed > available:
        raise CapacityError(
            f"{name}: the result {outputs[0]} needs {needed / 1e6:.0f} MB, only {available / 1e6:.0f} MB are available"
        )


def _is_channels_last_memory(plan: Plan, arrays: Sequence[Array]) -> bool:
    """True when all inputs are batched, channels-first in shape and dense once channels go last."""
    pool = getattr(plan.op, "forward", plan.op)  # a gradient lies as its pool does
    if getattr(pool, "channels_last", True):
        return False
    return all(
        x.shape == shape
        and x.dtype.isnative
        and not x.flags.c_contiguous
        and np.moveaxis(x, 1, -1).flags.c_contiguous
        for x, shape in zip(arrays, plan.batched, strict=True)
    )


def _moved(plan: Plan) -> tuple[Op, tuple[tuple[int, ...], ...]]:
    """The same plan for channels-last memory."""
    fields: dict[str, Any] = {"channels_last": True}
    if hasattr(plan.op, "forward"):
        fields = {"forward": dataclasses.replace(plan.op.forward, **fields)}
    op: Op = dataclasses.replace(plan.op, **fields)  # type: ignore[type-var]  # operators are dataclasses
    return op, tuple((shape[0], *shape[2:], shape[1]) for shape in plan.batched)


def _is_plain(value: Any, depth: int = 0) -> bool:
    """True for what marshal writes without ambiguity: other things may share their bytes. Not for lists within lists
    deeper than any argument: one that holds itself."""
    if type(value) in (tuple, list):
        return depth < _DEEPEST and all(_is_plain(item, depth + 1) for item in value)
    return value is None or type(value) in (int, bool, float, str)


def _check_out(name: str, out: Any, prepared: Prepared, inputs: Sequence[Array]) -> list[Array]:
    """The arrays to write to; ArgumentError or DTypeError unless they fit."""
    given = (out,) if prepared.single else out
    count = len(prepared.outputs)
    if not prepared.single and (not isinstance(out, list | tuple) or len(out) != count):
        raise ArgumentError(f"{name}: out must be a tuple of {count} arrays, one per result")
    targets: list[Array] = []
    for position, (target, wanted) in enumerate(zip(given, prepared.outputs, strict=True)):
        what = f"{name}: out" if prepared.single else f"{name}: out[{position}]"
        try:
            array, _ = as_numpy(target)
        except CenoteError as error:
            raise ArgumentError(f"{what} {error}") from error
        if array.dtype != wanted.dtype:
            raise DTypeError(f"{what} must have type {wanted.dtype}, got {array.dtype}")
        if array.shape != wanted.shape:
            raise ArgumentError(f"{what} must have shape {list(wanted.shape)}, got {list(array.shape)}")
        if not array.flags.writeable:
            raise ArgumentError(f"{what} is read-only")
        if not array.flags.c_contiguous and _overlaps_itself(array):
            raise ArgumentError(f"{what}: its own elements overlap in memory (strides {list(array.strides)})")
        if any(_overlap(array, x) for x in (*inputs, *targets)):
            raise ArgumentError(
                f"{what} overlaps an input or another output in memory; give it memory of its own"
            )
        targets.append(array)
    return targets


def _overlaps_itself(array: Array) -> bool:
    """Whether the steps of some axis are shorter than what lies within one step.

    So it is when elements share memory. Of views without shared memory only those that weave their axes into each
    other (as_strided alone makes such) are taken for overlapping too.
    """
    within = array.itemsize
    axes = zip(map(abs, array.strides), array.shape, strict=True)
    for stride, extent in sorted(axis for axis in axes if axis[1] > 1):
        if stride < within:
            return array.size > 0
        within += stride * (extent - 1)
    return False


def _overlap(a: Array, b: Array) -> bool:
    """Whether two arrays share an element; True when that is too hard to tell."""
    try:
        return bool(np.shares_memory(a, b, max_work=100_000))  # type: ignore[arg-type]  # any limit is valid
    except np.exceptions.TooHardError:
        return True


def _fill(prepared: Prepared, arrays: Sequence[Array], targets: Sequence[Array]) -> None:
    """Run into the targets, through a copy where their memory is not row-major."""
    if not prepared.moved and all(y.flags.c_contiguous for y in targets):
        prepared(arrays, targets)
        return
    results = prepared(arrays, None)
    for target, y in zip(targets, (results,) if prepared.single else results, strict=True):
        target[...] = y
