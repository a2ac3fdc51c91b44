"""An operator of a TensorFlow Lite file with its inputs: the input of decoders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ModelError
from cenote.frontends.builder import GraphBuilder
from cenote.frontends.channels_last import ChannelsLast, SlidingWindow, fused
from cenote.frontends.tensorflow_common import Site
from cenote.frontends.tflite import schema
from cenote.frontends.tflite.flatbuffer import FlatTable
from cenote.frontends.tflite.importer import TfliteImporter


class _Pictures(ChannelsLast):
    """Builder of operators on pictures, of which quantised ones are turned as bytes."""

    def __init__(self, builder: GraphBuilder, importer: TfliteImporter) -> None:
        super().__init__(builder)
        self.importer = importer

    def _in(self, value: str, rank: int) -> str:
        return self.importer.turned(value, (0, rank - 1, *range(1, rank - 1)))


@dataclass
class OperatorSite(Site):
    """An operator of the file: the input of a decoder."""

    op: str
    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: FlatTable | None
    operator: FlatTable
    importer: TfliteImporter
    # The value of the first input, where it is not the tensor's.
    first: str = ""
    # For a convolution: the window in place of the options'.
    window: SlidingWindow | None = None

    @property
    def builder(self) -> GraphBuilder:
        return self.importer.builder

    def tensor_number(self, index: int) -> int:
        """Return the number of the tensor that is an input; -1 for an absent one."""
        return self.inputs[index] if index < len(self.inputs) else -1

    def x(self, index: int = 0) -> str:
        """Return the value of an input; "" for an absent one."""
        if not index and self.first:
            return self.first
        number = self.tensor_number(index)
        return "" if number < 0 else self.importer.real(number)

    def stored(self, index: int) -> str:
        return self.importer.stored(self.tensor_number(index))

    def has(self, index: int) -> bool:
        return self.tensor_number(index) >= 0

    def rank(self, index: int = 0) -> int:
        return len(self.importer.tensor(self.tensor_number(index)).shape)

    def shape(self, index: int = 0) -> tuple[int, ...]:
        """Return the shape in the file: 1 for an extent that varies."""
        return self.importer.tensor(self.tensor_number(index)).shape

    def option(self, name: str) -> Any:
        """Return an option, or its default where the operator has no options."""
        if self.options is not None:
            return self.options[name]
        return schema.OPTIONS[self.op][name][2]

    def integer(self, name: str, default: int | None = None) -> int:
        return int(self.option(name))

    def flag(self, name: str, default: bool = False) -> bool:
        return bool(self.option(name))

    def real(self, name: str, default: float | None = None) -> float:
        return float(self.option(name))

    def integers(self, name: str) -> tuple[int, ...]:
        """Return a list among the options; empty where the operator has none."""
        return () if self.options is None else self.options.numbers(name)

    def result_dtype(self, attribute: str, default: int | None = None) -> np.dtype[Any]:
        return self.importer.tensor(self.outputs[0]).element()

    def names(self, count: int) -> list[str]:
        """Return the file's names of the outputs, independent of the number that an option gives."""
        return [self.importer.wanted_name(number) for number in self.outputs]

    @property
    def is_float(self) -> bool:
        tensor = self.importer.tensor(self.tensor_number(0))
        return tensor.quantization is not None or tensor.element().kind == "f"

    def pictures(self) -> ChannelsLast:
        return _Pictures(self.builder, self.importer)

    def weights(self, index: int, order: Sequence[int], shape: Sequence[int] | None = None) -> str:
        """Return the value of an input with its axes in another order, see `TfliteImporter.weights`; "" for an absent
        one."""
        number = self.tensor_number(index)
        return "" if number < 0 else self.importer.weights(number, order, shape)

    def finished(self, value: str) -> str:
        """Return a value with the operator's built-in activation applied."""
        number = self.integer("activation")
        if number not in schema.ACTIVATIONS:
            raise ModelError(f"activation {number}")
        return fused(self.builder, value, schema.ACTIVATIONS[number])

    def activated(self, make: Callable[[str], str]) -> str:
        """Return the result of `make`, with the operator's built-in activation applied; the last value gets the
        tensor's name."""
        number = self.integer("activation")
        if number not in schema.ACTIVATIONS:
            raise ModelError(f"activation {number}")
        activation = schema.ACTIVATIONS[number]
        if not activation:
            return make(self.name)
        return fused(self.builder, make(f"{self.name}/linear"), activation, self.name)

    def windowed(self) -> SlidingWindow:
        """Return the strides, padding and dilations of the options."""
        if self.window is not None:
            return self.window
        number = self.integer("padding")
        if number not in schema.PADDINGS:
            raise ModelError(f"padding {number}")
        return SlidingWindow(self._steps("stride"), schema.PADDINGS[number], (), self._steps("dilation"))

    def _steps(self, kind: str) -> tuple[int, ...]:
        """Return an option of each axis, outermost first; none where the operator has no such options."""
        names = (f"{kind}_{axis}" for axis in "dhw")
        return tuple(self.integer(name) for name in names if name in schema.OPTIONS[self.op])


Decode = Callable[[OperatorSite], "str | Sequence[str]"]
