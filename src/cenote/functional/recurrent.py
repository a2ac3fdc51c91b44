"""Recurrent layers over sequences, with PyTorch's weights: torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu.

input       (length, batch, features), with batch_first (batch, length, features)
hx          first states (num_layers * directions, batch, hidden); for lstm a pair, of states and cells; None: zeros
params      for every layer, and in it for every direction: weight_ih (gates * hidden, features), weight_hh (gates *
            hidden, hidden) and, with has_biases, bias_ih, bias_hh (gates * hidden,); gates in PyTorch's order, as the
            parameters of torch.nn.LSTM, GRU and RNN come (no projections)
dropout     probability of a zero between layers, where train is true

Results: the states of the last layer (length, batch, directions * hidden), with batch_first the batch leading, then the
last states as hx. The weights are put into the kernels' order in every call. float32 runs natively. Errors:
ShapeError and DTypeError for arrays that do not fit, ArgumentError for arguments out of range and a wrong number of
parameters, InputError for what is no array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, InputError, ShapeError
from cenote.core.types import Array as Values
from cenote.functional.arguments import given_array
from cenote.functional.kinds import Array, Count, Given, Kind, Threads
from cenote.functional.random import dropout as drop
from cenote.functional.record import composed, function
from cenote.ops.base import Op
from cenote.ops.bound import BoundOperator
from cenote.ops.sequence.recurrent import GRU, LSTM, RNN

# The places of the kernels' gates among PyTorch's: i o f c of i f g o; z r h of r z n.
_GATES = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn_tanh": (0,), "rnn_relu": (0,)}
Unit = Literal["lstm", "gru", "rnn_tanh", "rnn_relu"]
Pair = Annotated[Any, Kind("tuple[A, A]")]
State = Annotated[Any, Kind("A")]
Weights = Annotated[Any, Kind("Sequence[A]")]
LaterProbability = Annotated[float, Kind("float")]
"""A probability that is read where something is dropped."""


@function()
def _layer(
    input: Array,
    weights: Array,
    recurrence: Array,
    biases: Array,
    states: Array,
    cells: Array | None = None,
    *,
    unit: Unit,
    bidirectional: bool,
) -> Op:
    """One layer, the length leading."""
    direction = "bidirectional" if bidirectional else "forward"
    if unit == "lstm":
        return BoundOperator(LSTM(outputs=3, direction=direction), {4: None, 7: None})
    if unit == "gru":
        return BoundOperator(GRU(linear_before_reset=True, direction=direction), {4: None})
    functions = (("relu", 0.0, 0.0),) * (1 + bidirectional) if unit == "rnn_relu" else ()
    return BoundOperator(RNN(functions=functions, direction=direction), {4: None})


@dataclass(frozen=True)
class Stack:
    """Layers on top of each other."""

    params: Weights
    has_biases: bool = True
    num_layers: Count = 1
    dropout: LaterProbability = 0.0
    train: bool = False
    bidirectional: bool = False
    batch_first: bool = False

    def run(self, unit: Unit, input: object, hx: Sequence[object], threads: int | None) -> tuple[Any, ...]:
        """The states of the last layer, and the last states (and cells) of all."""
        x, restore = given_array("input", input)
        if x.ndim != 3:
            order = "(batch, length, features)" if self.batch_first else "(length, batch, features)"
            raise ShapeError(f"expected input {order}, got {list(x.shape)}")
        x = x.swapaxes(0, 1) if self.batch_first else x
        weights, directions = self._weights(unit), 1 + self.bidirectional
        hidden = weights[0][1].shape[2]
        states = _states(unit, hx, (self.num_layers * directions, x.shape[1], hidden), x.dtype)
        lasts: list[list[Values]] = [[] for _ in states]
        for layer, matrices in enumerate(weights):
            if layer and self.train:
                x = drop(x, self.dropout, True, threads=threads)
            mine = slice(layer * directions, (layer + 1) * directions)
            arrays = (x, *matrices, *(state[mine] for state in states))
            y, *ends = _layer(*arrays, unit=unit, bidirectional=self.bidirectional, threads=threads)
            x = y.transpose(0, 2, 1, 3).reshape(*x.shape[:2], directions * hidden)
            for kept, end in zip(lasts, ends, strict=True):
                kept.append(end)
        y = np.ascontiguousarray(x.swapaxes(0, 1)) if self.batch_first else x
        return tuple(map(restore, (y, *map(np.concatenate, lasts))))

    def _weights(self, unit: Unit) -> list[tuple[Values, Values, Values]]:
        """Return each layer's weights and biases of all directions, in the kernels' order of gates."""
        if not isinstance(self.params, list | tuple):
            raise InputError("params must be a list of arrays")
        directions, each = 1 + self.bidirectional, 4 if self.has_biases else 2
        needed = self.num_layers * directions * each
        if len(self.params) != needed:
            raise ArgumentError(
                f"{self.num_layers} layers of {directions} directions need {needed} params, {each} each, got "
                f"{len(self.params)}"
            )
        arrays = [given_array(f"params[{n}]", value)[0] for n, value in enumerate(self.params)]
        parts = [arrays[at : at + each] for at in range(0, len(arrays), each)]
        return [_layer_weights(unit, parts[at : at + directions]) for at in range(0, len(parts), directions)]


def _states(unit: Unit, hx: Sequence[object], shape: tuple[int, ...], dtype: np.dtype[Any]) -> list[Values]:
    """First states (and cells); zeros where none are given."""
    states = [given_array("hx", value)[0] for value in hx]
    for state in states:
        if state.shape != shape:
            raise ShapeError(f"hx must have shape {list(shape)}, got {list(state.shape)}")
    return states or [np.zeros(shape, dtype)] * (1 + (unit == "lstm"))


def _layer_weights(unit: Unit, parts: list[list[Values]]) -> tuple[Values, Values, Values]:
    """The weights and biases of a layer, of which `parts` has those of each direction."""
    order, first = _GATES[unit], parts[0]
    rows = first[1].shape[0] if first[1].ndim == 2 else 0
    hidden = rows // len(order)
    wanted: list[tuple[int, ...]] = [(rows, first[0].shape[-1] if first[0].ndim else 0), (rows, hidden)]
    wanted += [(rows,)] * (len(first) - 2)
    for part in parts:
        if [value.shape for value in part] != wanted or not hidden or hidden * len(order) != rows:
            given = ", ".join(str(list(x.shape)) for x in part)
            rule = "({0} hidden, features), ({0} hidden, hidden), biases ({0} hidden)".format(len(order))
            raise ShapeError(f"params must be {rule}, got {given}")

    def ordered(value: Values) -> Values:
        return value.reshape(len(order), hidden, -1)[list(order)].reshape(value.shape)

    w, r = (np.stack([ordered(part[index]) for part in parts]) for index in (0, 1))
    if len(first) > 2:
        return w, r, np.stack([np.concatenate([*map(ordered, part[2:])]) for part in parts])
    return w, r, np.zeros((len(parts), 2 * rows), w.dtype)


@composed(out="", returns="tuple[A, A, A]")
def lstm(input: Given, hx: Pair | None, stack: Stack, *, threads: Threads) -> tuple[Any, ...]:
    """Long short-term memory, as torch.lstm: the states, the last states, the last cells. See the module."""
    if hx is not None and (not isinstance(hx, list | tuple) or len(hx) != 2):
        raise InputError("hx must be a pair of arrays, first states and first cells")
    return stack.run("lstm", input, hx or (), threads)


@composed(out="", returns="tuple[A, A]")
def gru(input: Given, hx: State | None, stack: Stack, *, threads: Threads) -> tuple[Any, ...]:
    """Gated recurrent units, as torch.gru: the states and the last states. See the module."""
    return stack.run("gru", input, () if hx is None else (hx,), threads)


@composed(out="", returns="tuple[A, A]")
def rnn_tanh(input: Given, hx: State | None, stack: Stack, *, threads: Threads) -> tuple[Any, ...]:
    """tanh(w_ih x + b_ih + w_hh h + b_hh) step by step, as torch.rnn_tanh: the states and the last states."""
    return stack.run("rnn_tanh", input, () if hx is None else (hx,), threads)


@composed(out="", returns="tuple[A, A]")
def rnn_relu(input: Given, hx: State | None, stack: Stack, *, threads: Threads) -> tuple[Any, ...]:
    """max(w_ih x + b_ih + w_hh h + b_hh, 0) step by step, as torch.rnn_relu: the states and the last states."""
    return stack.run("rnn_relu", input, () if hx is None else (hx,), threads)
