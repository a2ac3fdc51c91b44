"""Kernel calls of a node in terms of its operands: equal nodes share them, wherever their operands lie.

A lowering's `bind` reads the types, layouts and strides of its operands, which of them share a place, and whether that
is the caller's memory, but no address. So it is called with operands that each lie at 0 of a memory of their own, and
its result serves all nodes with this lowering and such operands. Large models have thousands of nodes, but few that
differ in this.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from operator import is_not
from typing import Any

from cenote.compiler.barriers import Work
from cenote.compiler.constants import Weights
from cenote.compiler.work import Bytes, works_of
from cenote.core.computed import ComputedArray, SizedArray
from cenote.core.deferred import dataclass
from cenote.core.sizes import Size
from cenote.core.trace import Trace
from cenote.core.types import PLAIN, TensorType, dtype_name
from cenote.graph.graph import Graph, Node
from cenote.kernels.base import Argument, Call, View, word_of
from cenote.kernels.launch import with_constants
from cenote.kernels.layout.reorder import zero_halo_call
from cenote.ops.base import Bind
from cenote.runtime.steps import Slot, SlotKind


@dataclass(frozen=True)
class BoundCall:
    """Call whose addresses are in operands, by their numbers, and its work. `addresses` lists them: the position in
    `words`, the operand, and the distance in bytes from the operand's start."""

    call: Call
    work: Work
    words: tuple[int | Slot, ...]
    addresses: tuple[tuple[int, int, int], ...]

    @staticmethod
    def of(call: Call, work: Work) -> BoundCall:
        """Bind a call whose arguments are numbers and places."""
        words = tuple(word_of(argument) for argument in call.arguments)
        addresses = tuple(
            (position, word.index, word.offset)
            for position, word in enumerate(words)
            if isinstance(word, Slot) and word.is_operand
        )
        return BoundCall(call, work, words, addresses)

    def at(self, slots: Sequence[Slot]) -> tuple[int | Slot, ...]:
        """Return the words for operands that lie in these slots."""
        words = list(self.words)
        for position, operand, offset in self.addresses:
            slot = slots[operand]
            moved = type(offset) is not int or offset
            words[position] = Slot(slot.kind, slot.index, slot.offset + offset) if moved else slot
        return tuple(words)


@dataclass(frozen=True)
class _Operand:
    """Operand of a lowering. `like` is equal for operands that differ only in their place, `place` for those at the
    same place."""

    like: int
    place: Hashable
    slot: Slot
    view: View
    content: Any


class Binder:
    """Binder of lowerings, which keeps each result until the last node with that lowering has been bound."""

    def __init__(
        self,
        graph: Graph,
        views: Mapping[str, View],
        weights: Weights,
        binds: Sequence[Bind | None],
        trace: Trace | None,
    ) -> None:
        self.graph, self.views, self.weights, self.trace = graph, views, weights, trace
        self._operands: dict[str, _Operand] = {}
        self._left = Counter(map(id, binds))  # nodes to come, by the id of their bind function
        self._known: dict[int, dict[Hashable, tuple[BoundCall, ...]]] = {}
        self._halos: dict[Hashable, BoundCall] = {}
        # Numbers of the kinds of operands: by their keys, and by the ids of a view's parts, which stay alive.
        self._kinds: dict[Hashable, int] = {}
        self._kind_of: dict[tuple[int, ...], int] = {}

    def bind(
        self, node: Node, bind: Bind, temporaries: Sequence[View]
    ) -> tuple[tuple[BoundCall, ...], list[Slot]]:
        """Return the calls of a node, and the slots of its operands: its inputs, its present outputs, and the
        temporaries."""
        operands = [self._operand(name) for name in node.inputs]
        operands += [self._operand(name) for name in node.outputs if name]
        operands += [self._new(view, view.slot, None) for view in temporaries]
        first: dict[Hashable, int] = {}
        numbers = [first.setdefault(each.place, number) for number, each in enumerate(operands)]
        key = (*numbers, *(each.like for each in operands))
        known = self._known.setdefault(id(bind), {})
        if key not in known:
            known[key] = self._bound(node, bind, operands, numbers)
        self._left[id(bind)] -= 1
        if self._left[id(bind)] <= 0:  # from now on another function may have this id
            del self._known[id(bind)]
        return known[key], [each.slot for each in operands]

    def zero_halo(self, root: str) -> tuple[Call, tuple[int | Slot, ...]]:
        """Return the call that zeroes the halo of a buffer, and its words."""
        operand = self._operand(root)
        if operand.like not in self._halos:
            view = replace(operand.view, slot=Slot(SlotKind.OPERAND, 0))
            self._halos[operand.like] = BoundCall.of(zero_halo_call(view), Work())
        halo = self._halos[operand.like]
        return halo.call, halo.at((operand.slot,))

    def _operand(self, name: str) -> _Operand:
        if not name:
            return _ABSENT
        content = self.weights.arrays.get(name)
        operand = self._operands.get(name)
        if operand is None or operand.content is not content:
            view = self.views[name]
            slot = (
                self.weights.kept(view.slot)
                if view.slot.kind is SlotKind.CONSTANT and content is None
                else view.slot
            )
            operand = self._operands[name] = self._new(view, slot, content)
        return operand

    def _new(self, view: View, slot: Slot, content: object) -> _Operand:
        """Return the operand of a view, whose memory is a slot."""
        ids = id(view.type), id(view.layout), id(view.strides), id(content), view.slot.is_callers
        like = self._kind_of.get(ids)
        if like is None:
            like = self._kinds.setdefault(_kind(view, content), len(self._kinds))
            self._kind_of[ids] = like
        offset = slot.offset.terms if isinstance(slot.offset, Size) else slot.offset
        return _Operand(like, (slot.kind, slot.index, offset), slot, view, content)

    def _bound(
        self, node: Node, bind: Bind, operands: Sequence[_Operand], numbers: Sequence[int]
    ) -> tuple[BoundCall, ...]:
        views = [self._view(operand, number) for operand, number in zip(operands, numbers, strict=True)]
        split = len(node.inputs)
        calls = list(bind(views[:split], [view for view in views[split:] if view is not None]))
        works = self._works(node, calls, views)
        return tuple(BoundCall.of(self._kept(call), work) for call, work in zip(calls, works, strict=True))

    def _view(self, operand: _Operand, number: int) -> View | None:
        """Return the view of an operand at 0 of its own memory; of a constant its content, in its own place."""
        if operand is _ABSENT:
            return None
        view, content = operand.view, operand.content
        if isinstance(content, SizedArray):
            return View(view.type, view.layout, view.strides, self.weights.table(content.table()))
        if content is not None:
            return View(TensorType.known(content), view.layout, view.strides, view.slot)
        kind = SlotKind.CALLERS_OPERAND if view.slot.is_callers else SlotKind.OPERAND
        return View(view.type, view.layout, view.strides, Slot(kind, number))

    def _works(self, node: Node, calls: Sequence[Call], views: Sequence[View | None]) -> list[Work]:
        """Return the work of the calls of a node. Comparisons of sizes for it do not restrict the plan."""
        inputs, split = Bytes(), len(node.inputs)
        for name, view in dict(zip(node.inputs, views, strict=False)).items():
            if view is not None:
                slot = self.views[name].slot if name in self.weights.arrays else view.slot
                inputs.add(slot, view.type.nbytes)
        outputs, temporaries = Bytes(), Bytes()
        results = [name for name in node.outputs if name]
        for number, view in enumerate(views[split:]):
            assert view is not None
            (outputs if number < len(results) else temporaries).add(view.slot, view.type.nbytes)
        with contextlib.nullcontext() if self.trace is None else self.trace.apart():
            types = [self.graph.types[name] for name in results]
            return works_of(node.op, self.graph.input_types(node), types, calls, inputs, outputs, temporaries)

    def _kept(self, call: Call) -> Call:
        """Move arrays into the program's constants at once, so that their sources can be freed."""

        def placed(argument: Argument) -> Argument:
            if isinstance(argument, ComputedArray):
                return View(TensorType.of(argument.value.dtype, ()), PLAIN, (), self.weights.table(argument))
            if not isinstance(argument, View) or argument.slot.kind is not SlotKind.CONSTANT:
                return argument
            return replace(argument, slot=self.weights.kept(argument.slot))

        arguments = [placed(argument) for argument in call.arguments]
        if any(map(is_not, arguments, call.arguments)):
            call = replace(call, arguments=tuple(arguments))
        return with_constants(call, self.weights.constants.add, self.weights.constants.add_packed)


def _kind(view: View, content: Any) -> Hashable:
    """Return a key that is equal for operands that differ only in their place."""
    type = view.type
    return (
        type.dtype,
        dtype_name(type.dtype),
        _fixed(type.shape),
        view.layout.lanes,
        *map(_fixed, view.layout.halo),
        _fixed(view.strides),
        view.slot.is_callers,
        id(content),
    )


def _fixed(numbers: Sequence[int]) -> tuple[Hashable, ...]:
    """Return numbers that may be Sizes in a form whose comparison does not restrict the plan."""
    return tuple([number.terms if isinstance(number, Size) else number for number in numbers])


_NOWHERE = Slot(SlotKind.NOWHERE, 0)
_ABSENT = _Operand(-1, None, _NOWHERE, View(TensorType.of("float32", ()), PLAIN, (), _NOWHERE), None)
