"""Steps of optimisers (ai.onnx.preview.training): Adagrad, Adam and Momentum, on any number of tensors at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ShapeError
from cenote.core.types import INT64, Array, TensorType
from cenote.ops.base import Arrays, Op, Sample, Types
from cenote.ops.checks import one_of, read, require_float, require_kind
from cenote.ops.values import narrow, seeded, wide

DOMAIN = "ai.onnx.preview.training"


@dataclass(frozen=True)
class _Optimizer(Op):
    """Base of the optimisers.

    Inputs: the learning rate, how many steps there were before (one integer), then the tensors, their gradients and
    their states, kind by kind. Outputs: the new tensors and states, in the same order. `decay` times the tensor is
    added to its gradient (what comes of the square of its norm).
    """

    decay: float = 0.0

    operands: ClassVar[tuple[str, ...]] = ("rate", "steps", "tensors*")
    states: ClassVar[int] = 1

    def step(self, rate: float, steps: int, x: Array, gradient: Array, *states: Array) -> Sequence[Array]:
        """The new tensor and states of one tensor, in float64."""
        raise NotImplementedError(f"{type(self).__name__}.step")

    def types(self, rate: TensorType, steps: TensorType, *tensors: TensorType) -> Types:
        require_kind(self.name, rate, "f", "rate")
        require_kind(self.name, steps, "i", "steps")
        if rate.size != 1 or steps.size != 1:
            raise ShapeError(f"{self.name}: rate {rate} and steps {steps} must hold one number each")
        kinds = 2 + self.states
        count = len(tensors) // kinds
        if len(tensors) % kinds:
            raise ShapeError(
                f"{self.name}: {len(tensors)} tensors are not {kinds} for each that is optimised"
            )
        for index, x in enumerate(tensors):
            first = tensors[index % count]
            require_float(self.name, x.dtype)
            if (x.dtype, x.shape) != (first.dtype, first.shape):
                raise ShapeError(f"{self.name}: input {index + 2} is {x}, its tensor {first}")
        return tuple(TensorType(x.dtype, x.shape) for x in (*tensors[:count], *tensors[2 * count :]))

    def compute(self, rate: Array, steps: Array, *tensors: Array) -> Arrays:
        count = len(tensors) // (2 + self.states)
        rows = [
            self.step(
                float(wide(rate).reshape(())), int(steps.reshape(())), *map(wide, tensors[index::count])
            )
            for index in range(count)
        ]
        made = [row[kind] for kind in range(1 + self.states) for row in rows]
        kept = (*tensors[:count], *tensors[2 * count :])
        return tuple(narrow(y, x.dtype) for y, x in zip(made, kept, strict=True))

    def operations(self, outputs: Types, *inputs: TensorType) -> int:
        return 10 * sum(y.size for y in outputs)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        rate = np.array(0.1, np.float32)
        for steps, shapes in ((0, [(3, 5)]), (4, [(2,), (1, 4)])):
            values = [seeded(shape, index) for index in (1, 2) for shape in shapes]
            states = [np.abs(seeded(shape, 3 + i)) for i in range(cls.states) for shape in shapes]
            yield Sample(cls(0.01), (rate, np.array(steps, INT64), *values, *states), f"{cls.name} {steps}")


@dataclass(frozen=True)
class Adagrad(_Optimizer):
    """The step of Duchi, Hazan and Singer: the rate is divided by the root of the sum of all squared gradients so far
    (the state), and by 1 + steps * decay_factor."""

    epsilon: float = 1e-6
    decay_factor: float = 0.0

    name = "adagrad"
    from_onnx = {
        f"{DOMAIN}.Adagrad": lambda node: read(
            Adagrad, node, "epsilon", "decay_factor", decay="norm_coefficient"
        )
    }

    def step(self, rate: float, steps: int, x: Array, gradient: Array, *states: Array) -> Sequence[Array]:
        slope = self.decay * x + gradient
        squares = states[0] + slope * slope
        return x - rate / (1 + steps * self.decay_factor) * slope / (np.sqrt(squares) + self.epsilon), squares


@dataclass(frozen=True)
class Adam(_Optimizer):
    """The step of Kingma and Ba; the states are the running means of gradients and of their squares, whose bias is
    corrected after the first step. `decay_after` shrinks the new tensor."""

    alpha: float = 0.9
    beta: float = 0.999
    epsilon: float = 1e-6
    decay_after: float = 0.0

    name = "adam"
    states: ClassVar[int] = 2
    from_onnx = {
        f"{DOMAIN}.Adam": lambda node: read(
            Adam,
            node,
            "alpha",
            "beta",
            "epsilon",
            decay="norm_coefficient",
            decay_after="norm_coefficient_post",
        )
    }

    def step(self, rate: float, steps: int, x: Array, gradient: Array, *states: Array) -> Sequence[Array]:
        slope = self.decay * x + gradient
        mean = self.alpha * states[0] + (1 - self.alpha) * slope
        squares = self.beta * states[1] + (1 - self.beta) * slope * slope
        if steps > 0:
            rate *= (1 - self.beta**steps) ** 0.5 / (1 - self.alpha**steps)
        moved = x - rate * (mean / (np.sqrt(squares) + self.epsilon))
        return (1 - self.decay_after) * moved, mean, squares


@dataclass(frozen=True)
class Momentum(_Optimizer):
    """Gradient descent with momentum: the state is alpha times itself plus beta (in the first step 1) times the
    gradient. `mode` "nesterov" moves by the gradient plus alpha times the new state."""

    alpha: float = 0.9
    beta: float = 1.0
    mode: str = "standard"

    name = "momentum"
    from_onnx = {
        f"{DOMAIN}.Momentum": lambda node: read(
            Momentum, node, "alpha", "beta", "mode", decay="norm_coefficient"
        )
    }

    def types(self, rate: TensorType, steps: TensorType, *tensors: TensorType) -> Types:
        one_of(self.name, "mode", self.mode, ("standard", "nesterov"))
        return super().types(rate, steps, *tensors)

    def step(self, rate: float, steps: int, x: Array, gradient: Array, *states: Array) -> Sequence[Array]:
        slope = self.decay * x + gradient
        speed = self.alpha * states[0] + (self.beta if steps > 0 else 1.0) * slope
        return x - rate * (slope + self.alpha * speed if self.mode == "nesterov" else speed), speed
