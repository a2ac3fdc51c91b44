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
from dataclasses import dataclass
from typing import Any

import numpy as np

from cenote.core.errors import ArgumentError, InputError, ShapeError, raise_refusal
from cenote.core.types import Array
from cenote.functional.arguments import Operation, Types, flag, given_array, whole
from cenote.functional.bound import BoundOperator
from cenote.functional.dispatch import call
from cenote.functional.random import dropout as drop
from cenote.functional.record import public
from cenote.functional.types import A
from cenote.ops.base import Op
from cenote.ops.sequence.recurrent import GRU, LSTM, RNN

# The places of the kernels' gates among PyTorch's: i o f c of i f g o; z r h of r z n.
_GATES = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn_tanh": (0,), "rnn_relu": (0,)}


@public
def lstm(
    input: A, hx: tuple[A, A] | None, params: Sequence[A], has_biases: bool = True, num_layers: int = 1,
    dropout: float = 0.0, train: bool = False, bidirectional: bool = False, batch_first: bool = False, *,
    threads: int | None = None,
) -> tuple[A, A, A]:  # fmt: skip
    """Long short-term memory, as torch.lstm: the states, the last states, the last cells. See the module."""
    if hx is not None and (not isinstance(hx, list | tuple) or len(hx) != 2):
        raise InputError("lstm: hx must be a pair of arrays, first states and first cells")
    stack = _Stack("lstm", has_biases, num_layers, dropout, train, bidirectional, batch_first, threads)
    made: Any = stack(input, hx or (), params)
    return made


@public
def gru(
    input: A, hx: A | None, params: Sequence[A], has_biases: bool = True, num_layers: int = 1, dropout: float = 0.0,
    train: bool = False, bidirectional: bool = False, batch_first: bool = False, *, threads: int | None = None,
) -> tuple[A, A]:  # fmt: skip
    """Gated recurrent units, as torch.gru: the states and the last states. See the module."""
    stack = _Stack("gru", has_biases, num_layers, dropout, train, bidirectional, batch_first, threads)
    made: Any = stack(input, () if hx is None else (hx,), params)
    return made


@public
def rnn_tanh(
    input: A, hx: A | None, params: Sequence[A], has_biases: bool = True, num_layers: int = 1, dropout: float = 0.0,
    train: bool = False, bidirectional: bool = False, batch_first: bool = False, *, threads: int | None = None,
) -> tuple[A, A]:  # fmt: skip
    """tanh(w_ih x + b_ih + w_hh h + b_hh) step by step, as torch.rnn_tanh: the states and the last states."""
    stack = _Stack("rnn_tanh", has_biases, num_layers, dropout, train, bidirectional, batch_first, threads)
    made: Any = stack(input, () if hx is None else (hx,), params)
    return made


@public
def rnn_relu(
    input: A, hx: A | None, params: Sequence[A], has_biases: bool = True, num_layers: int = 1, dropout: float = 0.0,
    train: bool = False, bidirectional: bool = False, batch_first: bool = False, *, threads: int | None = None,
) -> tuple[A, A]:  # fmt: skip
    """max(w_ih x + b_ih + w_hh h + b_hh, 0) step by step, as torch.rnn_relu: the states and the last states."""
    stack = _Stack("rnn_relu", has_biases, num_layers, dropout, train, bidirectional, batch_first, threads)
    made: Any = stack(input, () if hx is None else (hx,), params)
    return made


def parse_layer(types: Types, where: str, bidirectional: bool) -> Operation:
    """One layer, the length leading: input, weights, biases, first states (and cells)."""
    fields: dict[str, Any] = {"direction": "bidirectional" if bidirectional else "forward"}
    op: Op
    if where == "lstm":
        op = BoundOperator(LSTM(outputs=3, **fields), {4: None, 7: None})
    elif where == "gru":
        op = BoundOperator(GRU(linear_before_reset=True, **fields), {4: None})
    else:
        functions = (("relu", 0.0, 0.0),) * (1 + bidirectional) if where == "rnn_relu" else ()
        op = BoundOperator(RNN(functions=functions, **fields), {4: None})
    return Operation(op, tuple(x.shape for x in types), tuple(y.shape for y in op.infer(*types)))


@dataclass(frozen=True)
class _Stack:
    """Layers on top of each other: the arguments as they came."""

    where: str
    has_biases: Any
    num_layers: Any
    dropout: Any
    train: Any
    bidirectional: Any
    batch_first: Any
    threads: int | None

    def __call__(self, input: Any, first: Sequence[Any], params: Any) -> tuple[Any, ...]:
        try:
            return self._run(input, first, params)
        except (MemoryError, OSError) as error:
            raise_refusal(self.where, error)

    def _run(self, input: object, first: Sequence[Any], params: object) -> tuple[Any, ...]:
        where, both = self.where, flag(self.where, "bidirectional", self.bidirectional)
        layers = whole(where, "num_layers", self.num_layers, 1)
        directions, leads = 1 + both, flag(where, "batch_first", self.batch_first)
        x, restore = given_array(self.where, "input", input)
        if x.ndim != 3:
            order = "(batch, length, features)" if leads else "(length, batch, features)"
            raise ShapeError(f"{where}: expected input {order}, got {list(x.shape)}")
        x = x.swapaxes(0, 1) if leads else x
        weights = self._weights(params, layers, directions)
        hidden = weights[0][1].shape[2]
        given = [given_array(self.where, "hx", value)[0] for value in first]
        states = self._states(given, (layers * directions, x.shape[1], hidden), x.dtype)
        lasts: list[list[Array]] = [[] for _ in states]
        training = flag(where, "train", self.train)
        for layer, matrices in enumerate(weights):
            if layer and training:
                x = drop(x, self.dropout, True, threads=self.threads)
            mine = slice(layer * directions, (layer + 1) * directions)
            arrays = (x, *matrices, *(state[mine] for state in states))
            y, *ends = call(parse_layer, arrays, (where, both), None, self.threads)
            x = y.transpose(0, 2, 1, 3).reshape(*x.shape[:2], directions * hidden)
            for kept, end in zip(lasts, ends, strict=True):
                kept.append(end)
        results = [np.ascontiguousarray(x.swapaxes(0, 1)) if leads else x, *map(np.concatenate, lasts)]
        return tuple(results if restore is None else map(restore, results))

    def _states(self, given: list[Array], shape: tuple[int, ...], dtype: Any) -> list[Array]:
        """First states (and cells)."""
        for state in given:
            if state.shape != shape:
                raise ShapeError(f"{self.where}: hx must have shape {list(shape)}, got {list(state.shape)}")
        return given or [np.zeros(shape, dtype)] * (1 + (self.where == "lstm"))

    def _weights(self, params: object, layers: int, directions: int) -> list[tuple[Array, Array, Array]]:
        """Return each layer's weights and biases of all directions, in the kernels' order of gates."""
        biased = flag(self.where, "has_biases", self.has_biases)
        if not isinstance(params, list | tuple):
            raise InputError(f"{self.where}: params must be a list of arrays")
        each = 4 if biased else 2
        if len(params) != layers * directions * each:
            raise ArgumentError(
                f"{self.where}: {layers} layers of {directions} directions need {layers * directions * each} params, "
                f"{each} each, got {len(params)}"
            )
        arrays = [
            given_array(self.where, f"params[{number}]", value)[0] for number, value in enumerate(params)
        ]
        parts = [arrays[at : at + each] for at in range(0, len(arrays), each)]
        return [self._layer(parts[at : at + directions], biased) for at in range(0, len(parts), directions)]

    def _layer(self, parts: list[list[Array]], biased: bool) -> tuple[Array, Array, Array]:
        order = _GATES[self.where]
        first = parts[0]
        rows = first[1].shape[0] if first[1].ndim == 2 else 0
        hidden = rows // len(order)
        wanted: list[tuple[int, ...]] = [(rows, first[0].shape[-1] if first[0].ndim else 0), (rows, hidden)]
        wanted += [(rows,)] * (2 * biased)
        for part in parts:
            for value, shape in zip(part, wanted, strict=True):
                if value.shape != shape or not hidden or hidden * len(order) != rows:
                    given = ", ".join(str(list(x.shape)) for x in part)
                    rule = "({0} hidden, features), ({0} hidden, hidden), biases ({0} hidden)".format(
                        len(order)
                    )
                    raise ShapeError(f"{self.where}: params must be {rule}, got {given}")

        def ordered(value: Array) -> Array:
            return value.reshape(len(order), hidden, -1)[list(order)].reshape(value.shape)

        w, r = (np.stack([ordered(part[index]) for part in parts]) for index in (0, 1))
        if biased:
            return w, r, np.stack([np.concatenate([*map(ordered, part[2:])]) for part in parts])
        return w, r, np.zeros((len(parts), 2 * rows), w.dtype)
