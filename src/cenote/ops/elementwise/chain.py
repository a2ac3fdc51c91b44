"""Elementwise operators as one: made of neighbours by the pass `passes/chains.py`, and by functions on arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ShapeError
from cenote.core.target import Target
from cenote.core.types import BFLOAT16, Array, TensorType
from cenote.kernels.base import present
from cenote.kernels.elementwise.expression import Expression, Step
from cenote.ops.base import Arrays, Lowering, Sample, Types
from cenote.ops.elementwise.activation import Clip, Sigmoid
from cenote.ops.elementwise.binary import MOST_OPERANDS, Add, Div, Mul, Sub
from cenote.ops.elementwise.cast import Cast
from cenote.ops.elementwise.compare import Compare, Not
from cenote.ops.elementwise.pointwise import Function, Pointwise, pointwise_lowerings
from cenote.ops.elementwise.where import Where
from cenote.ops.quantization.byte_sum import byte_sum, bytes_of
from cenote.ops.quantization.quantize import DequantizeLinear, QuantizeLinear
from cenote.ops.values import hostile, seeded

T = TypeVar("T")
MOST_STEPS = 32  # of one kernel: more would not leave memory any less to do, and take long to compile
ABSENT = -1


@dataclass(frozen=True)
class Link:
    """An elementwise operator of a chain. Its operands are inputs of the chain, from 0 on, then its scalars, then the
    links before it, numbered through; `ABSENT` for an optional one that is not there."""

    op: Pointwise
    operands: tuple[int, ...]


@dataclass(frozen=True)
class Chain(Pointwise):
    """The last of `links`, each applied to some of the `count` inputs, the `scalars` and earlier links. The result has
    the bits that the operators give one after another: every link rounds to its own type."""

    count: int
    links: tuple[Link, ...]
    scalars: tuple[tuple[float | int, np.dtype[Any]], ...] = ()

    name = "chain"
    operands = ("x*",)

    def types(self, *inputs: TensorType | None) -> Types:
        if len(inputs) != self.count:
            raise ShapeError(f"{self.name}: takes {self.count} inputs, got {len(inputs)}")
        return (self._along([present(x) for x in inputs])[-1],)

    def constants(self) -> list[Array]:
        """The scalars as arrays without axes; those beyond a float type are infinite there."""
        with np.errstate(over="ignore"):
            return [np.asarray(value).astype(dtype) for value, dtype in self.scalars]

    def _along(self, inputs: list[TensorType]) -> list[TensorType]:
        """The types of the inputs, scalars and all links."""
        types = [*inputs, *map(TensorType.known, self.constants())]
        for link in self.links:
            types += link.op.infer(*_chosen(types, link))
        return types

    def compute(self, *inputs: Array | None) -> Arrays:
        values = [*map(present, inputs), *self.constants()]
        for link in self.links:
            values += link.op.reference(*_chosen(values, link))
        return (values[-1],)

    def function(self, inputs: Sequence[TensorType | None]) -> Function | None:
        given = [present(x) for x in inputs]
        types = self._along(given)
        first = len(given) + len(self.scalars)
        places = _Places(first)
        tolerance, weight, exact = 0.0, 0, True
        for number, link in enumerate(self.links):
            made = link.op.function(_chosen(types, link))
            if made is None or not made.allowed(_chosen(types, link)):
                return None
            operands = [link.operands[index] for index in made.operands]
            places.add(made.as_expression(types[first + number]), operands)
            # What later links do to an error is not known; sums of a few like terms double it.
            tolerance, weight, exact = (
                tolerance + 4 * made.tolerance,
                weight + made.weight,
                exact and made.exact,
            )
        if len(places.inputs) > MOST_OPERANDS or len(places.steps) > MOST_STEPS:
            return None
        return Function(places.expression(), (), tuple(places.inputs), tolerance, weight, exact)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        function = self.function(inputs)
        if function is None:
            return
        (output,) = self.infer(*inputs)
        yield from pointwise_lowerings(function, inputs, output, target, self.constants())
        shorter = self._of_two_bytes(inputs, output) if target.has_fma else None
        if shorter is not None:
            first, second, made, scalars = shorter
            places = {0: first, 1: second} | {2 + n: len(inputs) + n for n in range(len(scalars))}
            moved = replace(made, operands=tuple(places[i] for i in made.operands))
            for each in pointwise_lowerings(moved, inputs, output, target, scalars):
                yield replace(each, name=each.name.replace("elementwise", "byte_sum"))

    def _of_two_bytes(
        self, inputs: Sequence[TensorType | None], output: TensorType
    ) -> tuple[int, int, Function, list[Array]] | None:
        """The sum of two tensors of bytes, which are dequantised, added and quantised: their places, and the function
        of both that has the same results; None where the chain is something else."""
        given = [present(x) for x in inputs]
        varying = [place for place, x in enumerate(given) if x.value is None]
        bytes_ = (*(given[place].dtype for place in varying), output.dtype)
        if len(varying) != 2 or any(kind.name not in ("int8", "uint8") for kind in bytes_):
            return None
        if any(x.value is not None and x.size != 1 for x in given):
            return None
        known = [None if x.value is None else x.value.reshape(()) for x in given] + self.constants()
        parts = _of_sum(self.links, varying, known)
        if parts is None:
            return None
        scales, zeros = parts
        values = tuple(None if x is None else x.item() for x in known[: len(given)])
        table = _of_all_pairs(self, tuple(x.dtype for x in given), values)
        made = byte_sum(table, bytes_[:2], scales, zeros)
        first, second = varying
        return None if made is None else (first, second, *made)

    def operations(self, outputs: Types, *inputs: TensorType | None) -> int:
        return outputs[0].size * sum(link.op.weight for link in self.links)

    def __str__(self) -> str:
        return f"chain({', '.join(str(link.op) for link in self.links)})"

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield from _samples()


@lru_cache(64)  # they take 5 ms, and algorithms are listed several times in a load
def _of_all_pairs(
    chain: Chain, dtypes: tuple[np.dtype[Any], ...], values: tuple[float | int | None, ...]
) -> Array:
    """The results (256, 256) of a chain for all values of the two inputs of one byte that have no value here."""
    shapes = iter(((256, 1), (1, 256)))
    operands = [
        bytes_of(dtype).reshape(next(shapes)) if value is None else np.array(value, dtype)
        for dtype, value in zip(dtypes, values, strict=True)
    ]
    (table,) = chain.compute(*operands)
    return table


def _of_sum(
    links: Sequence[Link], varying: Sequence[int], known: Sequence[Array | None]
) -> tuple[tuple[float, float], tuple[int, int, int]] | None:
    """The scales of two inputs relative to that of the sum, and the zero points of all, of a chain of two
    dequantisations, one addition (and whatever else) and a quantisation at the end; None for another chain."""
    last, adds = links[-1], sum(isinstance(link.op, Add) for link in links)
    ends = {link.operands[0]: link for link in links if isinstance(link.op, DequantizeLinear)}
    if not isinstance(last.op, QuantizeLinear) or adds != 1 or sorted(ends) != sorted(varying):
        return None

    def numbers(link: Link) -> tuple[float, int] | None:
        scale = known[link.operands[1]] if 0 <= link.operands[1] < len(known) else None
        place = link.operands[2] if len(link.operands) > 2 else ABSENT
        zero = np.zeros(()) if place == ABSENT else known[place] if place < len(known) else None
        return None if scale is None or zero is None else (float(scale), int(zero))

    found = [numbers(link) for link in (*(ends[place] for place in varying), last)]
    if any(each is None or not 0 < each[0] < np.inf for each in found):
        return None
    (a, first), (b, second), (total, zero) = (each for each in found if each is not None)
    return (a / total, b / total), (first, second, zero)


class _Places:
    """An expression being put together: which inputs it uses, and where each input and link is among its values. Until
    all are known, inputs have their own numbers and steps negative ones."""

    def __init__(self, given: int) -> None:
        self.given = given
        self.inputs: list[int] = []
        self.steps: list[Step] = []
        self.links: list[int] = []  # the step that each link ends with

    def add(self, expression: Expression, operands: list[int]) -> None:
        first = len(self.steps)
        for place in operands:
            if place < self.given and place not in self.inputs:
                self.inputs.append(place)
        for step in expression.steps:
            moved = tuple(
                -1 - (first + index - expression.inputs)
                if index >= expression.inputs
                else self._place(operands[index])
                for index in step.operands
            )
            self.steps.append(replace(step, operands=moved))
        self.links.append(len(self.steps) - 1)

    def _place(self, place: int) -> int:
        return place if place < self.given else -1 - self.links[place - self.given]

    def expression(self) -> Expression:
        count = len(self.inputs)
        steps = [
            replace(
                step,
                operands=tuple(count - 1 - i if i < 0 else self.inputs.index(i) for i in step.operands),
            )
            for step in self.steps
        ]
        return Expression(count, tuple(steps))


def _chosen(values: Sequence[T], link: Link) -> list[T | None]:
    return [None if index == ABSENT else values[index] for index in link.operands]


class Named(NamedTuple):
    """An elementwise operator of a graph: the values that it reads ("" for an absent one) and the one that it makes."""

    op: Pointwise
    inputs: tuple[str, ...]
    output: str


def chain_of(links: Sequence[Named], inputs: Sequence[str]) -> Chain:
    """The chain of operators in their order, each of which reads some of the `inputs` and what those before it make."""
    places = {name: place for place, name in enumerate(inputs)}
    places |= {link.output: len(inputs) + number for number, link in enumerate(links)}
    return Chain(
        len(inputs),
        tuple(
            Link(link.op, tuple(places[name] if name else ABSENT for name in link.inputs)) for link in links
        ),
    )


def _samples() -> Iterator[Sample]:
    shape = (2, 9, 4, 5)
    x, y, row = seeded(shape, 1), seeded(shape, 2), seeded((9, 1, 1), 3)
    affine = Chain(3, (Link(Mul(), (0, 1)), Link(Add(), (3, 2)), Link(Sigmoid(), (4,))))
    yield Sample(affine, (x, row, y), "scale, add, sigmoid")
    twice = Chain(2, (Link(Sub(), (0, 1)), Link(Mul(), (2, 2)), Link(Div(), (3, 0))))
    yield Sample(twice, (hostile(shape, seed=4), row), "a link used twice")
    chosen = Chain(3, (Link(Compare("greater"), (0, 1)), Link(Not(), (3,)), Link(Where(), (4, 0, 2))))
    yield Sample(chosen, (x, row, y), "compare, not, where")
    yield Sample(
        chosen, tuple(seeded(s, n, np.int64) for n, s in enumerate((shape, (5,), ()))), "of integers"
    )
    for dtype in (np.float16, BFLOAT16, np.float64):
        half = np.dtype(dtype)
        yield Sample(affine, (seeded(shape, 1, half), seeded((), 2, half), seeded((5,), 3, half)))
    mixed = Chain(
        2, (Link(Cast(np.dtype(np.float32)), (0,)), Link(Mul(), (2, 1)), Link(Cast(np.dtype(np.uint8)), (3,)))
    )
    yield Sample(mixed, (seeded((3, 65), 1, np.uint8), seeded((65,), 2)), "there and back")
    scaled = Chain(1, (Link(Mul(), (0, 1)), Link(Add(), (3, 2))), ((1.5, x.dtype), (-2, x.dtype)))
    yield Sample(scaled, (x,), "scalars")
    held = Chain(2, (Link(Clip(), (0, ABSENT, 1)), Link(Cast(np.dtype(np.bool_)), (2,))))
    yield Sample(held, (x, np.asarray(np.float32(0.0))), "absent bound")
