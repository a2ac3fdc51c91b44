"""An LSTM on bytes: x is quantised and multiplied by its weights, then a kernel walks the steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace

import numpy as np

from cenote.core.sizes import plain
from cenote.core.target import Target
from cenote.core.types import FLOAT32, INT64, PLAIN, Array, TensorType
from cenote.kernels.base import Argument, Call, View, dense_strides, present
from cenote.kernels.cost_model import LAUNCH, moved_seconds
from cenote.kernels.elementwise.elementwise import Operand, elementwise_call
from cenote.kernels.elementwise.expression import Expression, Step
from cenote.kernels.quantized.product_calls import ByteWeights
from cenote.kernels.sequence.longest import longest_call
from cenote.kernels.sequence.quantized_recurrent import (
    QuantizedPacking,
    QuantizedRecurrentSpec,
    scratch_bytes,
)
from cenote.kernels.sequence.recurrent import RecurrentSpec
from cenote.ops.base import Lowering
from cenote.ops.quantization.product_lowerings import ByteProduct, product_lowerings
from cenote.ops.quantization.quantize_lowerings import dynamic_lowerings
from cenote.ops.sequence.recurrent_lowerings import (
    LengthsCheck,
    RecurrentAttributes,
    RecurrentLayer,
    is_native,
)

_UINT8 = np.dtype(np.uint8)
_LENGTHS = 4  # place among the inputs
_PLAIN = 8  # inputs of an LSTM; scale and zero point of the weights of inputs and of states follow


def quantized_recurrent_lowerings(
    op: RecurrentAttributes, inputs: Sequence[TensorType | None], target: Target
) -> Iterator[Lowering]:
    """One way where weights, scales and zero points are constants."""
    x, w, r = (present(kind) for kind in inputs[:3])
    constants = [present(inputs[place]).value for place in (1, 2, *range(_PLAIN, _PLAIN + 4))]
    if any(each is None for each in constants) or not is_native(op, [x, w, r]):
        return
    if inputs[4] is not None and op.batch_first:
        return
    types = list(inputs[:_PLAIN])
    types[1:3] = [TensorType(FLOAT32, (each.shape[0], each.shape[2], each.shape[1])) for each in (w, r)]
    yield from _Layer(op, types, [present(each) for each in constants], target).lowerings(len(inputs))


class _Layer(RecurrentLayer):
    """A layer on inputs of some types, and its constants: weights, then scale and zero point of each."""

    packing: QuantizedPacking

    def __init__(
        self,
        op: RecurrentAttributes,
        inputs: Sequence[TensorType | None],
        constants: Sequence[Array],
        target: Target,
    ) -> None:
        super().__init__(op, tuple(inputs), target)
        w, r, w_scale, w_zero, r_scale, r_zero = constants
        self.w_scale, self.r_scale = (self._columns(each) for each in (w_scale, r_scale))
        self.r = ByteWeights.of(_side_by_side(r), self._columns(r_zero).reshape(-1))
        self.product = self._product_of(_side_by_side(w), self._columns(w_zero).reshape(-1))
        x = present(self.inputs[0])
        self.whole = (TensorType(_UINT8, x.shape), TensorType(FLOAT32, ()), TensorType(_UINT8, ()))
        (self.quantisation,) = dynamic_lowerings(x, self.whole, target)

    def _columns(self, values: Array) -> Array:
        """Numbers of directions, or of directions and columns, as (directions, columns)."""
        rows = values.reshape(self.directions, -1)
        return np.ascontiguousarray(np.broadcast_to(rows, (self.directions, self.columns // self.directions)))

    def packed_as(self, rows: int, target: Target) -> QuantizedPacking:
        return QuantizedPacking(
            self.op.cell, self.hidden, rows, target.lanes(), target.registers, target.dots
        )

    @property
    def positions(self) -> TensorType:
        """Type of the inputs of all steps, quantised."""
        return TensorType(_UINT8, (self.steps * self.batch, self.features))

    def _product_of(self, w: Array, zero: Array) -> Lowering:
        """The product of all inputs with the weights of all directions, side by side."""
        kinds = [self.positions, TensorType.known(w), TensorType(_UINT8, ()), TensorType.known(zero)]
        kinds.append(TensorType(FLOAT32, (self.columns,)))
        offered = product_lowerings(ByteProduct(0, 1, 2, 3, scales=4), kinds, 5, self.target)
        return min(offered, key=lambda each: plain(each.seconds))

    @property
    def own(self) -> tuple[TensorType, ...]:
        """Memory of the product (with room for a vector read past the end), of its scales, and of x quantised."""
        made = TensorType(FLOAT32, (self.steps * self.batch * self.columns + self.target.lanes(),))
        return made, TensorType(FLOAT32, (self.columns,)), *self.whole

    def lowerings(self, count: int) -> Iterator[Lowering]:
        constant = {1, 2, *range(_PLAIN, count)}
        kinds = [*self.inputs, *[None] * (count - _PLAIN)]
        layouts = tuple(
            None if place in constant or kind is None else PLAIN for place, kind in enumerate(kinds)
        )
        temporaries = [*self.own, *self.quantisation.temporaries, *self.product.temporaries]
        check = None
        if self.has(_LENGTHS):
            check = LengthsCheck(self.steps)
            temporaries += [
                present(self.inputs[0]).bare,
                TensorType(INT64, (self.directions * self.batch, 2)),
            ]
        streamed = plain(self.steps * self.tiles) * self.directions * self.packing.size
        seconds = self.quantisation.seconds + self.product.seconds + moved_seconds(streamed) + 2 * LAUNCH
        # A state that lies between two bytes may become either.
        tolerance = 1e-2
        outputs = (PLAIN,) * self.op.outputs
        costs = (seconds, tolerance)
        yield Lowering("byte_steps", layouts, outputs, self.bind, *costs, tuple(temporaries), check=check)

    def bind(self, views: Sequence[View | None], made: Sequence[View]) -> Sequence[Call]:
        outputs, memory = made[: self.op.outputs], list(made[self.op.outputs :])
        x, lengths, noted = present(views[0]), views[_LENGTHS], None
        calls: list[Call] = []
        if lengths is not None:
            # What lies behind the longest sample has no part in the range by which x is quantised.
            noted, read = memory.pop(), memory.pop()
            calls.append(longest_call(x, lengths, read))
            x = read
        z, scales, *whole = memory[: len(self.own)]
        rest = memory[len(self.own) :]
        count = len(self.quantisation.temporaries)
        quantised = self.quantisation.bind([x], [*whole, *rest[:count]])
        single = Operand(whole[1], (0,), is_scalar=True)
        scaled = elementwise_call(
            Expression(2, (Step("mul", (0, 1), FLOAT32),)),
            (),
            [single, Operand(self.w_scale.reshape(-1), (1,))],
            scales,
            self.target,
        )
        rows = _shaped(whole[0], self.positions)
        sums = _shaped(z, TensorType(FLOAT32, (self.steps * self.batch, self.columns)))
        products = self.product.bind([rows, None, whole[2], None, scales], [sums, *rest[count:]])
        weights = self.packing.pack(self.r.values.reshape(self.hidden, self.directions, -1).swapaxes(0, 1))
        steps = self.steps_call(views[:_PLAIN], outputs, z, weights, noted)
        return [*calls, *quantised, scaled, *products, steps]

    @property
    def more_words(self) -> dict[str, Argument]:
        by_column, zeros = self.packing.by_column, self.r.zeros
        return {
            "r_scales": by_column(self.r_scale),
            "r_sums": by_column(self.r.sums.reshape(self.directions, -1)),
            "r_zeros": None if zeros is None else by_column(zeros.reshape(self.directions, -1)),
        }

    @property
    def items(self) -> int:
        return self.directions

    @property
    def scratch(self) -> int:
        return scratch_bytes(self.packing.rows, self.packing.width, self.tiles)

    def spec(self, lengths: View | None) -> RecurrentSpec:
        plain_spec = super().spec(lengths)
        given = {each.name: getattr(plain_spec, each.name) for each in fields(RecurrentSpec)}
        return QuantizedRecurrentSpec(**given, dots=self.target.dots, zeros=self.r.zeros is not None)


def _side_by_side(weights: Array) -> Array:
    """The weights (directions, rows, columns) as one matrix (rows, columns of all directions)."""
    return np.ascontiguousarray(weights.swapaxes(0, 1).reshape(weights.shape[1], -1))


def _shaped(view: View, kind: TensorType) -> View:
    """Contiguous memory, or its begin, as a tensor of a type."""
    return replace(view, type=kind, strides=dense_strides(kind.shape))
