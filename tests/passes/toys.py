"""Operators made for tests of graphs and passes, so that these do not depend on the real ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cenote.core.errors import ShapeError
from cenote.core.types import Array, Declared, TensorType
from cenote.graph.graph import Graph, Node
from cenote.ops.base import Arrays, Op, ShapeFromData, Types, ValueNeeded


@dataclass(frozen=True)
class Scale(Op):
    """x times a factor."""

    name = "scale"
    by: float = 1.0

    def infer(self, x):  # type: ignore[no-untyped-def]
        return (TensorType(x.dtype, x.shape),)

    def reference(self, x):  # type: ignore[no-untyped-def]
        return ((x * self.by).astype(x.dtype),)


@dataclass(frozen=True)
class Noise(Scale):
    """Not pure."""

    name = "noise"
    pure = False


@dataclass(frozen=True)
class Add(Op):
    """a + b; b is optional."""

    name = "add"

    def infer(self, a: TensorType, b: TensorType | None = None) -> Types:  # type: ignore[override]
        if b is not None and a.shape != b.shape and b.shape != ():
            raise ShapeError(f"add: {a} and {b} differ")
        return (TensorType(a.dtype, a.shape),)

    def reference(self, a: Array, b: Array | None = None) -> Arrays:  # type: ignore[override]
        return (a if b is None else a + b,)


@dataclass(frozen=True)
class Same(Op):
    """The input, and a mask of ones."""

    name = "same"
    view = True

    def infer(self, x):  # type: ignore[no-untyped-def]
        return TensorType(x.dtype, x.shape), TensorType.of(np.bool_, x.shape)

    def reference(self, x):  # type: ignore[no-untyped-def]
        return x, np.ones(x.shape, np.bool_)


@dataclass(frozen=True)
class Shape(Op):
    """The shape, known from the type."""

    name = "shape"

    def infer(self, x):  # type: ignore[no-untyped-def]
        return (TensorType.known(np.array(x.shape, np.int64)),)

    def reference(self, x):  # type: ignore[no-untyped-def]
        return (np.array(x.shape, np.int64),)


@dataclass(frozen=True)
class Reshape(Op):
    """To the shape in the second input."""

    name = "reshape"
    view = True

    def infer(self, x, shape):  # type: ignore[no-untyped-def]
        if shape.value is None:
            raise ValueNeeded(1)
        return (TensorType(x.dtype, tuple(int(extent) for extent in shape.value)),)

    def reference(self, x, shape):  # type: ignore[no-untyped-def]
        return (x.reshape(shape),)


@dataclass(frozen=True)
class Positive(Op):
    """The positive elements, as a list: its length depends on them."""

    name = "positive"

    def infer(self, x):  # type: ignore[no-untyped-def]
        raise ShapeFromData("how many elements are positive depends on them")

    def reference(self, x):  # type: ignore[no-untyped-def]
        return (x[x > 0],)


@dataclass(frozen=True)
class Fill(Op):
    """A constant of any size."""

    name = "fill"
    shape: tuple[int, ...] = ()

    def infer(self) -> Types:  # type: ignore[override]
        return (TensorType.of(np.float32, self.shape),)

    def reference(self) -> Arrays:  # type: ignore[override]
        return (np.ones(self.shape, np.float32),)


def node(op: Op, inputs: str, outputs: str, label: str = "") -> Node:
    """A node; names are separated by spaces, `_` is absent."""
    return Node(op, _names(inputs), _names(outputs), label)


def _names(text: str) -> tuple[str, ...]:
    return tuple("" if name == "_" else name for name in text.split())


def graph(
    *nodes: Node, inputs: str = "x", outputs: str = "y", shape: tuple[int | str, ...] | None = None, **more
):  # type: ignore[no-untyped-def]
    """A graph of float32 inputs."""
    declared = tuple(Declared(name, np.dtype(np.float32), shape) for name in inputs.split())
    return Graph(declared, tuple(outputs.split()), nodes, **more)
