"""Explanation of a call: which algorithm a function takes for its arguments, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np

from cenote.codegen import jit
from cenote.compiler.work import computation_dtype
from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, near, shown
from cenote.core.extensions.switched import considering_named
from cenote.core.text import Report, aligned, shown_seconds
from cenote.core.types import Array, TensorType, native_dtype
from cenote.functional.arguments import given_array
from cenote.functional.callers import Caller
from cenote.functional.dispatch import Parser, in_memory, named
from cenote.functional.elementwise.recorder import RecordedFunction
from cenote.functional.record import FUNCTIONS, public
from cenote.functional.ways.way import PROGRAM, REFERENCE, algorithm_of, layout_changes, way_of
from cenote.kernels.cost_model import WORTH_THREADS
from cenote.ops.base import Cost, Lowering, Op
from cenote.ops.runner import bound_calls
from cenote.runtime.threads import resolve_threads

Function = Callable[..., Any]
NOTHING = Cost(0, 0)


@dataclass(frozen=True, repr=False)
class Explanation(Report):
    """Explanation of a call of a function: what it does, and why. Printed, it is a few lines.

    function   its name
    types      of the arrays that the operator gets, and of its results
    algorithm  its name, which the function's `algorithm=` takes; "program" for several steps that passes make of it,
               "reference" for NumPy; "" where the function only calls others
    kind       "kernel" (on the caller's memory as it is), "program" (several steps), "reference" or "functions"
    reason     why this one
    ms         the cost model's estimate on one thread, with changes of layout; None where there is none
    rivals     the other algorithms with their estimates, the quickest first
    layout     "row-major", "channels last", "transposed", or "copied" where kernels cannot read the memory as it lies
    threads    how many work on it
    target     the instructions that code is generated for
    cost       arithmetic operations, and bytes that must be moved; the sum of the steps' where it calls others
    executed_operations  those that the kernels execute: fewer than the operator's by Winograd's algorithm, say
    written_bytes        of the results, of those that must be moved
    dtype      of the computation
    steps      the calls of other functions, where the function only calls others
    origin     of a user's algorithm, its name, and the file and line that register it
    """

    function: str
    types: str = ""
    algorithm: str = ""
    kind: str = "functions"
    reason: str = ""
    ms: float | None = None
    rivals: tuple[tuple[str, float], ...] = ()
    layout: str = "row-major"
    threads: int = 1
    target: str = ""
    cost: Cost = NOTHING
    executed_operations: int = 0
    written_bytes: int = 0
    dtype: str = ""
    steps: tuple[Explanation, ...] = ()
    origin: str = ""

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if self.kind == "functions":
            yield f"{self.function}: {self.reason}"
            for step in self.steps:
                yield from (f"  {line}" for line in step._lines())
            return
        what = self.algorithm if self.algorithm == self.kind else f"{self.algorithm} ({self.kind})"
        yield f"{self.function} of {self.types}: {what}, {self.reason}"
        if self.origin:
            yield f"  from outside: {self.origin}"
        if self.ms is not None:
            rows = [(name, shown_seconds(ms / 1e3)) for name, ms in ((self.algorithm, self.ms), *self.rivals)]
            yield from (f"  {line}" for line in aligned(rows, {0}))
        yield f"  {self.layout} memory, {self.threads} thread(s), {self.target}"


@public
def explain(function: str | Function, /, *args: Any, **kwargs: Any) -> Explanation:
    """Return how a function of cenote.functional computes a call, and why. Nothing is computed, but by functions that
    only call others.

    function        the function, or its name
    args, kwargs    its arguments

    Raises ArgumentError for what is no function of cenote.functional, and what the call itself raises.
    """
    name, found = function_of("explain", function)
    under = vars(found).get("under") or _under(found)
    if under is not None:
        explanation: Explanation = under(partial(_explain, name))(*args, **kwargs)
        return explanation
    steps = list[Explanation]()
    _noting(found, steps)(*args, **kwargs)
    return Explanation(
        name,
        reason="calls other functions",
        cost=Cost(sum(x.cost.operations for x in steps), sum(x.cost.bytes for x in steps)),
        executed_operations=sum(x.executed_operations for x in steps),
        written_bytes=sum(x.written_bytes for x in steps),
        steps=tuple(steps),
    )


def function_of(asker: str, function: str | Function) -> tuple[str, FunctionType]:
    """The name of a function and itself. Raises ArgumentError for another, which names the `asker`."""
    from cenote import functional

    name = function if isinstance(function, str) else getattr(function, "__name__", "")
    if name in functional.__all__ and name not in ("explain", "Traced"):
        found: FunctionType = getattr(functional, name)
        if isinstance(function, str) or function is found:
            return name, found
    hint = near(name, functional.__all__) if isinstance(function, str) else ""
    raise ArgumentError(f"{asker}: {shown(function)} is no function of cenote.functional{hint}")


def _under(function: FunctionType) -> Callable[[Function], Function] | None:
    """Return what makes the function with another caller, which gets a parser first; None where it has none."""
    space = function.__globals__
    caller = space.get("caller")
    if not isinstance(caller, Caller) or "call" not in function.__code__.co_names:
        return None

    def made(call: Function) -> Function:
        names = {**space, "call": partial(call, caller.parser)}
        return _copy(function, names | ({"then": lambda result: result} if space.get("then") else {}))

    return made


def _copy(function: FunctionType, names: dict[str, Any]) -> FunctionType:
    copy = FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _noting(function: FunctionType, steps: list[Explanation]) -> Function:
    """The function with notes of the functions that its body calls."""
    body = function.__globals__.get("body", function)

    def noted(called: Function) -> Function:
        def run(*args: Any, **kwargs: Any) -> Any:
            steps.append(explain(called, *args, **kwargs))
            return called(*args, **kwargs)

        return run

    others = set(FUNCTIONS.values()) - {function}
    names = {
        key: noted(value) if isinstance(value, FunctionType) and value in others else value
        for key, value in body.__globals__.items()
    }
    copied = _copy(body, names)
    return copied if body is function else _copy(function, {**function.__globals__, "body": copied})


def _explain(
    name: str,
    parser: Parser,
    arrays: tuple[Any, ...],
    arguments: tuple[Any, ...],
    out: object,
    threads: int | None,
) -> Explanation:
    """Explain a call of the dispatcher."""
    _, wanted = named(arguments[0])
    if isinstance(parser, RecordedFunction):
        template, arrays = parser.split(arrays)
        arguments = (arguments[0], template, *arguments[2:])
    given = tuple(given_array(f"array {place + 1}", x)[0] for place, x in enumerate(arrays))
    types = tuple(TensorType(native_dtype(x.dtype), x.shape) for x in given)
    op, batched, orders, moved = in_memory(parser(types, *arguments[1:]), given)
    inputs = tuple(TensorType(t.dtype, shape) for t, shape in zip(types, batched, strict=True))
    explanation = _of_operator(name, op, inputs, resolve_threads(threads), wanted)
    layout = "channels last" if moved else "transposed" if orders else "row-major"
    if not moved and not all(
        _as_it_lies(x, o) for x, o in zip(given, orders or (None,) * len(given), strict=True)
    ):
        layout = "copied"
    return replace(explanation, layout=layout)


def _as_it_lies(x: Array, order: tuple[int, ...] | None) -> bool:
    return bool((x if order is None else x.transpose(order)).flags.c_contiguous and x.dtype.isnative)


def _of_operator(
    name: str, op: Op, inputs: tuple[TensorType, ...], threads: int, wanted: str | None
) -> Explanation:
    """Explain what is chosen for an operator."""
    outputs, target = op.infer(*inputs), jit.host_target()
    every = (*inputs, *outputs)
    way = way_of(op, inputs, outputs, threads, wanted)
    has_work = all(y.size for y in outputs)
    with considering_named(wanted):
        offered = tuple(op.lowerings(inputs, target)) if has_work else ()
    cost = op.cost(inputs) if has_work else NOTHING
    times: dict[str, float] = {}
    for each in offered:
        time = each.seconds + sum(layout_changes(each, every))
        times[each.name] = min(time, times.get(each.name, np.inf))
    seconds: float | None = None
    executed = 0
    if isinstance(way, Lowering):
        algorithm, kind, seconds, alone = way.name, "kernel", way.seconds, way.seconds < WORTH_THREADS
        executed = sum(call.operations for call in bound_calls(way, inputs, outputs)[0])
    elif way is not None:
        algorithm, kind, alone = algorithm_of(way, offered), "program", way.program.alone
        kernels = [step for step in way.describe().steps if step.kind == "kernel"]
        seconds = sum(step.seconds or 0.0 for step in kernels)
        executed = sum(step.executed_operations for step in kernels)
    else:
        algorithm, kind, alone = REFERENCE, "reference", True
    sources = {each.name: each.extension.origin for each in offered if each.extension is not None}
    rivals = sorted(
        ((each, 1e3 * time) for each, time in times.items() if each != algorithm), key=lambda x: x[1]
    )
    return Explanation(
        name,
        f"{', '.join(map(str, inputs))} -> {', '.join(map(str, outputs))}",
        algorithm,
        kind,
        _reason(wanted, algorithm, bool(rivals), has_work),
        None if seconds is None else 1e3 * seconds,
        tuple(rivals),
        threads=1 if alone else threads,
        target=target.name,
        cost=cost,
        executed_operations=executed or cost.operations,
        written_bytes=min(cost.bytes, sum(y.nbytes for y in outputs)),
        dtype=computation_dtype(outputs),
        origin=sources.get(algorithm, ""),
    )


def _reason(wanted: str | None, algorithm: str, has_rivals: bool, has_work: bool) -> str:
    if not has_work and wanted != REFERENCE:
        return "for there is nothing to compute"
    if wanted is not None:
        return "named by the caller"
    if algorithm == REFERENCE:
        return "for there is no kernel for these types and arguments"
    if algorithm == PROGRAM:
        return "for passes make several steps of it that have kernels"
    return "the cheapest by the cost model" if has_rivals else "the only one"
