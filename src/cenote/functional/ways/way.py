"""The way of a call: one kernel on the caller's memory, a small program of several steps, or the reference in NumPy."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from cenote.codegen import jit
from cenote.core.errors import ArgumentError, CenoteError
from cenote.core.extensions.switched import considering_named
from cenote.core.types import PLAIN, TensorType
from cenote.kernels.cost_model import conversion_seconds
from cenote.ops.base import Lowering, Op, Types, ValueNeeded

if TYPE_CHECKING:
    from cenote.compiler.compile import Plan

PROGRAM, REFERENCE = "program", "reference"
"""Algorithms of every operator that the passes make others of, and of every operator."""
# Seconds that changes of layout must save: a program of several steps takes longer to call.
_WORTH_STEPS = 20e-6


def way_of(
    op: Op, inputs: Sequence[TensorType | None], outputs: Types, threads: int, algorithm: str | None = None
) -> Lowering | Plan | None:
    """A kernel for the caller's memory as it is, or the plan of a small program; None: the reference, as for outputs
    without elements. Raises ArgumentError where the named `algorithm` is not to be had."""
    if algorithm == REFERENCE:
        return None
    if not all(y.size for y in outputs):
        _check_name(op, inputs, algorithm)
        return None
    with considering_named(algorithm):
        offered = tuple(op.lowerings(inputs, jit.host_target()))
    if algorithm is None:
        options = offered
    elif options := tuple(each for each in offered if each.name == algorithm):
        pass
    elif algorithm != PROGRAM:
        raise _refused(op, inputs, algorithm, offered)
    best = best_lowering(options, (*inputs, *outputs))
    if best is not None:
        return best
    from cenote.functional.ways.compiled import compiled_plan  # the passes take 0.1 s to import

    plan = compiled_plan(op, tuple(inputs), outputs, threads, algorithm if options and algorithm else "")
    if algorithm is not None and (plan is None or algorithm not in (PROGRAM, algorithm_of(plan, offered))):
        raise _refused(op, inputs, algorithm, [each for each in offered if each.name != algorithm])
    return plan


def algorithm_of(plan: Plan, offered: Iterable[Lowering]) -> str:
    """The algorithm of a small program: that of the operator's lowerings which it uses, else PROGRAM."""
    names = {each.name for each in offered}
    used = [step.algorithm for step in plan.describe().steps if step.kind == "kernel"]
    return next((name for name in used if name in names), PROGRAM)


def best_lowering(options: Iterable[Lowering], types: Sequence[TensorType | None]) -> Lowering | None:
    """The quickest lowering that works on the caller's memory as it is; None for one that is sensitive to the layout
    and takes longer than another with the changes of layout. `types`: those of inputs and outputs."""
    quickest, time, best = None, math.inf, math.inf
    for option in options:
        changes = layout_changes(option, types)
        if not changes and option.seconds < time:
            quickest, time = option, option.seconds
        best = min(best, option.seconds + sum(changes))
    if quickest is not None and quickest.layout_sensitive and time > best + _WORTH_STEPS:
        return None
    return quickest


def layout_changes(option: Lowering, types: Sequence[TensorType | None]) -> list[float]:
    """Seconds of each change of layout that a lowering needs on row-major memory."""
    given = zip(types, (*option.inputs, *option.outputs), strict=True)
    return [conversion_seconds(2 * x.nbytes) for x, layout in given if x is not None and layout != PLAIN]


def _check_name(op: Op, inputs: Sequence[TensorType | None], algorithm: str | None) -> None:
    """Raise ArgumentError for an algorithm that no call of the operator has, where this one has nothing to compute."""
    if algorithm in (None, PROGRAM):
        return
    offered = []
    with considering_named(algorithm):
        for each in _of_other_sizes(op, inputs):
            if each.name == algorithm:
                return
            offered.append(each)
    raise _refused(op, inputs, str(algorithm), offered)


def _of_other_sizes(op: Op, inputs: Sequence[TensorType | None]) -> Iterator[Lowering]:
    """Yield the lowerings of an operator with one element along empty axes, then those of its samples."""
    outputs: Types = ()
    target = jit.host_target()
    filled = [x and TensorType.of(x.dtype, [size or 1 for size in x.shape]) for x in inputs]
    with contextlib.suppress(CenoteError):  # of shapes that its attributes do not fit
        outputs = op.infer(*filled)
    if outputs and all(y.size for y in outputs):
        yield from op.lowerings(filled, target)
    for sample in type(_known(op)).samples():
        known = [None if x is None else TensorType.known(x) for x in sample.inputs]
        yield from sample.op.lowerings(known, target)
        with contextlib.suppress(ValueNeeded):  # what functions are given is known at run time
            yield from sample.op.lowerings([x and x.bare for x in known], target)


def _known(op: Op) -> Op:
    """The operator without its constants."""
    from cenote.ops.bound import BoundOperator

    return op.op if isinstance(op, BoundOperator) else op


def _refused(
    op: Op, inputs: Sequence[TensorType | None], algorithm: str, offered: Iterable[Lowering]
) -> ArgumentError:
    from cenote.compiler.algorithms import refused

    possible = [*dict.fromkeys(each.name for each in offered), REFERENCE]
    types = ", ".join(str(x.bare) for x in inputs if x is not None)
    return ArgumentError(f"algorithm: on {types}: {refused(_known(op), algorithm, possible)}")
