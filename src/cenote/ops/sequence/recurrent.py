"""RNN, LSTM and GRU: one recurrent layer over a batch of sequences, forwards, backwards or both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, ShapeError, UnsupportedError
from cenote.core.target import Target
from cenote.core.types import Array, TensorType
from cenote.kernels.base import present
from cenote.ops.base import Arrays, Imported, Lowering, Op, Sample, Types
from cenote.ops.checks import one_of, read, require, require_kind, require_same_dtype
from cenote.ops.sequence.recurrent_lowerings import recurrent_lowerings
from cenote.ops.values import narrow, seeded, wide

Function = tuple[str, float, float]  # activation with its alpha and beta
DIRECTIONS = ("forward", "reverse", "bidirectional")

# Function of (x, alpha, beta), default alpha and beta (None: not used; NaN: must be given).
_FUNCTIONS: Mapping[str, tuple[Callable[[Array, float, float], Any], float | None, float | None]] = {
    "relu": (lambda x, a, b: np.maximum(x, 0), None, None),
    "tanh": (lambda x, a, b: np.tanh(x), None, None),
    "sigmoid": (lambda x, a, b: 1 / (1 + np.exp(-x)), None, None),
    "affine": (lambda x, a, b: a * x + b, 1.0, 0.0),
    "leakyrelu": (lambda x, a, b: np.where(x >= 0, x, a * x), 0.01, None),
    "thresholdedrelu": (lambda x, a, b: np.where(x >= a, x, 0), 1.0, None),
    "scaledtanh": (lambda x, a, b: a * np.tanh(b * x), np.nan, np.nan),
    "hardsigmoid": (lambda x, a, b: np.clip(a * x + b, 0, 1), 0.2, 0.5),
    "elu": (lambda x, a, b: np.where(x >= 0, x, a * np.expm1(x)), 1.0, None),
    "softsign": (lambda x, a, b: x / (1 + np.abs(x)), None, None),
    "softplus": (lambda x, a, b: np.logaddexp(0, x), None, None),
}


def _functions(node: Imported) -> tuple[Function, ...]:
    """The activations with alpha and beta, which are listed for those functions only that have one."""
    alphas, betas = list(node.get("activation_alpha", ())), list(node.get("activation_beta", ()))
    functions: list[Function] = []
    for name in node.get("activations", ()):
        key = str(name).lower()
        if key not in _FUNCTIONS:
            raise UnsupportedError(f"{node.op}: activation {name} is not known ({', '.join(_FUNCTIONS)})")
        values = []
        for default, given in zip(_FUNCTIONS[key][1:], (alphas, betas), strict=True):
            values.append(0.0 if default is None else float(given.pop(0)) if given else default)
        if np.isnan(values).any():
            raise ArgumentError(f"{node.op}: activation {name} needs an alpha and a beta")
        functions.append((key, values[0], values[1]))
    return tuple(functions)


def decode_recurrent(node: Imported) -> _Recurrent:
    """RNN, LSTM and GRU of ai.onnx 7, 14 (layout) and 22."""
    makes: dict[str, type[_Recurrent]] = {"RNN": RNN, "GRU": GRU, "LSTM": LSTM}
    own = {"GRU": {"linear_before_reset": "linear_before_reset"}, "LSTM": {"coupled": "input_forget"}}
    op = read(
        makes[node.op], node, "direction", "clip", hidden="hidden_size", batch_first="layout", counted="outputs",
        ignored=("activations", "activation_alpha", "activation_beta"), **own.get(node.op, {}),
    )  # fmt: skip
    return replace(op, functions=_functions(node))


@dataclass(frozen=True)
class _Recurrent(Op):
    """Base of RNN, GRU and LSTM.

    x is (length, batch, features), w (directions, gates * hidden, features), r (directions, gates * hidden,
    hidden), the bias (directions, 2 * gates * hidden), first states (directions, batch, hidden); with
    `batch_first` the batch leads in x, states and outputs. Samples shorter than the batch's length
    (`lengths`) give zeros past their end, and their last state is that of their own end. `clip` > 0 bounds what
    goes into the activations. Outputs: all states (length, directions, batch, hidden), the last state, and an
    LSTM's last cell.
    """

    direction: str = "forward"
    functions: tuple[Function, ...] = ()
    clip: float = 0.0
    hidden: int = 0
    batch_first: bool = False
    outputs: int = 2

    operands: ClassVar[tuple[str, ...]] = ("x", "w", "r", "bias?", "lengths?", "first_state?")
    gates: ClassVar[int] = 1
    defaults: ClassVar[tuple[Function, ...]] = (("tanh", 0.0, 0.0),)
    coupled, cell_clip = False, 0.0  # fields of LSTM

    def step(self, x: Array, state: Array, cell: Array, weights: GateWeights) -> tuple[Array, Array]:
        """The next state and cell, from one time step of the batch."""
        raise NotImplementedError

    def types(self, *inputs: TensorType | None) -> Types:
        x, _, r = (require(self.name, value, what) for value, what in zip(inputs[:3], "xwr", strict=True))
        one_of(self.name, "direction", self.direction, DIRECTIONS)
        directions = 2 if self.direction == "bidirectional" else 1
        if len(self.functions) not in (0, directions * len(self.defaults)):
            raise ArgumentError(f"{self.name}: {len(self.functions)} activations do not fit {self.direction}")
        if x.rank != 3 or r.rank != 3:
            raise ShapeError(f"{self.name}: x {x} and r {r} must have three axes")
        batch, length = x.shape[:2] if self.batch_first else x.shape[1::-1]
        hidden, gates = r.shape[2], self.gates
        state = (batch, directions, hidden) if self.batch_first else (directions, batch, hidden)
        wanted: dict[str, tuple[int, ...]] = {
            "w": (directions, gates * hidden, x.shape[2]),
            "r": (directions, gates * hidden, hidden),
            "bias?": (directions, 2 * gates * hidden),
            "lengths?": (batch,),
            "first_state?": state,
            "first_cell?": state,
            "peepholes?": (directions, 3 * hidden),
        }
        if self.hidden not in (0, hidden):
            raise ShapeError(f"{self.name}: hidden size {self.hidden} does not match r {r}")
        for what, value in zip(self.operands[1:], inputs[1:], strict=True):
            if value is not None and value.shape != wanted[what]:
                raise ShapeError(
                    f"{self.name}: {what.rstrip('?')} {value} must have shape {list(wanted[what])}"
                )
        if inputs[4] is not None:
            require_kind(self.name, inputs[4], "i", "lengths")
        dtype = require_same_dtype(self.name, require_kind(self.name, x, "f", "x"), *inputs[1:4], *inputs[5:])
        y = (batch, length, directions, hidden) if self.batch_first else (length, directions, batch, hidden)
        return (TensorType(dtype, y), TensorType(dtype, state), TensorType(dtype, state))[: self.outputs]

    def compute(self, *inputs: Array | None) -> Arrays:
        types = self.declared(*inputs)
        arrays = [None if value is None else wide(value) for value in inputs]
        x, r, first = present(arrays[0]), present(arrays[2]), arrays[5:7]
        if self.batch_first:
            x, first = x.swapaxes(0, 1), [None if s is None else s.swapaxes(0, 1) for s in first]
        length, batch, hidden = *x.shape[:2], r.shape[2]
        lengths = np.full(batch, length) if inputs[4] is None else inputs[4].astype(np.int64)
        if lengths.size and not 0 <= lengths.min() <= lengths.max() <= length:
            raise ArgumentError(f"{self.name}: a length is not within 0 to {length}")
        sweeps = [("forward",), ("reverse",), ("forward", "reverse")][DIRECTIONS.index(self.direction)]
        parts = []
        for index, way in enumerate(sweeps):
            starts = [np.zeros((batch, hidden)) if s is None else s[index] for s in (*first, None, None)[:2]]
            parts.append(self._sweep(x, starts, lengths, way == "reverse", self._weights(arrays, index)))
        y = np.stack([part[0] for part in parts], 1)
        states = [np.stack([part[k] for part in parts]) for k in (1, 2)]
        if self.batch_first:
            y, states = y.transpose(2, 0, 1, 3), [state.swapaxes(0, 1) for state in states]
        return tuple(narrow(value, kind.dtype) for value, kind in zip((y, *states), types, strict=False))

    def _weights(self, arrays: Sequence[Array | None], index: int) -> GateWeights:
        """One direction's weights, one entry per gate."""
        w, r, bias = present(arrays[1]), present(arrays[2]), arrays[3]
        size = r.shape[2]
        biases = (
            np.zeros((2 * self.gates, size)) if bias is None else bias[index].reshape(2 * self.gates, size)
        )
        holes = arrays[7] if len(arrays) > 7 else None
        count = len(self.defaults)
        functions = self.functions[index * count : (index + 1) * count] or self.defaults
        return GateWeights(
            w=w[index].reshape(self.gates, size, w.shape[2]).swapaxes(1, 2),
            r=r[index].reshape(self.gates, size, size).swapaxes(1, 2),
            input_bias=biases[: self.gates],
            state_bias=biases[self.gates :],
            peepholes=np.zeros((3, size)) if holes is None else holes[index].reshape(3, size),
            functions=functions,
            clip=self.clip,
        )

    def _sweep(
        self, x: Array, starts: list[Array], lengths: Array, backwards: bool, weights: GateWeights
    ) -> tuple[Array, Array, Array]:
        """States of one direction, the last state and the last cell. A sample past its end keeps its state."""
        state, cell = starts
        y = np.zeros((*x.shape[:2], state.shape[1]))
        for time in reversed(range(x.shape[0])) if backwards else range(x.shape[0]):
            running = (time < lengths)[:, None]
            new_state, new_cell = self.step(x[time], state, cell, weights)
            state, cell = np.where(running, new_state, state), np.where(running, new_cell, cell)
            y[time] = np.where(running, new_state, 0)
        return y, state, cell

    @property
    def cell(self) -> str:
        """Name of the cell in kernels."""
        return self.name

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        yield from recurrent_lowerings(self, inputs, target)

    def operations(self, outputs: Types, *inputs: TensorType | None) -> int:
        x, w, r = map(present, inputs[:3])
        return 2 * x.shape[0] * x.shape[1] * (w.size + r.size)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for direction, count in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
            w, r = seeded((count, cls.gates * 4, 3), 2), seeded((count, cls.gates * 4, 4), 3)
            bias, first = seeded((count, cls.gates * 8), 4), seeded((count, 2, 4), 5)
            extra = (first, seeded((count, 12), 6)) if cls.gates == 4 else ()
            x, lengths = seeded((5, 2, 3), 1), np.array([5, 2], np.int32)
            outputs = 3 if cls.gates == 4 else 2
            yield Sample(cls(direction, outputs=outputs), (x, w, r, bias, lengths, first, *extra))
            yield Sample(cls(direction, outputs=1, clip=0.5), (x[:1], w, r), "one step")
            swapped = (x.swapaxes(0, 1).copy(), w, r, None, None, first.swapaxes(0, 1).copy())
            yield Sample(cls(direction, batch_first=True), swapped, "batch first")
        yield Sample(cls(), (x[:0], w[:1], r[:1], None, None, first[:1]), "no steps")
        yield Sample(cls(), (x[:, :0], w[:1], r[:1]), "no samples")
        for batch, hidden in ((1, 32), (5, 48), (3, 17)):
            size = cls.gates * hidden
            w, r, bias = seeded((2, size, 9), 1), seeded((2, size, hidden), 2), seeded((2, 2 * size), 3)
            inputs = (seeded((4, batch, 9), 4), w / np.float32(3), r / np.float32(hidden**0.5), bias)
            lengths = np.array([4, 0, 1, 3, 2][:batch])
            yield Sample(cls("bidirectional"), (*inputs, lengths), f"{batch} samples, {hidden} units")
        other = (("relu", 0.0, 0.0), ("softsign", 0.0, 0.0), ("elu", 0.5, 0.0))[: len(cls.defaults)]
        yield Sample(
            cls("reverse", other), (inputs[0], w[:1], r[:1] / np.float32(9), bias[:1]), "activations"
        )


@dataclass(frozen=True)
class GateWeights:
    """One direction: per gate (gates, features, hidden) and (gates, hidden, hidden), biases (gates, hidden)."""

    w: Array
    r: Array
    input_bias: Array
    state_bias: Array
    peepholes: Array
    functions: tuple[Function, ...]
    clip: float

    def from_input(self, x: Array, gate: int) -> Array:
        return np.asarray(x @ self.w[gate] + self.input_bias[gate])

    def from_state(self, state: Array, gate: int) -> Array:
        return np.asarray(state @ self.r[gate] + self.state_bias[gate])

    def apply(self, index: int, x: Array) -> Array:
        """A gate's activation, after clipping."""
        return self.activated(index, np.clip(x, -self.clip, self.clip) if self.clip > 0 else x)

    def activated(self, index: int, x: Array) -> Array:
        """An activation alone."""
        name, alpha, beta = self.functions[index]
        return np.asarray(_FUNCTIONS[name][0](x, alpha, beta))


@dataclass(frozen=True)
class RNN(_Recurrent):
    """h = f(x w + h r + biases)."""

    name = "rnn"
    from_onnx = {"RNN": decode_recurrent}

    def step(self, x: Array, state: Array, cell: Array, weights: GateWeights) -> tuple[Array, Array]:
        return weights.apply(0, weights.from_input(x, 0) + weights.from_state(state, 0)), cell


@dataclass(frozen=True)
class GRU(_Recurrent):
    """Gates z (update), r (reset), then h' = g(x w + (r h) r + biases) and h = (1 - z) h' + z h.

    `linear_before_reset` multiplies by r after the matrix and its bias instead (as PyTorch and cuDNN).
    """

    linear_before_reset: bool = False

    name = "gru"
    gates: ClassVar[int] = 3
    defaults: ClassVar[tuple[Function, ...]] = (("sigmoid", 0.0, 0.0), ("tanh", 0.0, 0.0))
    from_onnx = {"GRU": decode_recurrent}

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield from super().samples()
        for sample in super().samples():
            if isinstance(sample.op, GRU):
                yield replace(sample, op=replace(sample.op, linear_before_reset=True))

    @property
    def cell(self) -> str:
        return "gru_after" if self.linear_before_reset else "gru"

    def step(self, x: Array, state: Array, cell: Array, weights: GateWeights) -> tuple[Array, Array]:
        update, reset = (
            weights.apply(0, weights.from_input(x, k) + weights.from_state(state, k)) for k in (0, 1)
        )
        if self.linear_before_reset:
            recurrent = reset * weights.from_state(state, 2)
        else:
            recurrent = weights.from_state(reset * state, 2)
        fresh = weights.apply(1, weights.from_input(x, 2) + recurrent)
        return (1 - update) * fresh + update * state, cell


@dataclass(frozen=True)
class LSTM(_Recurrent):
    """Gates i, o, f (ONNX's order: i, o, f, c), C = f C + i g(...), h = o h(C), with peepholes from the cell.

    `coupled` makes f = 1 - i. `clip` bounds what goes into the gates' activations and g, not the cell on its way to h,
    as in ONNX Runtime. `cell_clip` > 0 bounds the cell C, as in TensorFlow Lite.
    """

    coupled: bool = False
    cell_clip: float = 0.0

    name = "lstm"
    operands = (*_Recurrent.operands, "first_cell?", "peepholes?")
    gates: ClassVar[int] = 4
    defaults: ClassVar[tuple[Function, ...]] = (
        ("sigmoid", 0.0, 0.0),
        ("tanh", 0.0, 0.0),
        ("tanh", 0.0, 0.0),
    )
    from_onnx = {"LSTM": decode_recurrent}

    def step(self, x: Array, state: Array, cell: Array, weights: GateWeights) -> tuple[Array, Array]:
        total = [weights.from_input(x, k) + weights.from_state(state, k) for k in range(4)]
        peep_i, peep_o, peep_f = weights.peepholes
        opened = weights.apply(0, total[0] + peep_i * cell)
        kept = 1 - opened if self.coupled else weights.apply(0, total[2] + peep_f * cell)
        cell = kept * cell + opened * weights.apply(1, total[3])
        if self.cell_clip > 0:
            cell = np.clip(cell, -self.cell_clip, self.cell_clip)
        shown = weights.apply(0, total[1] + peep_o * cell)
        return shown * weights.activated(2, cell), cell

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield from super().samples()
        x, w, r = seeded((3, 2, 3), 1), seeded((1, 16, 3), 2), seeded((1, 16, 4), 3)
        yield Sample(cls(coupled=True, outputs=3), (x, w, r), "coupled")
        yield Sample(cls(cell_clip=0.1, outputs=3), (x, w, r), "clipped cell")
