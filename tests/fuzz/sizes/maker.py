"""A random graph of open sizes in the making. Extents are known for all the sizes that it will run at.

An axis is an int where its extent never changes, and otherwise one number per size, as a vector: the arithmetic of
shapes is arithmetic on these, and a step that fits at every size makes a valid graph whatever formula it stands for.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
Axis = int | Array  # one extent for all sizes, or one per size
Shape = tuple[Axis, ...]
MOST = 12_000  # elements of a value, at any size
CHANNELS = (2, 4)
FLOAT, WHOLE = TensorProto.FLOAT, TensorProto.INT64
# Sizes that batch, height and width are drawn from. Few, so that kernels of fixed sizes are met again.
BATCHES = (1, 1, 2, 3)
SIDES = (1, 2, 3, 5, 6, 8, 12, 16, 21)
MIDDLE = (5, 6, 8, 12)


class Unfit(Exception):
    """A step for which there is no value, or whose result would be empty or too large at some size."""


@dataclass(frozen=True)
class Value:
    """A tensor of the graph. `exact`: every engine computes the same bits. `growth`: the power of ten of its largest
    elements, about."""

    name: str
    shape: Shape
    exact: bool = True
    growth: float = 0.5
    type: int = FLOAT

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass(frozen=True)
class Number:
    """A whole number that is computed: the name of a vector of one element, and what it is at each size."""

    name: str
    extent: Axis


def same(a: Axis, b: Axis) -> bool:
    return bool(np.all(np.equal(a, b)))


def volume(shape: Shape) -> Any:
    """Elements at each size."""
    total: Any = 1
    for axis in shape:
        total = total * axis
    return total


@dataclass
class Maker:
    """Nodes and values. `names` are the open axes of the inputs, with their extents."""

    rng: random.Random
    sizes: dict[str, Array]
    opset: int
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, onnx.TensorProto] = field(default_factory=dict)
    values: list[Value] = field(default_factory=list)
    inputs: dict[str, tuple[int | str, ...]] = field(default_factory=dict)
    used: int = 0
    careless: bool = False

    def __post_init__(self) -> None:
        # The sizes at which no value is empty.
        self.alive = np.ones(len(next(iter(self.sizes.values()))), bool)
        self.noise_of = np.random.default_rng(self.rng.getrandbits(60))

    # ---- leaves ---------------------------------------------------------------------------------------------------

    def input(self, *axes: int | str) -> Value:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = axes
        value = Value(name, tuple(a if isinstance(a, int) else self.sizes[a] for a in axes))
        self.values.append(value)
        return value

    def constant(self, array: Any) -> str:
        name = self.fresh("c")
        self.constants[name] = numpy_helper.from_array(np.asarray(array), name)
        return name

    def noise(self, *shape: int, fan: int = 1) -> str:
        """Normal noise, so that sums of `fan` products keep their scale."""
        return self.constant((self.noise_of.standard_normal(shape) / np.sqrt(fan)).astype(np.float32))

    def floats(self, *numbers: float) -> str:
        return self.constant(np.array(numbers, np.float32))

    def ints(self, *numbers: int) -> str:
        """A vector of whole numbers; equal ones are one constant."""
        name = "i" + "_".join(map(str, numbers)).replace("-", "m")
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.array(numbers, np.int64), name)
        return name

    def fresh(self, letter: str) -> str:
        self.used += 1
        return f"{letter}{self.used}"

    # ---- nodes ----------------------------------------------------------------------------------------------------

    def node(self, op: str, inputs: Iterable[str], outputs: int = 1, **attributes: Any) -> str:
        """A node; the name of its first output. Others are named behind it: `name_1`."""
        name = self.fresh("v")
        names = [name, *(f"{name}_{i}" for i in range(1, outputs))]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        return name

    def fits(self, shape: Shape) -> None:
        """Unfit where a value is empty or too large; a careless graph may be empty at a few sizes."""
        empty = np.logical_or.reduce([np.less(axis, 1) & self.alive for axis in shape])
        if np.any(empty):
            if not self.careless or np.sum(self.alive & ~empty) < 3:
                raise Unfit
            self.alive &= ~empty
        if np.any(self.alive & (volume(shape) > MOST)):
            raise Unfit

    def add(
        self, op: str, x: Value | Sequence[Value], shape: Iterable[Axis], *more: str,
        exact: bool = False, grows: float = 0.0, type: int = FLOAT, **attributes: Any,
    ) -> Value:  # fmt: skip
        """A node that reads values and `more` names, and its result. `exact`: it is so of exact values."""
        read = [x] if isinstance(x, Value) else list(x)
        shape = tuple(axis if isinstance(axis, np.ndarray) else int(axis) for axis in shape)
        self.fits(shape)
        growth = max(v.growth for v in read) + grows
        if growth > 3:
            raise Unfit
        name = self.node(op, [*(v.name for v in read), *more], **attributes)
        return self.made(name, shape, exact and all(v.exact for v in read), growth, type)

    def made(self, name: str, shape: Shape, exact: bool, growth: float, type: int = FLOAT) -> Value:
        value = Value(name, shape, exact, growth, type)
        self.values.append(value)
        return value

    # ---- choices --------------------------------------------------------------------------------------------------

    def maybe(self, share: float = 0.5) -> bool:
        return self.rng.random() < share

    def pick(self, *ranks: int, type: int = FLOAT, where: Callable[[Value], bool] = lambda v: True) -> Value:
        """A value of one of these ranks, mostly a late one."""
        fit = [v for v in self.values if v.type == type and (not ranks or v.rank in ranks) and where(v)]
        if not fit:
            raise Unfit
        return fit[-1] if self.maybe(0.6) else self.rng.choice(fit)

    def map(self, *ranks: int) -> Value:
        """A picture (n, c, h, w), or a sequence (n, c, t), with few channels."""
        return self.pick(*(ranks or (4,)), where=lambda v: isinstance(v.shape[1], int) and v.shape[1] <= 16)

    # ---- sizes that are computed ----------------------------------------------------------------------------------

    def shape_of(self, v: Value) -> str:
        return self.node("Shape", [v.name])

    def extents(self, v: Value, first: int, end: int) -> str:
        """Some of the sizes of a value as a vector, in one of the ways of exporters."""
        how = self.rng.randrange(3)
        if how == 0:
            return self.node("Shape", [v.name], start=first, end=end)
        if how == 1:
            return self.node("Slice", [self.shape_of(v), self.ints(first), self.ints(end), self.ints(0)])
        return self.node("Gather", [self.shape_of(v), self.ints(*range(first, end))])

    def number(self, v: Value, axis: int) -> Number:
        """An extent of a value."""
        if self.maybe(0.3):  # PyTorch's way
            scalar = self.node("Gather", [self.shape_of(v), self.constant(np.array(axis, np.int64))])
            return Number(self.node("Unsqueeze", [scalar, self.ints(0)]), v.shape[axis])
        return Number(self.extents(v, axis, axis + 1), v.shape[axis])

    def plus(self, x: Number, other: Number | int) -> Number:
        if isinstance(other, int):
            if other < 0 and self.maybe():
                return Number(self.node("Sub", [x.name, self.ints(-other)]), x.extent + other)
            return Number(self.node("Add", [x.name, self.ints(other)]), x.extent + other)
        return Number(self.node("Add", [x.name, other.name]), x.extent + other.extent)

    def times(self, x: Number, other: Number | int) -> Number:
        name, extent = (self.ints(other), other) if isinstance(other, int) else (other.name, other.extent)
        return Number(self.node("Mul", [x.name, name]), x.extent * extent)

    def over(self, x: Number, by: int) -> Number:
        """Rounded down, as a whole number or by way of floats."""
        if self.maybe(0.3):
            real = self.node("Cast", [x.name], to=FLOAT)
            part = self.node("Floor", [self.node("Div", [real, self.floats(by)])])
            return Number(self.node("Cast", [part], to=WHOLE), x.extent // by)
        return Number(self.node("Div", [x.name, self.ints(by)]), x.extent // by)

    def vector(self, *parts: str | int | Number) -> str:
        """Vectors and numbers one behind the other."""
        names: list[str] = []
        constants: list[int] = []
        for part in parts:
            if isinstance(part, int):
                constants.append(part)
                continue
            names += [self.ints(*constants)] if constants else []
            constants = []
            names.append(part.name if isinstance(part, Number) else part)
        names += [self.ints(*constants)] if constants else []
        return names[0] if len(names) == 1 else self.node("Concat", names, axis=0)

    # ---- the whole ------------------------------------------------------------------------------------------------

    def model(self) -> onnx.ModelProto:
        """The last value is an output, and some of the others."""
        made = [v for v in self.values if v.name not in self.inputs]
        outputs = {made[-1].name: made[-1]} | {v.name: v for v in made if self.maybe(0.2)}
        declared = [
            helper.make_tensor_value_info(name, FLOAT, list(axes)) for name, axes in self.inputs.items()
        ]
        graph = helper.make_graph(
            self.nodes, "sizes", declared,
            [helper.make_tensor_value_info(v.name, v.type, [None] * v.rank) for v in outputs.values()],
            list(self.constants.values()),
        )  # fmt: skip
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)


def fixed(model: onnx.ModelProto, shapes: dict[str, tuple[int, ...]]) -> onnx.ModelProto:
    """The same model with these shapes declared for its inputs."""
    twin = onnx.ModelProto()
    twin.CopyFrom(model)
    for item in twin.graph.input:
        for dimension, size in zip(item.type.tensor_type.shape.dim, shapes[item.name], strict=True):
            dimension.dim_value = size
    return twin
