"""Sequences of tensors and optionals (ONNX's SequenceConstruct, SplitToSequence, Optional and the others).

They compute nothing, and their values are no tensors (`core/containers.py`): all run on the host, between the stages
of a model.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from cenote.core.containers import content_of, items_of, packed
from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, DTypeError, InputError, ModelError, ShapeError
from cenote.core.types import Array, TensorType
from cenote.ops.base import Arrays, Op, Sample, ShapeFromData, Types
from cenote.ops.checks import normalize_axis, read
from cenote.ops.values import seeded


class _Container(Op):
    """Base of operators on sequences and optionals: the types of outputs depend on values that are no tensors."""

    apart = True

    def types(self, *inputs: TensorType | None, **unused: Any) -> Types:
        raise ShapeFromData(f"{self.name}: works on a sequence or an optional")


_THREE = (seeded((2, 3)), seeded((4, 3), 1), seeded((1, 3), 2))


@dataclass(frozen=True)
class SequenceConstruct(_Container):
    """A sequence of the inputs, which have one dtype."""

    name = "sequence_construct"
    operands = ("inputs*",)
    from_onnx = {"SequenceConstruct": lambda node: read(SequenceConstruct, node)}

    def compute(self, *inputs: Array) -> Arrays:
        _one_dtype(self.name, inputs)
        return (packed(inputs),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(cls(), _THREE)
        yield Sample(cls(), (seeded(()),))


@dataclass(frozen=True)
class SequenceEmpty(_Container):
    """A sequence without elements."""

    name = "sequence_empty"
    from_onnx = {"SequenceEmpty": lambda node: read(SequenceEmpty, node, ignored=("dtype",))}

    def compute(self) -> Arrays:
        return (packed(()),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(cls(), ())
        yield Sample(cls(), (), "again")


@dataclass(frozen=True)
class SequenceAt(_Container):
    """The tensor at a position; negative ones count from the end. Raises InputError outside of the sequence."""

    name = "sequence_at"
    operands = ("sequence", "position")
    from_onnx = {"SequenceAt": lambda node: read(SequenceAt, node)}

    def compute(self, sequence: Array, position: Array) -> Arrays:
        items = items_of(sequence, f"{self.name}: its first input")
        return (items[_position(self.name, position, len(items), 0)],)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(cls(), (packed(_THREE), np.array(2)))
        yield Sample(cls(), (packed(_THREE), np.array(-3, np.int32)))


@dataclass(frozen=True)
class SequenceInsert(_Container):
    """The sequence with a tensor put in before a position; at the end where there is none.

    Raises InputError for a position outside of [-n, n], DTypeError for another dtype than that of the elements.
    """

    name = "sequence_insert"
    operands = ("sequence", "tensor", "position?")
    from_onnx = {"SequenceInsert": lambda node: read(SequenceInsert, node)}

    def compute(self, sequence: Array, tensor: Array, position: Array | None) -> Arrays:
        items = items_of(sequence, f"{self.name}: its first input")
        _one_dtype(self.name, (*items[:1], tensor))
        at = len(items) if position is None else _position(self.name, position, len(items), 1)
        return (packed((*items[:at], tensor, *items[at:])),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(cls(), (packed(_THREE), seeded((5,)), np.array(1)))
        yield Sample(cls(), (packed(()), seeded((5,)), None))


@dataclass(frozen=True)
class SequenceErase(_Container):
    """The sequence without the tensor at a position (the last where none is given). Raises InputError outside."""

    name = "sequence_erase"
    operands = ("sequence", "position?")
    from_onnx = {"SequenceErase": lambda node: read(SequenceErase, node)}

    def compute(self, sequence: Array, position: Array | None) -> Arrays:
        items = items_of(sequence, f"{self.name}: its first input")
        at = _position(self.name, np.array(-1) if position is None else position, len(items), 0)
        return (packed(items[:at] + items[at + 1 :]),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(cls(), (packed(_THREE), np.array(0)))
        yield Sample(cls(), (packed(_THREE), None))


@dataclass(frozen=True)
class SequenceLength(_Container):
    """Number of tensors in a sequence, an int64 scalar."""

    name = "sequence_length"
    operands = ("sequence",)
    from_onnx = {"SequenceLength": lambda node: read(SequenceLength, node)}

    def compute(self, sequence: Array) -> Arrays:
        return (np.array(len(items_of(sequence, f"{self.name}: its input")), np.int64),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(cls(), (packed(_THREE),))
        yield Sample(cls(), (packed(()),))


@dataclass(frozen=True)
class SplitToSequence(_Container):
    """A tensor cut along an axis into a sequence: into parts of 1 (without the axis unless `keep_dims`), of so many
    each (a scalar `split`; the last may be smaller), or of these sizes (a list).

    Raises ShapeError where sizes do not add up to the axis.
    """

    axis: int = 0
    keep_dims: bool = True

    name = "split_to_sequence"
    operands = ("x", "split?")
    from_onnx = {"SplitToSequence": lambda node: read(SplitToSequence, node, "axis", keep_dims="keepdims")}

    def compute(self, x: Array, split: Array | None) -> Arrays:
        axis = normalize_axis(self.name, self.axis, x.ndim)
        extent = x.shape[axis]
        if split is None:
            parts = [np.take(x, [i] if self.keep_dims else i, axis) for i in range(extent)]
            return (packed(tuple(np.ascontiguousarray(part).reshape(part.shape) for part in parts)),)
        if split.ndim == 0 and split.item() < 1:
            raise ArgumentError(f"{self.name}: parts of {split.item()} elements are not possible")
        if split.ndim == 0:
            sizes = [min(int(split), extent - begin) for begin in range(0, extent, int(split))]
        else:
            sizes = [int(size) for size in split]
        if sum(sizes) != extent or any(size < 0 for size in sizes):
            raise ShapeError(f"{self.name}: parts of {sizes} do not make up axis {axis} of {list(x.shape)}")
        ends = np.cumsum(sizes)[:-1]
        return (packed(tuple(np.ascontiguousarray(part) for part in np.split(x, ends, axis))),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(cls(1), (seeded((2, 6)), np.array(4)))
        yield Sample(cls(-1, keep_dims=False), (seeded((2, 6)), None))
        yield Sample(cls(), (seeded((5, 2)), np.array([2, 0, 3])))


@dataclass(frozen=True)
class ConcatFromSequence(_Container):
    """The tensors of a sequence along an axis: one that they have, or (`new_axis`) a new one."""

    axis: int
    new_axis: bool = False

    name = "concat_from_sequence"
    operands = ("sequence",)
    from_onnx = {
        "ConcatFromSequence": lambda node: read(ConcatFromSequence, node, "axis", new_axis="new_axis")
    }

    def compute(self, sequence: Array) -> Arrays:
        items = items_of(sequence, f"{self.name}: its input")
        if not items:
            raise InputError(f"{self.name}: the sequence has no elements, so the result has no shape")
        shapes = ", ".join(str(list(item.shape)) for item in items[:4])
        axis = normalize_axis(self.name, self.axis, items[0].ndim + self.new_axis)
        try:
            return (np.stack(items, axis) if self.new_axis else np.concatenate(items, axis),)
        except ValueError:
            raise ShapeError(f"{self.name}: shapes {shapes} do not fit along axis {self.axis}") from None

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(cls(0), (packed(_THREE),))
        yield Sample(cls(-1, new_axis=True), (packed(_THREE[:1] * 3),))


@dataclass(frozen=True)
class Optional(_Container):
    """Optional that holds the input; an empty optional without an input."""

    name = "optional"
    operands = ("x?",)
    from_onnx = {"Optional": lambda node: read(Optional, node, ignored=("type",))}

    def compute(self, x: Array | None) -> Arrays:
        return (packed(None) if x is None else packed(content_of(x)),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(cls(), (seeded((2, 3)),))
        yield Sample(cls(), (None,))


@dataclass(frozen=True)
class OptionalGetElement(_Container):
    """Content of an optional, a tensor or a sequence; an input that is no optional is returned as it is.

    Raises InputError for an empty optional.
    """

    name = "optional_get_element"
    operands = ("x",)
    from_onnx = {"OptionalGetElement": lambda node: read(OptionalGetElement, node)}

    def compute(self, x: Array) -> Arrays:
        content = content_of(x)
        if content is None:
            raise InputError(f"{self.name}: the optional holds nothing; ask with OptionalHasElement first")
        return (packed(content) if isinstance(content, tuple) else content,)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(cls(), (packed(seeded((2, 3))),))
        yield Sample(cls(), (packed(_THREE),))


@dataclass(frozen=True)
class OptionalHasElement(_Container):
    """Whether an optional holds anything, a bool scalar; a tensor or a sequence does, what is absent does not."""

    name = "optional_has_element"
    operands = ("x?",)
    from_onnx = {"OptionalHasElement": lambda node: read(OptionalHasElement, node)}

    def compute(self, x: Array | None) -> Arrays:
        return (np.array(x is not None and content_of(x) is not None),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(cls(), (packed(None),))
        yield Sample(cls(), (seeded((2, 3)),))


def _one_dtype(name: str, items: tuple[Array, ...]) -> None:
    dtypes = {str(item.dtype) for item in items}
    if len(dtypes) > 1:
        raise DTypeError(f"{name}: elements of one sequence have one dtype, got {', '.join(sorted(dtypes))}")


def _position(name: str, position: Array, count: int, beyond: int) -> int:
    """A position from 0 on; `beyond`: one behind the last element counts too."""
    if position.size != 1 or position.dtype.kind not in "iu":
        raise ModelError(f"{name}: the position must be one integer, got {TensorType.known(position)}")
    at = int(position.reshape(())[()])
    if not -count <= at < count + beyond:
        raise InputError(f"{name}: position {at} is outside of a sequence of {count}")
    return at + count if at < 0 else at
