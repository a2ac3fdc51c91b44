"""A layer of a Keras model and one call of it: the input of decoders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ModelError, UnsupportedError
from cenote.core.types import Array
from cenote.frontends.builder import GraphBuilder
from cenote.frontends.channels_last import ChannelsLast
from cenote.frontends.keras.archive import Stored, content_of

FLOAT = np.dtype(np.float32)


@dataclass(frozen=True)
class KerasValue:
    """A value of the graph under construction; `rank` counts all axes. `mask`: which of its steps count, see `masks`;
    "" where all do."""

    name: str
    rank: int
    dtype: np.dtype[Any] = FLOAT
    mask: str = ""


@dataclass
class KerasLayer:
    """A layer of the file, whatever the number of its calls."""

    kind: str
    name: str
    config: Mapping[str, Any]
    stored: Stored
    # Version of Keras.
    version: int
    # Constants of its arrays, by the arrays' indices.
    weights: dict[int, str] = field(default_factory=dict)

    def get(self, name: str, kind: type | tuple[type, ...], default: Any = None) -> Any:
        """Return an entry of the configuration. Raises ModelError where it is missing or of another type."""
        entry = self.config.get(name, default)
        if (isinstance(entry, bool) and kind is not bool) or not isinstance(entry, kind):
            raise ModelError(f"'{name}' of the configuration is {entry!r:.80}")
        return entry

    def flag(self, name: str, default: bool) -> bool:
        return bool(self.get(name, bool, default))

    def integer(self, name: str, default: int | None = None) -> int:
        return int(self.get(name, int, default))

    def real(self, name: str, default: float | None = None) -> float:
        return float(self.get(name, (int, float), default))

    def text(self, name: str, default: str | None = None) -> str:
        return str(self.get(name, str, default))

    def integers(self, name: str, count: int = 0, default: Any = None) -> tuple[int, ...]:
        """Return a list of integers; one number stands for `count` equal ones."""
        entry = self.config.get(name, default)
        every = [entry] * max(count, 1) if isinstance(entry, int) else entry
        if not isinstance(every, list | tuple) or not all(type(each) is int for each in every):
            raise ModelError(f"'{name}' of the configuration is {entry!r:.80}, not integers")
        if count and len(every) != count:
            raise ModelError(f"'{name}' has {len(every)} numbers, not {count}")
        return tuple(every)

    def pairs(self, name: str, count: int) -> list[tuple[int, int]]:
        """Return (begin, end) for each of `count` axes: given as pairs, as a number per axis, or as one for all."""
        entry = self.config.get(name)
        if count == 1 and isinstance(entry, list) and len(entry) == 2 and type(entry[0]) is int:
            entry = [entry]
        every = [entry] * count if isinstance(entry, int) else entry
        if not isinstance(every, list | tuple) or len(every) != count:
            raise ModelError(f"'{name}' of the configuration is {entry!r:.80}")
        pairs = [tuple(each) if isinstance(each, list) else (each, each) for each in every]
        if not all(
            len(pair) == 2 and all(type(each) is int and each >= 0 for each in pair) for pair in pairs
        ):
            raise ModelError(f"'{name}' of the configuration is {entry!r:.80}")
        return [(begin, end) for begin, end in pairs]

    def array(self, index: int, what: str) -> Array:
        """Return one of the layer's arrays."""
        every = self.stored.arrays()
        if index >= len(every):
            raise ModelError(f"the file has {len(every)} arrays of this layer; its {what} is missing")
        return content_of(every[index], f"its {what}")


@dataclass
class LayerCall:
    """One call of a layer."""

    layer: KerasLayer
    inputs: Sequence[KerasValue]
    builder: GraphBuilder
    # Name of the value that it makes.
    name: str
    # Numbers among the arguments of an operation.
    numbers: Sequence[float] = ()
    # Whether the mask of the first value is an argument of the call.
    has_mask: bool = False

    @property
    def value(self) -> KerasValue:
        """The only input."""
        if len(self.inputs) != 1:
            raise ModelError(f"it is called with {len(self.inputs)} values, not one")
        return self.inputs[0]

    @property
    def rank(self) -> int:
        return self.value.rank

    @property
    def x(self) -> str:
        """The only input, as float32."""
        value = self.value
        return value.name if value.dtype == FLOAT else self.builder.cast(value.name, FLOAT)

    def need_rank(self, rank: int) -> int:
        if self.rank != rank:
            raise ModelError(f"it takes values of {rank} axes, this one has {self.rank}")
        return rank

    def weight(self, index: int, what: str, rank: int | None = None) -> str:
        """Return the value of one of the layer's arrays, of `rank` axes."""
        if index not in self.layer.weights:
            content = self.layer.array(index, what)
            if content.dtype != FLOAT:
                raise UnsupportedError(f"its {what} is {content.dtype.name}; only float32 is supported")
            if rank is not None and content.ndim != rank:
                raise ModelError(f"its {what} has shape {list(content.shape)}, which must have {rank} axes")
            self.layer.weights[index] = self.builder.constant(content, f"{self.layer.name}/{what}")
        return self.layer.weights[index]

    def axis(self, default: int = -1) -> int:
        """Return the layer's axis, counted from the first."""
        entry = self.layer.config.get("axis", default)
        axis = entry[0] if isinstance(entry, list) and len(entry) == 1 else entry
        if type(axis) is not int or not -self.rank <= axis < self.rank:
            raise ModelError(f"'axis' of the configuration is {entry!r:.80} of {self.rank} axes")
        return axis % self.rank

    @property
    def channels_first(self) -> bool:
        form = self.layer.config.get("data_format") or "channels_last"
        if form not in ("channels_first", "channels_last"):
            raise ModelError(f"data_format {form!r:.80}")
        return bool(form == "channels_first")

    def pictures(self) -> ChannelsLast:
        return ChannelsLast(self.builder, self.channels_first)

    @property
    def spatial(self) -> tuple[int, ...]:
        """The axes of a map that are neither batch nor channels."""
        return tuple(range(2, self.rank)) if self.channels_first else tuple(range(1, self.rank - 1))


Decode = Callable[[LayerCall], "KerasValue | str | list[KerasValue]"]
"""Function that returns a value, or its name where it is float32 and has as many axes as the only input; or several
values."""
