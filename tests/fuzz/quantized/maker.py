"""A quantised graph in the making: numbers of 8 and 16 bits with their scales, and operators between them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.fuzz.case import noise

Array = np.ndarray[Any, Any]
MICROSOFT = "com.microsoft"
REAL = ("uint8", "int8", "uint16", "int16", "float32")  # types of values that stand for real numbers
SELDOM = 0.02  # of sums of floats, which lie at halves seldom
OFTEN = 0.5  # of means and sums of few terms
# Scales that are no ordinary factors. Infinities are none of them: they spread over groups that kernels join.
ODD = (0.0, np.nan, -0.05, 1e30, 2e-38)
DENORMAL = (1e-40, 1e-45)  # of weights


@dataclass(frozen=True)
class Quantised:
    """A value of the graph: integers, or floats where `scale` is empty. The shape is that of the declared sizes."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    scale: str = ""
    zero: str = ""


@dataclass
class Maker:
    """Nodes, constants and values so far.

    `rng`: of the structure (operators, types, shapes), which decides what is compiled; `numbers`: of weights, scales,
    zero points. `share`: of a value's elements, those that may be one step off: none where ONNX gives the bits.
    `broken`: something does not fit; `odd`: a scale is no ordinary factor.
    """

    rng: random.Random
    numbers: random.Random
    opset: int
    nodes: list[Any] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    inputs: list[Quantised] = field(default_factory=list)
    values: list[Quantised] = field(default_factory=list)
    share: dict[str, float] = field(default_factory=dict)
    broken: bool = False
    odd: bool = False

    def __post_init__(self) -> None:
        self.noise = noise(self.numbers)
        # A graph has one of these, or a few values of each.
        self.wide = self.opset >= 21 and self.rng.random() < 0.25
        self.strange = self.rng.random() < 0.12
        self.faulty = self.rng.random() < 0.06
        # A denormal bias is taken for zero (`forget_tiny_biases`), which a quotient by a scale of zero would show.
        self.denormal = self.numbers.random() < 0.3

    # ---- numbers

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def constant(self, value: Any, dtype: Any = None) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = np.asarray(value, dtype)
        return name

    def kind(self) -> np.dtype[Any]:
        """The type of a quantised value."""
        kinds = ("uint16", "int16") if self.wide and self.chance(0.6) else ("uint8", "uint8", "int8")
        return np.dtype(self.rng.choice(kinds))

    def whole(self, shape: Sequence[int], dtype: Any) -> Array:
        """Numbers of all of a type, sometimes only the largest or the smallest."""
        limits = np.iinfo(dtype)
        extreme = self.numbers.random()
        if extreme < 0.1:
            made = np.full(shape, self.numbers.choice((limits.min, limits.max)), dtype)
        elif extreme < 0.2:
            made = np.where(self.noise.random(shape) < 0.5, limits.min, limits.max).astype(dtype)
        else:
            made = self.noise.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        return np.asarray(made)

    def zero_point(self, dtype: Any) -> int:
        limits = np.iinfo(dtype)
        middle = (limits.min + limits.max + 1) // 2
        return int(
            self.numbers.choice(
                (middle, middle, limits.min, limits.max, 0, self.numbers.randint(limits.min, limits.max))
            )
        )

    def scale_of(self, size: float, odd: Sequence[float] = ODD) -> np.float32:
        """A scale near `size`; now and then a number that is none."""
        fits = [each for each in odd if (each in DENORMAL) == self.denormal]
        if self.strange and self.chance(0.2) and fits:
            self.odd = True
            return np.float32(self.numbers.choice(fits))
        return np.float32(size * 2.0 ** self.numbers.uniform(-1.5, 1.5))

    def parameters(self, dtype: np.dtype[Any], spread: float = 6.0) -> tuple[str, str]:
        """The names of a scale and a zero point for numbers that are some `spread` apart."""
        steps = 256 if dtype.itemsize == 1 else 65536
        if self.faulty and self.chance(0.15):
            self.broken, dtype = True, np.dtype(self.rng.choice(("int8", "uint8", "int16", "int32")))
        shape = (1,) if self.chance(0.1) else ()
        scale = np.full(shape, self.scale_of(spread / steps), np.float32)
        zero = np.full(shape, self.zero_point(dtype), dtype)
        if self.faulty and self.chance(0.1):
            self.broken, zero = True, np.full((2,), self.zero_point(dtype), dtype)
        return self.constant(scale), self.constant(zero)

    # ---- nodes and values

    def several(
        self, kind: str, outputs: int, *inputs: str, domain: str = "", **attributes: Any
    ) -> list[str]:
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        given = list(inputs)
        while given and not given[-1]:
            given.pop()
        self.nodes.append(helper.make_node(kind, given, names, domain=domain, **attributes))
        return names

    def node(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        return self.several(kind, 1, *inputs, domain=domain, **attributes)[0]

    def add(self, value: Quantised, share: float = SELDOM) -> Quantised:
        """Keep a value, from which others may be made. `share` of its elements may be one step off."""
        if value.zero:  # its type is the result's, also where it is not the one that fits
            value = replace(value, dtype=self.constants[value.zero].dtype)
        self.values.append(value)
        self.share[value.name] = share
        return value

    def pick(self, rank: int | None = None, kinds: Sequence[str] = ()) -> Quantised | None:
        """One of the values, later ones rather."""
        fits = [
            each
            for each in self.values
            if (rank is None or len(each.shape) == rank) and each.dtype.name in (kinds or REAL)
        ]
        return self.rng.choice(fits[-4:]) if fits else None

    def dequantised(self, q: Quantised) -> str:
        domain = MICROSOFT if q.dtype.itemsize == 2 and self.opset < 21 else ""
        return self.node("DequantizeLinear", q.name, q.scale, q.zero, domain=domain) if q.scale else q.name

    def quantised(
        self, x: str, shape: Sequence[int], spread: float = 6.0, share: float = SELDOM
    ) -> Quantised:
        """Quantise floats."""
        dtype = self.kind()
        scale, zero = self.parameters(dtype, spread)
        name = self.node("QuantizeLinear", x, scale, zero)
        return self.add(Quantised(name, self.constants[zero].dtype, tuple(shape), scale, zero), share)

    def input(self, shape: Sequence[int]) -> Quantised:
        """Add an input: floats that are quantised, or integers."""
        name = f"x{len(self.inputs)}"
        if self.chance(0.5):
            self.inputs.append(Quantised(name, np.dtype(np.float32), tuple(shape)))
            return self.quantised(name, shape, share=0)
        dtype = self.kind()
        scale, zero = self.parameters(dtype)
        made = Quantised(name, dtype, tuple(shape), scale, zero)
        self.inputs.append(made)
        self.values.append(made)
        return made

    # ---- models

    def model(self, outputs: Sequence[str], opened: Mapping[int, str]) -> onnx.ModelProto:
        """The graph with these outputs; extents of inputs at the places of `opened` are open."""
        declared = [
            helper.make_tensor_value_info(
                each.name,
                helper.np_dtype_to_tensor_dtype(each.dtype),
                [opened.get(axis, extent) for axis, extent in enumerate(each.shape)],
            )
            for each in self.inputs
        ]
        return self._proto(self.nodes, declared, outputs)

    def cut(self, at: Sequence[str]) -> onnx.ModelProto:
        """The graph whose nodes read these values as inputs; what is computed for them has `.made` behind its name."""
        nodes = []
        for node in self.nodes:
            changed = onnx.NodeProto()
            changed.CopyFrom(node)
            changed.output[:] = [f"{name}.made" if name in at else name for name in node.output]
            nodes.append(changed)
        made = {each.name: each for each in (*self.inputs, *self.values)}
        read = {name for node in nodes for name in node.input}
        declared = [
            helper.make_tensor_value_info(
                name,
                helper.np_dtype_to_tensor_dtype(made[name].dtype),
                [f"{name}_{axis}" for axis in range(len(made[name].shape))],
            )
            for name in (*(each.name for each in self.inputs), *at)
            if name in read
        ]
        return self._proto(nodes, declared, [f"{name}.made" for name in at])

    def _proto(self, nodes: list[Any], inputs: list[Any], outputs: Sequence[str]) -> onnx.ModelProto:
        graph = helper.make_graph(
            nodes,
            "quantised",
            inputs,
            [onnx.ValueInfoProto(name=name) for name in outputs],
            [numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)
