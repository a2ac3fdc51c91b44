"""An operator of a TensorFlow Lite file with its inputs at hand: what decoders work on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cenote.core.errors import ModelError
from cenote.frontends.builder import GraphBuilder
from cenote.frontends.channels_last import ChannelsLast, fused
from cenote.frontends.tflite import schema
from cenote.frontends.tflite.flatbuffer import Table
from cenote.frontends.tflite.importer import Importer


@dataclass
class Site:
    """An operator of the file: what a decoder works on."""

    op: str
    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Table | None
    operator: Table
    importer: Importer
    first: str = ""  # the value of the first input, where it is another than the tensor's
    # Pads and dilations that take the place of the options'.
    windowed: tuple[Sequence[tuple[int, int]], tuple[int, int]] | None = None

    @property
    def builder(self) -> GraphBuilder:
        return self.importer.builder

    def number(self, index: int) -> int:
        """The tensor that is an input; -1 for an absent one."""
        return self.inputs[index] if index < len(self.inputs) else -1

    def x(self, index: int = 0) -> str:
        """The value of an input; "" for an absent one."""
        if not index and self.first:
            return self.first
        number = self.number(index)
        return "" if number < 0 else self.importer.real(number)

    def values(self) -> list[str]:
        return [self.x(index) for index in range(len(self.inputs))]

    def stored(self, index: int) -> str:
        return self.importer.stored(self.number(index))

    def numbers(self, index: int, what: str) -> tuple[int, ...]:
        """The content of an input of integers, which must be constant."""
        return self.builder.numbers(self.stored(index), what)

    def rank(self, index: int = 0) -> int:
        return len(self.importer.tensor(self.number(index)).shape)

    def shape(self, index: int = 0) -> tuple[int, ...]:
        """As the file has it: 1 for an extent that varies."""
        return self.importer.tensor(self.number(index)).shape

    def option(self, name: str) -> Any:
        """An option, or its default where the operator has no options."""
        if self.options is not None:
            return self.options[name]
        return schema.OPTIONS[self.op][name][2]

    def pictures(self) -> ChannelsLast:
        return ChannelsLast(self.builder)

    def activated(self, make: Callable[[str], str]) -> str:
        """What `make` makes under a name, through the activation that the operator has built in: the tensor's name is
        that of the last."""
        number = int(self.option("activation"))
        if number not in schema.ACTIVATIONS:
            raise ModelError(f"activation {number}")
        activation = schema.ACTIVATIONS[number]
        if not activation:
            return make(self.name)
        return fused(self.builder, make(f"{self.name}/linear"), activation, self.name)

    @property
    def pads(self) -> Sequence[tuple[int, int]]:
        return () if self.windowed is None else self.windowed[0]

    @property
    def padding(self) -> str:
        if self.windowed is not None:
            return "EXPLICIT"
        number = int(self.option("padding"))
        if number not in schema.PADDINGS:
            raise ModelError(f"padding {number}")
        return schema.PADDINGS[number]

    @property
    def strides(self) -> tuple[int, int]:
        return int(self.option("stride_h")), int(self.option("stride_w"))

    @property
    def dilations(self) -> tuple[int, int]:
        if self.windowed is not None:
            return self.windowed[1]
        return int(self.option("dilation_h")), int(self.option("dilation_w"))


Decode = Callable[[Site], "str | Sequence[str]"]


def plain(op: str, **attributes: Any) -> Decode:
    """An operator of the same inputs."""
    return lambda site: site.builder.add(op, *site.values(), name=site.name, **attributes)
