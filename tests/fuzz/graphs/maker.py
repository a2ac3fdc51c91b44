"""A random graph in the making: its leaves, its steps, and what each gives for given leaves."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from cenote.core.types import is_float
from tests.fuzz.graphs.values import (
    NEAR,
    Array,
    Dropped,
    Environment,
    Value,
    element_type,
    is_near,
    leaf,
    reference,
)

LARGEST = 1 << 19  # elements of a value
EXACT = "exact"  # correctly rounded: the same bits everywhere when what it reads is exact
SMOOTH = "smooth"  # nearly the same everywhere
JUMPS = "jumps"  # exact on exact values, anything on others


@dataclass(frozen=True)
class Leaf:
    """An input or a constant: elements of a style for any shape, or a known content."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    style: str
    seed: int
    is_input: bool
    content: Array | None = None

    def array(self, shape: Sequence[int]) -> Array:
        return leaf(self.dtype, shape, self.style, self.seed) if self.content is None else self.content


@dataclass(frozen=True)
class Step:
    """Nodes that are computed together: what they read from outside, what they make, and how exactly."""

    nodes: tuple[onnx.NodeProto, ...]
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    kind: str
    run: Callable[[Environment], None] | None = None  # of nodes that have graphs inside
    agreed: Callable[..., bool] | None = None  # for which inputs all engines mean the same

    def apply(self, values: Environment, opset: int) -> None:
        """Enter what it makes. Dropped where that is of no use."""
        if self.run is not None:
            self.run(values)
            return
        given = {name: values[name] for name in self.reads}
        exact = all(x.exact for x in given.values())
        if self.agreed is not None and not self.agreed(*(each.array for each in given.values())):
            raise Dropped("engines differ")
        if self.kind == JUMPS and not exact:
            raise Dropped("a jump on approximate values")
        made = reference(self.nodes, {name: x.array for name, x in given.items()}, self.makes, opset)
        wide: Sequence[Array | None] = [None] * len(made)
        if self.kind == SMOOTH or not exact:
            wide = reference(self.nodes, {n: x.widened() for n, x in given.items()}, self.makes, opset)
        for name, y, w in zip(self.makes, made, wide, strict=True):
            values[name] = _kept(y, w)


def _kept(y: Array, wide: Array | None) -> Value:
    if y.size > LARGEST:
        raise Dropped("too large")
    if wide is None:
        return Value(y)
    if not is_float(y.dtype):
        if not np.array_equal(y, wide):
            raise Dropped("float64 decides otherwise")
        return Value(y)
    wide = wide.astype(np.float64)
    if not is_near(y, wide, NEAR[y.dtype.itemsize]):
        raise Dropped("rounding errors")
    return Value(y, wide)


@dataclass
class Maker:
    """Steps on values, for the first sizes of the leaves. A child makes the steps of a branch or of a loop's body."""

    rng: random.Random
    opset: int
    leaves: list[Leaf] = field(default_factory=list)
    values: Environment = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    counter: Iterator[int] = field(default_factory=itertools.count)
    depth: int = 0

    def child(self, given: Mapping[str, Value] | None = None) -> Maker:
        values = {**self.values, **(given or {})}
        return Maker(self.rng, self.opset, self.leaves, values, [], self.counter, self.depth + 1)

    def name(self) -> str:
        return f"v{next(self.counter)}"

    # ---- values -----------------------------------------------------------------------------------------------

    def add_leaf(
        self, dtype: np.dtype[Any], shape: Sequence[int], style: str = "", constant: bool | None = None
    ) -> str:
        rng = self.rng
        style = style or rng.choice(("small", "small", "normal", "special", "edges", "positive"))
        constant = rng.random() < 0.3 if constant is None else constant
        return self._enter_leaf(
            Leaf(self.name(), np.dtype(dtype), tuple(shape), style, rng.getrandbits(32), not constant)
        )

    def constant(self, content: Any, dtype: Any = np.int64) -> str:
        """A constant of known content; now and then an input, which makes what it decides depend on data."""
        array = np.asarray(content, dtype)
        is_input = self.rng.random() < 0.1
        return self._enter_leaf(Leaf(self.name(), array.dtype, array.shape, "", 0, is_input, array))

    def _enter_leaf(self, made: Leaf) -> str:
        self.leaves.append(made)
        self.values[made.name] = Value(made.array(made.shape))
        return made.name

    def of(self, name: str) -> Array:
        return self.values[name].array

    def pick(
        self, types: Sequence[np.dtype[Any]], ranks: Sequence[int] = (), exact: bool = False, style: str = ""
    ) -> str:
        """A value of one of these types, mostly a late one; a new leaf where there is none."""
        fits = [
            name
            for name, x in self.values.items()
            if x.dtype in types and (not ranks or x.array.ndim in ranks) and (x.exact or not exact)
        ]
        if fits and not style and self.rng.random() < 0.93:
            return self.rng.choice(fits[-3:] if self.rng.random() < 0.7 else fits)
        shape = self.some_shape()
        if ranks and len(shape) not in ranks:
            rank = self.rng.choice(ranks)
            shape = (*[1] * rank, *shape)[-rank:] if rank else ()
        return self.add_leaf(self.rng.choice(types), shape, style)

    def some_shape(self) -> tuple[int, ...]:
        """That of a value there is, so that values meet."""
        shapes = [x.array.shape for x in self.values.values()]
        return self.rng.choice(shapes) if shapes else (2, 3)

    def partner(
        self, name: str, dtype: np.dtype[Any] | None = None, exact: bool = False, style: str = ""
    ) -> str:
        """A value that broadcasts with another: one there is or a new leaf."""
        shape, dtype = self.of(name).shape, dtype or self.of(name).dtype
        fits = [
            each
            for each, x in self.values.items()
            if x.dtype == dtype and (x.exact or not exact) and _broadcast(shape, x.array.shape)
        ]
        if fits and not style and self.rng.random() < 0.6:
            return self.rng.choice(fits[-4:])
        extents = [1 if self.rng.random() < 0.25 else extent for extent in shape]
        drop = self.rng.choice((0, 0, 0, 1, 2, len(extents)))
        return self.add_leaf(dtype, extents[drop:], style)

    # ---- nodes ------------------------------------------------------------------------------------------------

    def add(
        self,
        op: str,
        inputs: Sequence[str],
        kind: str = EXACT,
        count: int = 1,
        agreed: Callable[..., bool] | None = None,
        **attributes: Any,
    ) -> list[str]:
        """A step of one node. Raises Dropped and leaves all as it was where that is of no use."""
        makes = tuple(self.name() for _ in range(count))
        node = helper.make_node(op, list(inputs), list(makes), **attributes)
        reads = tuple(dict.fromkeys(name for name in inputs if name))
        return self.enter(Step((node,), reads, makes, kind, agreed=agreed))

    def enter(self, step: Step) -> list[str]:
        made = dict(self.values)
        step.apply(made, self.opset)
        self.values = made
        self.steps.append(step)
        return list(step.makes)

    def graph(
        self, name: str, inputs: Sequence[onnx.ValueInfoProto], outputs: Sequence[str]
    ) -> onnx.GraphProto:
        """Its steps as a graph inside of a node; constants belong to the outermost."""
        nodes = [node for step in self.steps for node in step.nodes]
        return helper.make_graph(nodes, name, list(inputs), [self.declared(each) for each in outputs])

    def declared(self, name: str, shaped: bool = False) -> onnx.ValueInfoProto:
        x = self.of(name)
        shape = x.shape if shaped else [None] * x.ndim
        return helper.make_tensor_value_info(name, element_type(x.dtype), shape)

    # ---- the whole --------------------------------------------------------------------------------------------

    def inputs(self) -> list[Leaf]:
        return [each for each in self.leaves if each.is_input]

    def model(self, outputs: Sequence[str], symbols: Mapping[int, str]) -> onnx.ModelProto:
        """Extents that have a symbol are left open."""
        inputs = [
            helper.make_tensor_value_info(
                each.name, element_type(each.dtype), [symbols.get(extent, extent) for extent in each.shape]
            )
            for each in self.inputs()
        ]
        constants = [
            numpy_helper.from_array(each.array(each.shape), each.name)
            for each in self.leaves
            if not each.is_input
        ]
        made = self.graph("random", inputs, outputs)
        made.initializer.extend(constants)
        return helper.make_model(made, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)

    def evaluate(self, given: Mapping[str, Array]) -> Environment:
        """All values for other leaves; those of steps that are of no use then, and what follows them, are missing."""
        values: Environment = {
            each.name: Value(given[each.name] if each.is_input else each.array(each.shape))
            for each in self.leaves
        }
        run_steps(self.steps, values, self.opset)
        return values


def is_finite(*arrays: Array) -> bool:
    """Whether none has NaN or infinities."""
    return all(bool(np.isfinite(x.astype(np.float64)).all()) for x in arrays)


def run_steps(steps: Sequence[Step], values: Environment, opset: int) -> None:
    """Enter what steps make, as far as that is of use."""
    for step in steps:
        if all(name in values for name in step.reads):
            try:
                step.apply(values, opset)
            except Dropped:
                continue


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        return len(np.broadcast_shapes(a, b)) <= 6
    except ValueError:
        return False
