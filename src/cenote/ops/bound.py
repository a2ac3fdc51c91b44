"""Operators some of whose inputs are known constants or absent: functions on arrays hand over the data alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from cenote.core.target import Target
from cenote.core.types import Array, TensorType
from cenote.kernels.base import Call, View
from cenote.ops.base import Arrays, Bind, Lowering, Op, Types


class BoundOperator(Op):
    """`op` with constants (None: absent) at some of its inputs; the inputs left are numbered on."""

    def __init__(self, op: Op, constants: Mapping[int, Array | None]) -> None:
        self.op, self.constants, self.name = op, constants, op.name  # type: ignore[misc]  # of the class elsewhere

    def _all(self, inputs: Sequence[TensorType | None]) -> list[TensorType | None]:
        given, count = iter(inputs), len(inputs) + len(self.constants)
        known = {i: None if value is None else TensorType.known(value) for i, value in self.constants.items()}
        return [known[i] if i in known else next(given) for i in range(count)]

    def names(self, given: Sequence[str]) -> tuple[str, ...]:
        """Names for the inputs of `op`, those left over being `given`: a constant's is that of its place."""
        free, count = iter(given), len(given) + len(self.constants)
        spelt = {i: "" if value is None else f"constant{i}" for i, value in self.constants.items()}
        return tuple(spelt[i] if i in spelt else next(free) for i in range(count))

    def infer(self, *inputs: TensorType | None) -> Types:
        return self.op.infer(*self._all(inputs))

    def reference(self, *inputs: Array | None) -> Arrays:
        given, count = iter(inputs), len(inputs) + len(self.constants)
        return self.op.reference(
            *(self.constants[i] if i in self.constants else next(given) for i in range(count))
        )

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        count = len(inputs) + len(self.constants)
        free = [index for index in range(count) if index not in self.constants]
        for option in self.op.lowerings(self._all(inputs), target):
            if any(option.inputs[index] is not None for index in self.constants):
                continue
            yield replace(
                option,
                inputs=tuple(option.inputs[index] for index in free),
                bind=self._bind(option, free),
                in_place=(),
            )

    def _bind(self, option: Lowering, free: Sequence[int]) -> Bind:
        def bind(views: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
            whole: list[View | None] = [None] * (len(free) + len(self.constants))
            for index, view in zip(free, views, strict=True):
                whole[index] = view
            return option.bind(whole, outputs)

        return bind
