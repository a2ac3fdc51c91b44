"""Run of a compiled plan, step by step, in which each node is compared with its operator's float64 reference.

A node's inputs are copied before its first step, its outputs after its last, so that it is judged by the inputs that
it really had: an error that it inherits does not count as its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from cenote.compiler.barriers import StepKind
from cenote.compiler.compile import Plan
from cenote.core.deferred import dataclass
from cenote.core.errors import FAULTS, CenoteError, UnsupportedError
from cenote.core.types import Array, TensorType
from cenote.graph.graph import Node
from cenote.kernels.base import View, present
from cenote.ops.base import Box, Op
from cenote.ops.conv.conv import Conv
from cenote.ops.linear.gemm import Gemm
from cenote.runtime.stepwise import Stepwise
from cenote.verification.errors import (
    ALLOWED,
    AMPLIFIED,
    Arrays,
    is_amplified,
    least_scale,
    nearest,
    relative_error,
    widened,
)

Widen = Callable[[Array | None], Array | None]
# Bytes of a layer's inputs from which its reference is computed in parts.
_LARGE = 32 << 20
# Factor on a lowering's own tolerance, which was taken from its samples, for larger layers.
_TIMES = 4.0


@dataclass(frozen=True)
class Made:
    """A value that the plan made, its node, the error of the node itself and whether that is more than rounding;
    `wanted` by the reference on the node's `inputs`, None where there is none."""

    name: str
    node: Node
    array: Array
    local: float
    wrong: bool
    wanted: Array | None = None
    inputs: Arrays = ()


class Production:
    """A run of a plan. `constants` are those of the optimised graph, which the plan does not keep; `tell` is called
    with the values in the order in which they are made, as copies."""

    def __init__(self, plan: Plan, constants: Mapping[str, Array], tell: Callable[[Made], None]) -> None:
        self.graph, self.views = plan.graph, plan.memory.views
        self.lowerings, self.constants, self.tell = plan.schedule.lowerings, constants, tell
        spans: dict[int, tuple[int, int]] = {}
        for step, origin in enumerate(plan.origins):
            if origin.kind is not StepKind.HALO:
                spans[origin.node] = (spans.get(origin.node, (step, step))[0], step)
        # From a step to the nodes whose first step it is; then the same for their last steps.
        self.first: dict[int, list[int]] = {}
        self.last: dict[int, list[int]] = {}
        for node, (first, last) in spans.items():
            self.first.setdefault(first, []).append(node)
            self.last.setdefault(last, []).append(node)
        self.silent = [index for index in range(len(self.graph.nodes)) if index not in spans]
        self.stepwise = Stepwise(plan.program)
        self.given: dict[int, Arrays] = {}
        self.known = {*constants, *(declared.name for declared in self.graph.inputs)}

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run one inference; return the outputs."""
        return self.stepwise.trace(inputs, self._before, self._after)

    # ---- around steps -------------------------------------------------------------------------------------------

    def _before(self, step: int) -> None:
        self._pass_on()
        for index in self.first.get(step, ()):
            self.given[index] = self._inputs(self.graph.nodes[index])

    def _after(self, step: int) -> None:
        for index in self.last.get(step, ()):
            self._judge(index, self.given.pop(index))
        self._pass_on()

    def _pass_on(self) -> None:
        """Judge nodes without steps as soon as their inputs are known: their outputs exist without a computation."""
        waiting, self.silent = self.silent, []
        # In order, so that a node that follows another finds its input.
        for index in waiting:
            node = self.graph.nodes[index]
            if self.known.issuperset(filter(None, node.inputs)):
                self._judge(index, self._inputs(node))
            else:
                self.silent.append(index)

    def _inputs(self, node: Node) -> Arrays:
        return [self.array(name) if name else None for name in node.inputs]

    def array(self, name: str) -> Array:
        """Return a copy of a value, in the order of its axes."""
        content = self.constants.get(name)
        return self._read(self.views[name]) if content is None else content

    def _read(self, view: View) -> Array:
        shape, lanes = view.shape, view.layout.lanes
        if not lanes:
            return self.stepwise.memory(view.slot, view.type, shape, view.strides).copy()
        blocked = (shape[0], view.blocks, *shape[2:], lanes)
        inside = self.stepwise.memory(view.slot, view.type, blocked, (*view.strides, 1))
        channels = np.moveaxis(inside, -1, 2).reshape(shape[0], view.blocks * lanes, *shape[2:])
        return channels[:, : shape[1]].copy()  # of maps of one number it would be a view

    # ---- judgement ----------------------------------------------------------------------------------------------

    def _judge(self, index: int, inputs: Arrays) -> None:
        node = self.graph.nodes[index]
        self.known.update(filter(None, node.outputs))
        wanted = reference64(node, inputs) if node.op.pure else None
        for position, name in enumerate(node.outputs):
            if not name:
                continue
            array, local, wrong = self.array(name), 0.0, False
            if wanted is not None:
                allowed = self._allowed(index, array)
                local = own_error(node, position, inputs, array, wanted[position], allowed)
                wrong = local > allowed and not excused(node, position, inputs, array, wanted[position])
            reference = None if wanted is None else wanted[position]
            self.tell(Made(name, node, array, local, wrong, reference, inputs))

    def _allowed(self, index: int, array: Array) -> float:
        option = self.lowerings[index]
        return max(ALLOWED.get(array.dtype.name, 0.0), 0.0 if option is None else _TIMES * option.tolerance)


def own_error(node: Node, position: int, inputs: Arrays, got: Array, wanted: Array, allowed: float) -> float:
    """Return the error of a node's output: its distance from the reference in float64 and, where that is more than
    allowed, in its own types, whichever is nearer, element by element.

    Quantising, rounding, comparing and the like decide by numbers that were rounded to the type that they compute in:
    in float32 x / scale may lie halfway between two integers where in float64 it does not.
    """
    least = least_scale(inputs)
    error = relative_error(got, wanted, least)
    if error <= allowed:
        return error
    own = _reference(node, inputs, (_as_it_is,))
    return error if own is None else relative_error(got, nearest(got, wanted, own[position]), least)


def reference64(node: Node, inputs: Arrays) -> Sequence[Array] | None:
    """Return a node's outputs by its reference in float64, or in its own types where it takes no float64; None where
    the reference cannot be computed."""
    return _reference(node, inputs, (widened, _as_it_is))


def _reference(node: Node, inputs: Arrays, ways: Sequence[Widen]) -> Sequence[Array] | None:
    """Return a node's outputs by its reference, with the inputs widened in the first of these ways that it
    accepts."""
    for widen in ways:
        try:
            return _in_parts(node.op, inputs, widen) or node.op.reference(*map(widen, inputs))
        except (CenoteError, *FAULTS):
            continue
    return None


def _as_it_is(array: Array | None) -> Array | None:
    return array


def _in_parts(op: Op, inputs: Arrays, widen: Widen) -> Sequence[Array] | None:
    """Return the output of a large layer, computed for a part of its channels at a time, since its weights in float64
    would be larger than the model. None where it is not large, or cannot be computed so."""
    nbytes = sum(x.nbytes for x in inputs if x is not None)
    if nbytes < _LARGE or not (isinstance(op, Gemm) or (isinstance(op, Conv) and op.groups == 1)):
        return None
    types = [None if x is None else TensorType(x.dtype, x.shape) for x in inputs]
    (output,) = op.infer(*types)
    parts, channels = [], output.shape[1]
    step = max(1, channels * _LARGE // (2 * nbytes))
    for begin in range(0, channels, step):
        whole = Box.whole(output.shape).ranges
        box = Box((whole[0], (begin, min(begin + step, channels)), *whole[2:]))
        try:
            part = op.part(box, types)
        except UnsupportedError:
            return None
        cuts = zip(inputs, op.region(box, types), strict=True)
        inside = [
            None if x is None or cut is None else x[tuple(slice(*pair) for pair in cut.ranges)]
            for x, cut in cuts
        ]
        parts.append(part.reference(*map(widen, inside))[0])
    return [np.concatenate(parts, axis=1)]


def excused(node: Node, position: int, inputs: Arrays, got: Array, wanted: Array) -> bool:
    """Return whether rounding alone can explain a node's distance from its reference."""
    if got.dtype.kind in "OSUT" or wanted.dtype.kind in "OSUT" or got.shape != wanted.shape:
        return False

    def compute(arrays: Arrays) -> Array:
        return present(reference64(node, arrays))[position].astype(np.float64)

    wide = [widened(x) for x in inputs]
    # Integers have no last bits: a change that moves one by a step may leave it one step off, and no more.
    times = 1.0 if got.dtype.kind in "iub" else AMPLIFIED
    return is_amplified(compute, wide, got.astype(np.float64), wanted.astype(np.float64), times)
