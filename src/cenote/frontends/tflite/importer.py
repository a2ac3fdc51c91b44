"""Tensors of a TensorFlow Lite file as values of a graph under construction."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ModelError, UnsupportedError
from cenote.core.types import Array, Dimension
from cenote.frontends.builder import GraphBuilder, reshaped, transposed
from cenote.frontends.tflite import schema
from cenote.frontends.tflite.flatbuffer import FlatBuffer, FlatTable
from cenote.frontends.tflite.sparsity import dense_of
from cenote.ops.user_operators import UserOperators


@dataclass(frozen=True)
class Quantization:
    """Quantisation parameters: real = scale * (stored - zero_point), per tensor or along `axis`."""

    scale: Array
    zero_point: Array
    axis: int

    def real(self, stored: Array) -> Array:
        """Return the numbers that stored integers represent, in float32."""
        shape = [1] * stored.ndim
        if self.scale.size > 1:
            shape[self.axis] = self.scale.size
        shifted = stored.astype(np.float64) - self.zero_point.reshape(shape)
        # A scale near the largest number gives infinity.
        with np.errstate(over="ignore"):
            return (shifted * self.scale.astype(np.float64).reshape(shape)).astype(np.float32)


@dataclass(frozen=True)
class Tensor:
    """A tensor of the file: `content` is its place there when it is constant."""

    name: str
    # None for a type that Cenote does not have, which matters only where the tensor is used.
    dtype: np.dtype[Any] | None
    kind: int
    shape: tuple[int, ...]
    signature: tuple[Dimension, ...]
    content: tuple[int, int] | None
    quantization: Quantization | None
    sparsity: FlatTable | None

    @property
    def is_rounded(self) -> bool:
        """True if its computed values are rounded to the integers that it stores."""
        element = self.element() if self.quantization is not None else None
        return element is not None and element.kind in "iu" and element.itemsize < 4

    def element(self) -> np.dtype[Any]:
        if self.dtype is None:
            known = schema.OTHER_TYPES.get(self.kind, str(self.kind))
            raise UnsupportedError(f"tensor '{self.name}' is of type {known}, which is not supported")
        return self.dtype


SubgraphCall = Callable[[int, Sequence[str]], Sequence[str]]
"""Adds a subgraph of the file, by its number, to the graph under construction: values of its inputs, in their stored
form, to those of its outputs."""


class TfliteImporter:
    """Importer of a subgraph's operators into a graph under construction.

    A quantised tensor is in the graph in its stored form, integers, behind every operator that makes one; operators
    work on the numbers that it represents, in float32.
    """

    def __init__(
        self, buffer: FlatBuffer, tensors: list[Tensor], call: SubgraphCall, builder: GraphBuilder
    ) -> None:
        self.builder, self.buffer, self.tensors, self.call = builder, buffer, tensors, call
        # Values of tensors in their stored form.
        self.made: dict[int, str] = {}
        # Values of the numbers that quantised tensors represent.
        self.reals: dict[int, str] = {}
        # The computed ones among them: the tensors, by the value.
        self.dequantized: dict[str, int] = {}
        # Tensors that wait for BATCH_TO_SPACE_ND, see `dilation`; the function from one to its value where it is read
        # by anything else.
        self.spreads: dict[int, Any] = {}
        self.in_batch: Callable[[Any], str] | None = None
        # Collects problems, if given, instead of an error.
        self.problems: list[str] | None = None
        # Those of the user.
        self.operators = UserOperators({})
        # Tensors of operators that were not imported.
        self.failed: set[int] = set()

    def begin(self, inputs: Sequence[int], values: Sequence[str]) -> None:
        """Start over with these inputs: of what was made before, constants stay."""
        if len(inputs) != len(values):
            raise ModelError(f"the subgraph takes {len(inputs)} inputs, not {len(values)}")
        for made in (self.made, self.reals):
            for number in [each for each in made if self.tensor(each).content is None]:
                del made[number]
        self.dequantized.clear()
        self.spreads.clear()
        self.made.update(zip(inputs, values, strict=True))

    def tensor(self, number: int) -> Tensor:
        if not 0 <= number < len(self.tensors):
            raise ModelError(f"tensor {number} of {len(self.tensors)}")
        return self.tensors[number]

    def declare(self, number: int) -> None:
        """Add an input of the graph."""
        tensor = self.tensor(number)
        self.made[number] = self.builder.input(
            tensor.name or f"input {number}", tensor.element(), tensor.signature
        )

    def constant(self, number: int) -> Array | None:
        """Return the content of a constant tensor in its stored form."""
        tensor = self.tensor(number)
        if number in self.made:
            return None
        if tensor.content is None:
            # An array without elements has no bytes in the file.
            return None if math.prod(tensor.shape) else np.empty(tensor.shape, tensor.element())
        content = self.buffer.array(*tensor.content)
        if tensor.sparsity is not None:
            return dense_of(content.view(tensor.element()), tensor.shape, tensor.sparsity)
        wanted = math.prod(tensor.shape) * tensor.element().itemsize
        if content.nbytes != wanted:
            raise ModelError(
                f"tensor '{tensor.name}' has {content.nbytes} bytes, {list(tensor.shape)} takes {wanted}"
            )
        return content.view(tensor.element()).reshape(tensor.shape)

    def stored(self, number: int) -> str:
        """Return the value of a tensor in its stored form."""
        if number in self.spreads and number not in self.made and self.in_batch is not None:
            self.give(number, self.in_batch(self.spreads[number]))
        if number not in self.made:
            content = self.constant(number)
            if content is None:
                raise ModelError(f"tensor '{self.tensor(number).name}' is read before anything makes it")
            self.made[number] = self.builder.constant(content, self.tensor(number).name)
        return self.made[number]

    def real(self, number: int) -> str:
        """Return the value of the numbers that a tensor represents: the tensor itself unless it is quantised."""
        tensor = self.tensor(number)
        if tensor.quantization is None or tensor.element().kind == "f":
            return self.stored(number)
        if number not in self.reals:
            content = self.constant(number)
            if content is not None:
                value = self.builder.constant(tensor.quantization.real(content), f"{tensor.name}/real")
            else:
                value = self._dequantized(self.stored(number), tensor)
                self.dequantized[value] = number
            self.reals[number] = value
        return self.reals[number]

    def _dequantized(self, value: str, tensor: Tensor, name: str = "") -> str:
        scale, point = self._parameters(tensor)
        return self.builder.add("DequantizeLinear", value, scale, point, name=name or f"{tensor.name}/real")

    def dequantized_like(self, value: str, number: int, name: str) -> str:
        """Return the numbers that integers stand for by a tensor's scale."""
        return self._dequantized(value, self.tensor(number), name)

    def moved(self, value: str, move: Callable[[str], str]) -> str:
        """Return a value whose elements are moved. What is dequantised is moved before: then operators of bytes find a
        dequantisation in front of them."""
        number = self.dequantized.get(value)
        if number is None:
            return move(value)
        return self._dequantized(move(self.stored(number)), self.tensor(number))

    def turned(self, value: str, order: Sequence[int]) -> str:
        """Return a value with its axes in another order, as `moved` does."""
        return self.moved(value, lambda each: transposed(self.builder, each, order))

    def weights(self, number: int, order: Sequence[int], shape: Sequence[int] | None = None) -> str:
        """Return a tensor's numbers with its axes in another order (and then in another shape, whose first axis is the
        same). A constant of quantised integers stays one, with its dequantisation behind it."""
        tensor, content = self.tensor(number), self.constant(number)
        quantization = tensor.quantization
        if content is None or quantization is None or tensor.element().name not in ("int8", "uint8", "int32"):
            value = transposed(self.builder, self.real(number), order)
            return value if shape is None else reshaped(self.builder, value, shape)
        stored = np.ascontiguousarray(content.transpose(order))
        many = quantization.scale.size > 1
        axis = {"axis": tuple(order).index(quantization.axis)} if many else {}
        if shape is not None and axis.get("axis"):
            raise UnsupportedError(f"tensor '{tensor.name}' is quantised along axis {quantization.axis}")
        limits = np.iinfo(stored.dtype)
        if quantization.zero_point.min() < limits.min or quantization.zero_point.max() > limits.max:
            raise ModelError(f"tensor '{tensor.name}': zero point out of the range of {stored.dtype.name}")
        numbers = (quantization.scale, quantization.zero_point.astype(stored.dtype))
        operands = (
            stored if shape is None else stored.reshape(shape),
            *(x if many else x[0] for x in numbers),
        )
        names = [self.builder.constant(x, tensor.name) for x in operands]
        return self.builder.add("DequantizeLinear", *names, name=f"{tensor.name}/real", **axis)

    def _parameters(self, tensor: Tensor) -> tuple[str, str]:
        quantization = tensor.quantization
        assert quantization is not None
        if quantization.scale.size != 1:
            raise UnsupportedError(f"tensor '{tensor.name}' is computed and quantised per channel")
        limits = np.iinfo(tensor.element())
        point = int(quantization.zero_point.reshape(-1)[0])
        if not limits.min <= point <= limits.max:
            raise ModelError(f"tensor '{tensor.name}': zero point {point} of type {tensor.element().name}")
        return (
            self.builder.constant(quantization.scale.reshape(())),
            self.builder.constant(np.array(point, tensor.element())),
        )

    def wanted_name(self, number: int) -> str:
        """Return the name for an operator's result: the tensor's name, unless it is still to be rounded."""
        tensor = self.tensor(number)
        return f"{tensor.name}/unrounded" if tensor.is_rounded else tensor.name

    def give(self, number: int, value: str, name: str = "") -> None:
        """Set the value that an operator has computed for a tensor. A quantised tensor is rounded to numbers that it
        can represent (and is then called `name`, by default as the tensor)."""
        tensor = self.tensor(number)
        if number in self.made:
            raise ModelError(f"tensor '{tensor.name}' is made twice")
        if tensor.is_rounded:
            scale, point = self._parameters(tensor)
            value = self.builder.add("QuantizeLinear", value, scale, point, name=name or tensor.name)
        self.made[number] = value

    def passed(self, number: int, value: str, name: str) -> str:
        """Return the numbers that a tensor would represent of a computed value, rounded where it is quantised, without
        setting the tensor."""
        tensor = self.tensor(number)
        if not tensor.is_rounded:
            return value
        scale, point = self._parameters(tensor)
        stored = self.builder.add("QuantizeLinear", value, scale, point, name=name)
        return self._dequantized(stored, tensor, f"{name}/real")
