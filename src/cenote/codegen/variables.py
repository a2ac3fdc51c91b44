"""Mutable state of generated code: values and addresses in stack slots, which LLVM's SROA pass turns into registers."""

from __future__ import annotations

from typing import Protocol

from cenote.codegen.values import I64, Emitter, Pointer, Value


class SlotEmitter(Emitter, Protocol):
    """Protocol of the kernel that variables belong to."""

    def line(self, text: str) -> None: ...

    def stack_slot(self, ir: str) -> str: ...


class Variable:
    """A value that changes while generated code runs (an accumulator)."""

    def __init__(self, kernel: SlotEmitter, initial: Value) -> None:
        self.kernel, self.type, self.lanes = kernel, initial.type, initial.lanes
        self.slot = kernel.stack_slot(initial.ir)
        self.value = initial

    @property
    def value(self) -> Value:
        return self.kernel.assign(
            f"load {self.type.vector(self.lanes)}, ptr {self.slot}", self.type, self.lanes
        )

    @value.setter
    def value(self, new: Value) -> None:
        self.kernel.line(f"store {new.ir} {new.text}, ptr {self.slot}")


class Cursor:
    """Address that generated code moves: places at constant distances from it are reached without arithmetic."""

    def __init__(self, kernel: SlotEmitter, start: Pointer) -> None:
        self.kernel, self.element = kernel, start.element
        self.slot = kernel.stack_slot("ptr")
        self.put(start)

    @property
    def at(self) -> Pointer:
        """Present address."""
        return Pointer(
            self.kernel, self.element, self.kernel.assign(f"load ptr, ptr {self.slot}", I64, 1).text
        )

    def move(self, elements: Value | int) -> None:
        """Move by so many elements; the address may leave its memory, but nothing may be read or written there."""
        self.put(self.at.offset_unchecked(elements))

    def put(self, place: Pointer) -> None:
        """Set another address."""
        self.kernel.line(f"store ptr {place.text}, ptr {self.slot}")
