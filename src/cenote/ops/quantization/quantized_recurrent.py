"""DynamicQuantizeLSTM of ONNX Runtime: an LSTM whose products are those of bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import DTypeError, ShapeError
from cenote.core.target import Target
from cenote.core.types import FLOAT32, FLOAT64, Array, TensorType
from cenote.kernels.base import present
from cenote.ops.base import Arrays, Imported, Lowering, Op, Sample, Types
from cenote.ops.checks import require, require_same_dtype
from cenote.ops.quantization.quantize import DynamicQuantizeLinear
from cenote.ops.quantization.quantized_linear import check_bytes
from cenote.ops.quantization.recurrent_lowerings import quantized_recurrent_lowerings
from cenote.ops.sequence.recurrent import LSTM, GateWeights, decode_recurrent
from cenote.ops.values import seeded

_LSTM = ("x", "w", "r", "bias?", "lengths?", "first_state?", "first_cell?", "peepholes?")


@dataclass(frozen=True)
class DynamicQuantizeLSTM(LSTM):
    """An LSTM with weights of bytes, which rounds what it multiplies by them to uint8.

    w is (directions, features, 4 * hidden) and r (directions, hidden, 4 * hidden), int8 or uint8, each with a scale and
    a zero point per direction, or one per direction and column. x (all of it) and each step's state (of all samples)
    are rounded to the 255 steps that just hold their range and 0, as DynamicQuantizeLinear does. Else as in LSTM.
    """

    name = "dynamic_quantize_lstm"
    operands = (*_LSTM, "w_scale", "w_zero_point", "r_scale", "r_zero_point")
    from_onnx = {"com.microsoft.DynamicQuantizeLSTM": lambda node: _decode(node)}

    def types(self, *inputs: TensorType | None) -> Types:
        plain = list(inputs[:8])
        for place, at, what in ((1, 8, "w"), (2, 10, "r")):
            matrix = require(self.name, inputs[place], what)
            scale = require(self.name, inputs[at], f"{what}_scale")
            zero = require(self.name, inputs[at + 1], f"{what}_zero_point")
            check_bytes(self.name, matrix, what)
            require_same_dtype(self.name, matrix, zero)
            if scale.dtype != FLOAT32:
                raise DTypeError(f"{self.name}: {what}_scale {scale} must be float32")
            if matrix.rank != 3:
                raise ShapeError(f"{self.name}: {what} {matrix} must have three axes")
            for value in (scale, zero):
                if value.shape not in (matrix.shape[:1], (matrix.shape[0], matrix.shape[2])):
                    raise ShapeError(
                        f"{self.name}: {value} must have one number per direction of {what} {matrix}, or per column"
                    )
            plain[place] = TensorType(FLOAT32, (matrix.shape[0], matrix.shape[2], matrix.shape[1]))
        return self._plain.types(*plain)

    def compute(self, *inputs: Array | None) -> Arrays:
        x, w, r, *rest = inputs[:8]
        x, w_scale, w_zero, r_scale, r_zero = (present(each) for each in (x, *inputs[8:]))
        lengths = rest[1]
        # What lies behind the longest sample is not read.
        steps = x.swapaxes(0, 1) if self.batch_first else x
        end = len(steps) if lengths is None or not lengths.size else max(0, int(lengths.max()))
        read = np.zeros(steps.shape, FLOAT32)
        read[:end] = _rounded(steps[:end])
        read = read.swapaxes(0, 1) if self.batch_first else read
        matrices = _dequantized(present(w), w_scale, w_zero), _dequantized(present(r), r_scale, r_zero)
        return self._plain.compute(read, *matrices, *rest)

    @property
    def _plain(self) -> _RoundedStates:
        """The operator on dequantised weights and a rounded x."""
        return _RoundedStates(**{each.name: getattr(self, each.name) for each in fields(LSTM)})

    @property
    def cell(self) -> str:
        return LSTM.name

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        yield from quantized_recurrent_lowerings(self, self.arranged(inputs), target)

    def operations(self, outputs: Types, *inputs: TensorType | None) -> int:
        return super().operations(outputs, *inputs[:8])

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for direction, count in (("forward", 1), ("bidirectional", 2)):
            w, r = seeded((count, 3, 16), 1, np.int8), seeded((count, 4, 16), 2, np.int8)
            bias, scale = seeded((count, 32), 3), np.full(count, 0.01, np.float32)
            zeros = np.zeros(count, np.int8)
            x = seeded((5, 2, 3), 4)
            plain = (x, w, r, bias, None, None, None, None, scale, zeros, scale, zeros)
            yield Sample(cls(direction, outputs=3), plain)
            many = (np.full((count, 16), 0.02, np.float32), np.full((count, 16), 3, np.int8))
            lengths = np.array([5, 2], np.int32)
            yield Sample(
                cls(direction),
                (x, w, r, bias, lengths, None, None, None, *many, *many),
                "per column, lengths",
            )
        yield from cls._many_samples()

    @classmethod
    def _many_samples(cls) -> Iterator[Sample]:
        """Samples of more rows than a kernel takes at a time, units that fill no vector, and weights that lie further
        than 127 from their zero points."""
        for dtype, direction, batch, hidden in ((np.uint8, "reverse", 6, 18), (np.int8, "forward", 5, 33)):
            w, r = seeded((1, 7, 4 * hidden), 1, dtype), seeded((1, hidden, 4 * hidden), 2, dtype)
            zeros = np.broadcast_to(np.arange(4 * hidden).astype(dtype) % dtype(100), (1, 4 * hidden)).copy()
            scale = np.abs(seeded((1, 4 * hidden), 3)) * np.float32(0.004)
            bias, holes = seeded((1, 8 * hidden), 4), seeded((1, 3 * hidden), 5)
            first, cell = seeded((1, batch, hidden), 6), seeded((1, batch, hidden), 7)
            given = (
                seeded((4, batch, 7), 8),
                w,
                r,
                bias,
                None,
                first,
                cell,
                holes,
                scale,
                zeros,
                scale,
                zeros,
            )
            yield Sample(cls(direction, outputs=3), given, f"{batch} samples, {hidden} units")


class _RoundedStates(LSTM):
    """An LSTM whose states are rounded before they are multiplied."""

    def step(self, x: Array, state: Array, cell: Array, weights: GateWeights) -> tuple[Array, Array]:
        return super().step(x, _rounded(state.astype(FLOAT32)), cell, weights)

    def _sweep(
        self, x: Array, starts: list[Array], lengths: Array, backwards: bool, weights: GateWeights
    ) -> tuple[Array, Array, Array]:
        """As in LSTM, but backwards all samples begin in one step, each at its own end, and a sample past its end has
        a state of zeros in the range by which states are rounded."""
        state, cell = starts
        x = _reversed(x, lengths) if backwards else x
        y, last = np.zeros((*x.shape[:2], state.shape[1])), state
        for time in range(len(x)):
            running = (time < lengths)[:, None]
            state, new_cell = self.step(x[time], state, cell, weights)
            state, cell = np.where(running, state, 0), np.where(running, new_cell, cell)
            y[time], last = state, np.where(running, state, last)
        return (_reversed(y, lengths) if backwards else y), last, cell


def _reversed(x: Array, lengths: Array) -> Array:
    """Sequences (length, batch, numbers) with each sample's own part from its end to its begin."""
    steps = np.arange(len(x))[:, None]
    return np.asarray(
        np.take_along_axis(x, np.where(steps < lengths, lengths - 1 - steps, steps)[:, :, None], 0)
    )


def _rounded(x: Array) -> Array:
    """x in the steps that DynamicQuantizeLinear finds for it, as float64."""
    whole, scale, zero = DynamicQuantizeLinear().compute(x)
    return (whole.astype(FLOAT64) - float(zero)) * float(scale)


def _dequantized(matrix: Array, scale: Array, zero: Array) -> Array:
    """The matrices (directions, columns, rows) as float32."""
    steps, middle = (each.astype(FLOAT64).reshape(len(matrix), 1, -1) for each in (scale, zero))
    values: Array = ((matrix.astype(FLOAT64) - middle) * steps).swapaxes(1, 2)
    return values.astype(FLOAT32)


def _decode(node: Imported) -> Op:
    plain = decode_recurrent(replace(node, op="LSTM", opset=14))
    return DynamicQuantizeLSTM(**{each.name: getattr(plain, each.name) for each in fields(plain)})
