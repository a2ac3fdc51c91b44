"""Parts that operators with indices share: the meaning of an index, the error for a bad one, and the lowerings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod

import numpy as np

from cenote.core.computed import SizedArray
from cenote.core.deferred import dataclass
from cenote.core.errors import InputError
from cenote.core.sizes import is_size
from cenote.core.target import Target
from cenote.core.types import INT64, PLAIN, Array, TensorType
from cenote.kernels.base import Call, View, present
from cenote.kernels.cost_model import PLACED_VALUE, pass_seconds
from cenote.kernels.layout.copy import can_copy, copy_call
from cenote.kernels.selection.elements import (
    Owned,
    gather_elements_call,
    item_rows,
    scatter_elements_call,
    scatter_items,
    scatter_rows_call,
)
from cenote.kernels.selection.gather import Rows, gather_call
from cenote.kernels.selection.indices import MODES, WORDS, IndexRule
from cenote.ops.base import Check, Lowering
from cenote.ops.checks import one_of

# Largest error of sums at places that many updates hit, relative to the largest output: each is rounded to the type.
SUM_TOLERANCES = {"float64": 1e-13, "float32": 2e-6, "float16": 5e-3, "bfloat16": 4e-2}


def rule_of(op: str, invalid: str, negative: bool) -> IndexRule:
    """The rule of two attributes. Raises ArgumentError for a word that is not known."""
    return IndexRule(one_of(op, "invalid", invalid, MODES), negative)


def out_of_range(op: str, value: int, where: object, extent: int, negative: bool) -> InputError:
    """The error for the first bad index."""
    allowed = f"{-extent if negative else 0} to {extent - 1}" if extent else "none"
    return InputError(f"{op}: index {value} at {where} is outside an axis of {extent} (allowed: {allowed})")


def places_of(
    op: str, indices: Array, extent: int, rule: IndexRule, where: Callable[[int], object] | None = None
) -> tuple[Array, Array]:
    """The places that indices mean, and which of them there are (others are 0), as the kernels have it.

    `where` names the index of a number in row-major order. Raises InputError for the first that there is not.
    """
    given = indices.astype(np.int64)
    if rule.mode == "clip":
        place = np.clip(given, 0, extent - 1)
    elif rule.mode == "wrap":
        place = given % max(extent, 1)
    else:
        place = np.where(given < 0, given + extent, given) if rule.negative else given
    valid = np.asarray((place >= 0) & (place < extent))
    if rule.mode != "zero" and not valid.all():
        number = int(np.argmin(valid))
        at = [int(i) for i in np.unravel_index(number, indices.shape)] if where is None else where(number)
        raise out_of_range(op, int(given.reshape(-1)[number]), at, extent, rule.negative)
    return np.where(valid, place, 0), valid


@dataclass(frozen=True)
class IndexCheck(Check):
    """Error that names the first bad index. `shape` is that of the indices, () where it differs between runs."""

    op: str
    shape: tuple[int, ...]

    def raise_if_wrong(self, found: Array) -> None:
        rows = found[found[:, 0] != 0]
        number, value, extent, negative = (int(word) for word in rows[np.argmin(rows[:, 0])])
        where: object = f"position {number - 1}"
        if self.shape:
            where = [int(i) for i in np.unravel_index(number - 1, self.shape)]
        raise out_of_range(self.op, value, where, extent, bool(negative))


def noted(
    op: str, indices: TensorType, items: int, extents: Sequence[int], rule: IndexRule
) -> tuple[TensorType, IndexCheck | None]:
    """Type of the findings of kernels with `items` items of work, and the step that checks them.

    The check is None where no index can be bad. `extents`: of the axes that the indices, or the coordinates in the
    last axis of the indices, point into.
    """
    found = TensorType(INT64, (items, WORDS))
    if rule.mode == "zero" or surely_valid(indices, extents, rule):
        return found, None
    shape = () if any(map(is_size, indices.shape)) else indices.shape
    return found, IndexCheck(op, shape)


def surely_valid(indices: TensorType, extents: Sequence[int], rule: IndexRule) -> bool:
    """Whether the indices are constants in range."""
    given = indices.value
    if given is None or isinstance(given, SizedArray) or any(map(is_size, extents)):
        return False
    if rule.mode != "raise":
        return all(extents)
    wide = given.astype(np.int64)
    limits = np.array(extents, np.int64) if len(extents) > 1 else extents[0]
    return bool(((wide >= (-limits if rule.negative else 0)) & (wide < limits)).all())


def gather_lowerings(
    op: str, x: TensorType, indices: TensorType, y: TensorType, rows: Rows, rule: IndexRule
) -> Iterator[Lowering]:
    """Yield the lowering of rows of x by index; none for types that kernels cannot copy, and without any index."""
    if not (can_copy(x.dtype) and y.size and x.rank and indices.size):
        return
    found, check = noted(op, indices, rows.items(x.dtype.itemsize), rows.extents, rule)

    seconds = pass_seconds(2 * y.nbytes + indices.nbytes) + rows.total * PLACED_VALUE
    call = partial(gather_call, rows=rows, rule=rule)
    yield Lowering.of_call("rows", (PLAIN, PLAIN), (PLAIN,), call, seconds, 0.0, (found,), check=check)


def gather_elements_lowerings(
    op: str, x: TensorType, indices: TensorType, axis: int, rule: IndexRule
) -> Iterator[Lowering]:
    """Yield the lowering of one element of x per index."""
    if not (can_copy(x.dtype) and indices.size and indices.rank):
        return
    found, check = noted(
        op, indices, -(-prod(indices.shape[:-1]) // item_rows(indices.shape)), x.shape[axis : axis + 1], rule
    )

    seconds = pass_seconds(indices.nbytes) + indices.size * PLACED_VALUE
    call = partial(gather_elements_call, axis=axis, rule=rule)
    yield Lowering.of_call("elements", (PLAIN, PLAIN), (PLAIN,), call, seconds, 0.0, (found,), check=check)


def scatter_lowerings(
    op: str,
    inputs: Sequence[TensorType | None],
    axis: int | None,
    reduction: str,
    rule: IndexRule,
    target: Target,
) -> Iterator[Lowering]:
    """Yield the lowering of a copy of input 0 with updates (2) at the indices (1): elements along an axis or slices."""
    x, indices, updates = (present(kind) for kind in inputs)
    if not (can_copy(x.dtype) and updates.size and indices.size and x.rank):
        return
    if reduction != "none" and x.dtype.kind == "c":
        return
    inner = 1 if axis is not None else prod(x.shape[indices.shape[-1] :])
    items = scatter_items(inner)[0] if axis is None else elements_items(x, indices, axis)
    extents = x.shape[: indices.shape[-1]] if axis is None else x.shape[axis : axis + 1]
    found, check = noted(op, indices, items, extents, rule)

    def bind(views: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
        data, index, values = (present(view) for view in views)
        y, notes = outputs
        copies = [] if data.slot == y.slot else [copy_call(data, y, target)]
        if axis is None:
            count = prod(index.shape[:-1])
            return [*copies, scatter_rows_call(index, values, y, notes, count, inner, reduction, rule)]
        return [*copies, scatter_elements_call(index, values, y, notes, axis, reduction, rule)]

    seconds = pass_seconds(2 * x.nbytes + updates.nbytes) + updates.size * PLACED_VALUE
    tolerance = SUM_TOLERANCES.get(x.dtype.name, 0.0) if reduction in ("add", "mul") else 0.0
    yield Lowering(
        "scatter", (PLAIN,) * 3, (PLAIN,), bind, seconds, tolerance, (found,), in_place=(0,), check=check
    )


def elements_items(x: TensorType, indices: TensorType, axis: int) -> int:
    """Items of a scatter of elements: `Owned.items` before there is memory (no two axes are joined that then are
    not, so that their number is the same)."""
    last = indices.rank - 1
    kept = [extent for number, extent in enumerate(indices.shape) if number not in (axis, last)]
    columns = 1 if axis == last else indices.shape[last]
    return prod(kept) * Owned([], columns).items
