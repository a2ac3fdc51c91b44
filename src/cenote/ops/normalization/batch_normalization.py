"""Batch normalisation: a scale and a shift per channel; in training mode by the statistics of the batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import Self

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, ShapeError, UnsupportedError
from cenote.core.target import Target
from cenote.core.types import FLOAT32, FLOAT64, PLAIN, Array, Layout, TensorType
from cenote.kernels.base import Call, View, constant_of, present
from cenote.kernels.cost_model import pass_seconds
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.elementwise.elementwise import elementwise_call, operand_of, per_channel
from cenote.ops.base import Arrays, Bind, Box, Imported, Lowering, Op, Sample, Types
from cenote.ops.checks import read, require_float
from cenote.ops.elementwise.pointwise import error_of
from cenote.ops.epilogue import Fusible
from cenote.ops.normalization.layer_normalization import check_way
from cenote.ops.normalization.normalization_lowerings import channel_lowerings, form_of
from cenote.ops.traits import SumOp
from cenote.ops.values import narrow, seeded, wide


@dataclass(frozen=True)
class BatchNormalization(SumOp, Fusible):
    """activation((x - mean) / sqrt(variance + epsilon) * scale + bias), per channel (axis 1).

    Inputs: x, scale, bias, mean, variance (the last four of shape [channels]). In `training` mode mean and
    variance are those of the batch (divided by N), and the outputs are y, running mean and running variance
    (`momentum` of the old, 1 - momentum of the batch's; PyTorch's momentum is the other way round). `unbiased`: the
    running variance takes the batch's divided by N - 1, as PyTorch's. `accumulate`, of the batch's statistics, as in
    LayerNormalization.
    """

    name = "batch_normalization"
    from_onnx = {"BatchNormalization": lambda node: _decode(node)}
    epsilon: float = 1e-5
    training: bool = False
    momentum: float = 0.9
    activation: Activation = field(default_factory=Activation)
    unbiased: bool = False
    accumulate: str | None = None

    operands = ("X", "scale", "B", "input_mean", "input_var")

    def in_float64(self) -> Self | None:
        return super().in_float64() if self.training else None

    def types(self, x: TensorType, *parameters: TensorType) -> Types:
        if self.epsilon < 0:
            raise ArgumentError(f"{self.name}: epsilon {self.epsilon} is negative")
        if x.rank < 1:
            raise ShapeError(f"{self.name}: the input needs a channel axis, got a scalar")
        channels = x.shape[1] if x.rank > 1 else 1
        for what, parameter in zip(self.operands[1:], parameters, strict=True):
            require_float(self.name, parameter.dtype)
            if parameter.shape != (channels,):
                raise ShapeError(
                    f"{self.name}: {what} has shape {list(parameter.shape)}, needs [{channels}] for {x}"
                )
        require_float(self.name, x.dtype)
        check_way(self.name, self.accumulate, x)
        y = TensorType(x.dtype, x.shape)
        running = TensorType(parameters[2].dtype, (channels,)), TensorType(parameters[3].dtype, (channels,))
        return (y, *running) if self.training else (y,)

    def compute(self, *inputs: Array) -> Arrays:
        types = self.declared(*inputs)
        x, scale, bias, mean, variance = map(wide, inputs)
        extra: list[Array] = []
        if self.training:
            axes = tuple(axis for axis in range(x.ndim) if axis != 1)
            old = mean, variance
            mean, variance = x.mean(axis=axes).reshape(-1), x.var(axis=axes).reshape(-1)
            seen = x.size // mean.size if mean.size else 0
            noted = variance * seen / (seen - 1) if self.unbiased else variance
            extra = [
                was * self.momentum + now * (1 - self.momentum)
                for was, now in zip(old, (mean, noted), strict=True)
            ]
        shape = (1, -1, *[1] * (x.ndim - 2)) if x.ndim > 1 else (1,)
        mean, variance, scale, bias = (a.reshape(shape) for a in (mean, variance, scale, bias))
        y = self.activation.apply((x - mean) / np.sqrt(variance + self.epsilon) * scale + bias)
        return tuple(narrow(a, kind.dtype) for a, kind in zip((y, *extra), types, strict=True))

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x, *parameters = inputs
        if x is None or x.rank < 2:
            return
        if self.activation.is_identity:
            form = form_of("layer", self.accumulate, noted="running" if self.training else "given")
            yield from channel_lowerings(form, inputs, self.epsilon, self.momentum, self.unbiased)
        if self.training:
            return
        seconds = pass_seconds(2 * x.nbytes)
        error = error_of(1e-6, x.dtype)
        if all(parameter is not None and parameter.value is not None for parameter in parameters):
            rest = (None,) * 4
            yield Lowering(
                "normalize", (PLAIN, *rest), (PLAIN,), self._binder(target), seconds, error, in_place=(0,)
            )
            if 3 <= x.rank <= 5:
                blocked = Layout(target.lanes(x.dtype))
                yield Lowering(
                    "normalize_blocked",
                    (blocked, *rest),
                    (blocked,),
                    self._binder(target),
                    seconds,
                    error,
                    in_place=(0,),
                )
        elif all(parameter is not None and parameter.dtype == x.dtype for parameter in parameters):
            yield Lowering("standardize", (PLAIN,) * 5, (PLAIN,), self._bind_computed(target), seconds, error)

    def _binder(self, target: Target) -> Bind:
        """Bind constant scale, bias, mean and variance, of which three numbers per channel are left."""

        def bind(inputs: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
            y, (x, *parameters) = outputs[0], inputs
            scale, bias, mean, variance = (wide(constant_of(view)) for view in parameters)
            with np.errstate(all="ignore"):
                factor = scale / np.sqrt(variance + self.epsilon)
            dtype = FLOAT64 if y.type.dtype == FLOAT64 else FLOAT32
            filled = y.blocks * y.layout.lanes if y.layout.is_blocked else y.shape[1]
            packed = [np.zeros(filled, dtype) for _ in range(3)]
            for array, values in zip(packed, (mean, factor, bias), strict=True):
                array[: len(values)] = narrow(values, dtype)
            operands = [operand_of(present(x), y), *(per_channel(array, y) for array in packed)]
            return [elementwise_call("normalize", (), operands, y, target, 2, self.activation)]

        return bind

    def _bind_computed(self, target: Target) -> Bind:
        def bind(inputs: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
            operands = [operand_of(x, outputs[0]) for x in inputs[:1] if x is not None]
            operands += [per_channel(view, outputs[0]) for view in inputs[1:]]
            return [
                elementwise_call(
                    "standardize", (self.epsilon,), operands, outputs[0], target, 8, self.activation
                )
            ]

        return bind

    def operations(self, outputs: Types, *inputs: TensorType) -> int:
        return 2 * outputs[0].size

    def region(self, box: Box, inputs: Sequence[TensorType | None]) -> tuple[Box | None, ...]:
        if self.training:
            return super().region(box, inputs)
        channel = Box(box.ranges[1:2] or ((0, 1),))
        return (box, *[channel] * 4)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for shape in (
            (2, 11, 5, 7),
            (1, 8, 1, 1),
            (3, 9),
            (1, 3, 17),
            (1, 16, 2, 3, 5),
            (2, 0, 3),
            (0, 3, 2),
        ):
            yield Sample(cls(), _inputs(shape, np.float32))
        for shape in ((2, 11, 5, 7), (1, 16, 3, 3)):
            yield Sample(cls(activation=Activation("relu")), _inputs(shape, np.float32), "with relu")
        yield Sample(cls(0.1), _inputs((1, 33, 4, 4), np.float32))
        for dtype in (np.float64, np.float16, "bfloat16"):
            yield Sample(cls(), _inputs((2, 9, 3, 5), np.dtype(dtype)))
        for shape in ((2, 9, 3, 5), (3, 5, 70), (19, 33)):
            yield Sample(cls(training=True), _inputs(shape, np.float32))
        x, *parameters = _inputs((2, 9, 3, 5), np.float32)
        huge = (x * np.float32(1e20), *parameters)
        yield Sample(cls(training=True, accumulate="float64"), huge, "batch_normalization huge")
        yield Sample(cls(training=True, unbiased=True), _inputs((2, 9, 3, 5), np.float16))


def _inputs(shape: tuple[int, ...], dtype: object) -> tuple[Array, ...]:
    x, channels = seeded(shape, 1, dtype), (shape[1],)
    variance = np.abs(seeded(channels, 5, dtype)) + np.asarray(0.1, x.dtype)
    return (x, seeded(channels, 2, dtype), seeded(channels, 3, dtype), seeded(channels, 4, dtype), variance)


def _decode(node: Imported) -> Op:
    op = read(BatchNormalization, node, "epsilon", "momentum", training="training_mode", ignored=("spatial",))
    if not node.get("spatial", 1):
        raise UnsupportedError("BatchNormalization-7: spatial=0 is not supported; export with opset 9")
    if node.outputs > 1 and not op.training:
        raise UnsupportedError(
            f"BatchNormalization-{node.opset}: {node.outputs} outputs mean training, which this opset does "
            "not define further; export the model for inference"
        )
    return op
