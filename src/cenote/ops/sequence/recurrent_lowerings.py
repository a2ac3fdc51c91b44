"""Native recurrent layers in float32: one matrix product for the inputs of all steps, then a kernel walks the steps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Protocol

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import InputError
from cenote.core.sizes import is_size, plain
from cenote.core.target import Target
from cenote.core.types import FLOAT32, INT64, PLAIN, Array, TensorType
from cenote.kernels.base import Argument, Call, View, constant_of, present
from cenote.kernels.cost_model import LAUNCH, moved_seconds, peak_seconds
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.product.calls import Matrix, Product
from cenote.kernels.sequence.recurrent import STATE_NAMES, STATES, RecurrentSpec
from cenote.kernels.sequence.recurrent_steps import FINISH, START, RecurrentStepSpec
from cenote.kernels.sequence.recurrent_weights import ROWS, Packing, PackRecurrent, phases_of
from cenote.ops.base import Check, Lowering

# The activations that have instructions, by the names of ONNX in lower case; others run by the reference.
NATIVE = {
    "relu": "relu", "tanh": "tanh", "sigmoid": "sigmoid", "leakyrelu": "leaky_relu", "hardsigmoid": "hard_sigmoid",
    "elu": "elu", "softsign": "softsign", "softplus": "softplus",
}  # fmt: skip
Functions = tuple[tuple[str, float, float], ...]
_MOST_STEPS = 256  # that are calls of their own: 0.2 ms of the load and half a kilobyte of the program each
_LEAST_STEP = 2**16  # operations of a step that threads share: 2 us, where they meet in 0.5
_PIECE = 2**16  # operations that a thread takes at a time


class RecurrentAttributes(Protocol):
    """The attributes of RNN, GRU and LSTM."""

    @property
    def direction(self) -> str: ...
    @property
    def functions(self) -> Functions: ...
    @property
    def defaults(self) -> Functions: ...
    @property
    def clip(self) -> float: ...
    @property
    def cell_clip(self) -> float: ...
    @property
    def batch_first(self) -> bool: ...
    @property
    def outputs(self) -> int: ...
    @property
    def coupled(self) -> bool: ...
    @property
    def cell(self) -> str: ...


@dataclass(frozen=True)
class LengthsCheck(Check):
    """Check of lengths: the kernel notes per direction and sample whether it is out of range, and the length."""

    steps: int

    def raise_if_wrong(self, found: Array) -> None:
        length = int(found[np.flatnonzero(found[:, 0])[0], 1])
        raise InputError(f"recurrent layer: a length of {length} is not within 0 to {self.steps}")


def recurrent_lowerings(
    op: RecurrentAttributes, inputs: Sequence[TensorType | None], target: Target
) -> Iterator[Lowering]:
    """Yield the ways for float32: none where an activation has no instructions, or directions have different ones."""
    if not is_native(op, [present(kind) for kind in inputs[:3]]):
        return
    layer = RecurrentLayer(op, tuple(inputs) + (None,) * (8 - len(inputs)), target)
    given = [PLAIN if kind is not None else None for kind in inputs]
    for index in (1, 2):
        if present(inputs[index]).value is not None:
            given[index] = None
    check = LengthsCheck(layer.steps) if layer.has(4) else None
    ends = tuple(given), (PLAIN,) * op.outputs
    yield Lowering("steps", *ends, layer.bind, layer.seconds, layer.tolerance, layer.temporaries, check=check)
    stepwise = StepwiseLayer(op, layer.inputs, target)
    if stepwise.applies:
        costs = stepwise.seconds, stepwise.tolerance
        yield Lowering("shared_steps", *ends, stepwise.bind, *costs, stepwise.temporaries, check=check)


def is_native(op: RecurrentAttributes, inputs: Sequence[TensorType]) -> bool:
    """Whether a layer on an input, its weights and those of states has a kernel."""
    count, functions = len(op.defaults), op.functions or op.defaults
    same = all(functions[:count] == functions[at : at + count] for at in range(0, len(functions), count))
    known = all(name in NATIVE for name, _, _ in functions[:count])
    return inputs[0].dtype == FLOAT32 and all(kind.size for kind in inputs) and same and known


def _rows(batch: int) -> int:
    """Return how many samples go together: at most ROWS, and of a known batch as even a share as can be."""
    if is_size(batch):
        return ROWS if batch >= ROWS else int(batch)
    return -(-batch // -(-batch // ROWS))


class RecurrentLayer:
    """A layer on inputs of some types."""

    def __init__(
        self, op: RecurrentAttributes, inputs: tuple[TensorType | None, ...], target: Target
    ) -> None:
        self.op, self.inputs, self.target = op, inputs, target
        x, w, r = (present(kind) for kind in inputs[:3])
        self.batch, self.steps = x.shape[:2] if op.batch_first else x.shape[1::-1]
        self.features, self.directions, self.hidden = x.shape[2], r.shape[0], r.shape[2]
        self.columns = w.shape[0] * w.shape[1]
        self.packing = self.packed_as(_rows(self.batch), target)
        self.constant_w, self.constant_r = w.value is not None, r.value is not None

    def packed_as(self, rows: int, target: Target) -> Packing:
        """Layout of the recurrent weights, for a number of samples at a time."""
        return Packing(self.op.cell, self.hidden, rows, target.lanes(), target.registers)

    def has(self, index: int) -> bool:
        return self.inputs[index] is not None

    @property
    def tiles(self) -> int:
        return -(-self.batch // self.packing.rows)

    @property
    def temporaries(self) -> tuple[TensorType, ...]:
        """The inputs' products (with room for a vector read past the end), packed weights, lengths that are wrong."""
        made = [TensorType(FLOAT32, (self.steps * self.batch * self.columns + self.target.lanes(),))]
        if not self.constant_w:
            # In panels, whatever their width, and whether or not the product packs them.
            widest = 8 * self.target.lanes()
            made.append(TensorType(FLOAT32, (self.features * (self.columns + widest),)))
        if not self.constant_r:
            made.append(TensorType(FLOAT32, (self.directions * self.packing.size,)))
        if self.has(4):
            made.append(TensorType(INT64, (self.directions * self.batch, 2)))
        return tuple(made)

    @property
    def seconds(self) -> float:
        work = 2 * plain(self.steps * self.batch) * self.features * self.columns
        streamed = 4 * plain(self.steps * self.tiles) * self.directions * self.packing.size
        return peak_seconds(work, self.target, 0.5) + moved_seconds(streamed) + LAUNCH

    @property
    def tolerance(self) -> float:
        return 1e-5 + 1e-6 * math.sqrt(self.features + self.hidden)

    def bind(self, views: Sequence[View | None], made: Sequence[View]) -> Sequence[Call]:
        views = [*views, *[None] * (8 - len(views))]
        outputs, temporaries = made[: self.op.outputs], list(made[self.op.outputs :])
        z = temporaries.pop(0)
        calls: list[Call] = []
        between = None if self.constant_w else temporaries.pop(0)
        *packing, product = self._product(views, z).calls(self.target, between)
        positions = self.steps * self.batch
        calls += [*packing, replace(product, operations=2 * positions * self.features * self.columns)]
        weights: View | Array
        if self.constant_r:
            weights = self.packing.pack(constant_of(views[2]))
        else:
            weights = temporaries.pop(0)
            calls += self._packing_calls(present(views[2]), weights)
        noted = temporaries.pop() if self.has(4) else None
        steps = self.steps_call(views, outputs, z, weights, noted)
        return [*calls, *self.walk(steps, temporaries)]

    def walk(self, steps: Call, memory: Sequence[View]) -> Iterator[Call]:
        """Yield the calls that walk the steps, from the one that does it by itself. `memory`: temporaries of theirs."""
        yield steps

    def _product(self, views: Sequence[View | None], z: View) -> Product:
        """Products of all inputs, in the order of x: a row of all gates of all directions for each."""
        x = present(views[0])
        images, each = x.shape[:2]
        step, row, _ = x.strides
        if x.is_contiguous():
            images, each, step = 1, images * each, 0
        w = constant_of(views[1]) if self.constant_w else present(views[1])
        axes = ((images, [step, 0, 0, each * self.columns]),)
        left, right, y = Matrix(x, row, 1), Matrix(w, 1, self.features), Matrix(z, self.columns, 1)
        product = Product(each, self.columns, self.features, left, right, y, axes)
        if isinstance(w, View):
            return product
        panels = product.panels(self.target)
        return replace(product, packed=panels.pack(w.reshape(self.columns, self.features).T))

    def _packing_calls(self, r: View, to: View) -> Iterator[Call]:
        before = 0
        packing = self.packing
        for chosen, units in zip(phases_of(self.op.cell), packing.units, strict=True):
            words: dict[str, Argument] = {"y": to.at(before), "r": r, "hidden": self.hidden}
            words |= {"groups": packing.blocks // units}
            words |= {"r_direction": r.strides[0], "y_direction": packing.size}
            items = self.directions * (packing.blocks // units)
            yield Call.named(PackRecurrent(chosen, units, packing.lanes, packing.rows), words, items)
            before += self.hidden * packing.width * len(chosen)

    def steps_call(
        self,
        views: Sequence[View | None],
        outputs: Sequence[View],
        z: View,
        weights: View | Array,
        noted: View | None,
    ) -> Call:
        op, packing, lengths = self.op, self.packing, views[4]
        states = dict(zip(STATE_NAMES, (views[5], views[6], *outputs[1:], None, None), strict=False))
        words: dict[str, Argument] = {"y": outputs[0], "z": z, "r": weights, **states}
        words |= {"bias": views[3], "peepholes": views[7], "lengths": lengths, "noted": noted}
        words |= {"steps": self.steps, "batch": self.batch, "tiles": self.tiles}
        words |= {"reverse": int(op.direction == "reverse"), "hidden": self.hidden, "width": packing.width}
        words |= {"r_direction": packing.size, **self._strides(states, outputs[0]), **self.more_words}
        groups = [packing.blocks // units for units in packing.units]
        words |= {f"groups_{index}": value for index, value in enumerate(groups)}
        executed = 2 * self.steps * self.directions * self.tiles * packing.rows * packing.size
        return Call.named(self.spec(lengths), words, self.items, scratch=self.scratch, operations=executed)

    @property
    def more_words(self) -> dict[str, Argument]:
        """Words of other kernels of layers."""
        return {}

    @property
    def items(self) -> int:
        return self.directions * self.tiles

    @property
    def scratch(self) -> int:
        return 4 * STATES[self.op.cell] * self.packing.rows * self.packing.width

    def spec(self, lengths: View | None) -> RecurrentSpec:
        op, packing, count = self.op, self.packing, len(self.op.defaults)
        functions = (op.functions or op.defaults)[:count]
        return RecurrentSpec(
            op.cell,
            tuple(Activation(NATIVE[name], alpha, beta) for name, alpha, beta in functions),
            packing.rows,
            packing.units,
            packing.width != self.hidden,
            self.has(3),
            (self.has(5), self.has(6)),
            op.outputs - 1,
            lengths is not None,
            op.coupled,
            self.has(7),
            op.clip,
            op.cell_clip,
            lengths is not None and lengths.type.dtype == INT64,
        )

    def _strides(self, states: dict[str, View | None], y: View) -> dict[str, Argument]:
        """Strides of steps, directions and samples in every operand, by the kernel's names of them."""
        first, second = self.columns, self.columns * (self.steps if self.op.batch_first else self.batch)
        z_batch, z_step = (second, first) if self.op.batch_first else (first, second)
        strides: dict[str, Argument] = {"z_step": z_step, "z_batch": z_batch}
        if self.op.batch_first:
            strides |= dict(zip(("y_batch", "y_step", "y_direction"), y.strides, strict=False))
        else:
            strides |= dict(zip(("y_step", "y_direction", "y_batch"), y.strides, strict=False))
        for name, view in states.items():
            moves = (0, 0) if view is None else view.strides[:2]
            direction, batch = moves[::-1] if self.op.batch_first else moves
            strides |= {f"{name}_direction": direction, f"{name}_batch": batch}
        return strides


class StepwiseLayer(RecurrentLayer):
    """A layer whose steps are calls of their own, so that threads share the hidden units of each.

    For one direction of at most ROWS samples. An LSTM of one sample, 100 steps, 256 units takes 1.44 ms in place of
    2.12 on two threads and 2.14 in place of 2.12 on one (Zen 3). Where there are two of these, two threads take one
    each, and meet once, not at each step.
    """

    @property
    def applies(self) -> bool:
        """Whether there is one item of a known number of steps, each long enough to be shared."""
        known = not is_size(self.steps) and not is_size(self.items)
        long = 2 * self.packing.rows * self.packing.size >= _LEAST_STEP
        return known and self.items == 1 and self.steps <= _MOST_STEPS and long

    @property
    def temporaries(self) -> tuple[TensorType, ...]:
        """Temporaries of a layer and the states, before what is noted."""
        own, noted = list(super().temporaries), 1 if self.has(4) else 0
        own.insert(len(own) - noted, TensorType(FLOAT32, (self.scratch // FLOAT32.itemsize,)))
        return tuple(own)

    @property
    def seconds(self) -> float:
        """Estimate just below that of the layer by itself: as long on one thread, less on several."""
        return super().seconds - LAUNCH / 2

    def walk(self, steps: Call, memory: Sequence[View]) -> Iterator[Call]:
        names = [parameter.name for parameter in steps.spec.words]
        words = dict(zip(names, steps.arguments, strict=True))
        z, step_z, last = words["z"], words["z_step"], self.steps - 1
        words |= {"states": memory[0], "step": 0, "z_step": 0}  # a step gets its products alone
        given = {each.name: getattr(steps.spec, each.name) for each in fields(RecurrentSpec)}
        start, finish = (Call.named(RecurrentStepSpec(**given, part=part), words) for part in (START, FINISH))
        phases, packing = phases_of(self.op.cell), self.packing
        parts = []
        for phase, (gates, units) in enumerate(zip(phases, packing.units, strict=True)):
            groups = packing.blocks // units
            executed = 2 * packing.rows * packing.hidden * packing.width * len(gates)
            grain = max(1, _PIECE * groups // executed)
            spec = RecurrentStepSpec(**given, part=phase)
            parts.append(Call.named(spec, words, groups, grain, operations=executed))
        yield start
        assert isinstance(z, View)
        assert isinstance(step_z, int)
        kind, at_z = TensorType(FLOAT32, (self.batch, self.columns)), names.index("z")
        for step in range(self.steps):
            time = last - step if words["reverse"] else step
            own = replace(z.at(time * step_z), type=kind)
            for part in parts:
                before, after = part.arguments[:at_z], part.arguments[at_z + 1 : -1]
                yield replace(part, arguments=(*before, own, *after, step))
        if self.op.outputs > 1:
            yield finish
