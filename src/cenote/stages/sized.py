"""Plans for all sizes of a model with symbolic dimensions, beside its plans for single shapes.

A `SizedPlan` holds for a class of sizes: those for which every comparison that the compiler made has the same result.
A size of another class gets another plan. Where shapes depend on content, a plan has a `Tail`, with plans for the rest
of the model, whose sizes are those of the plan and those found at the cut.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from cenote.core.collector import collector_paused
from cenote.core.errors import CapacityError, CenoteError, CodegenError, InputError, UnsupportedError
from cenote.core.formulas.checks import FormulaError, checks_formulas
from cenote.core.formulas.expressions import OpenSizeError, at_hand
from cenote.core.locks import importing
from cenote.core.types import TensorType
from cenote.plans.classes import Pattern, SizeClasses, SizedPlan, StoredPlan, Tail
from cenote.runtime.signature import Signature
from cenote.runtime.workplaces import Workplaces

if TYPE_CHECKING:
    from cenote.compiler.compile import Compilation
    from cenote.graph.graph import Graph
    from cenote.passes.specialize import Continuation

_log = logging.getLogger(__name__)
_MOST_CLASSES = 32  # of a model or a tail; beyond them each size gets a plan of its own


Part = Callable[[Sequence[int]], "tuple[Graph, Mapping[str, TensorType]]"]
"""Function from numbers, which may be Sizes, to a graph and the types of its inputs."""


def part_of(graph: Callable[[], Graph], signature: Signature, pattern: Pattern) -> Part:
    """Return a model as a function of the numbers of a pattern of shapes."""
    return lambda numbers: (graph(), signature.typed(pattern, numbers))


def part_after(tail: Tail, pattern: Pattern) -> Part:
    """Return the part behind a cut as a function of the numbers of the part before, then those found at the cut."""

    def part(numbers: Sequence[int]) -> tuple[Graph, Mapping[str, TensorType]]:
        with importing():
            from cenote.graph.cut import CutFindings, count_of

        assert tail.rest is not None, "there is no model to compile it from"
        split = len(numbers) - count_of(pattern)
        return tail.rest(numbers[:split]).opened(CutFindings(pattern, tuple(numbers[split:])))

    return part


def rest_of(part: Part) -> Callable[[Sequence[int]], Continuation]:
    """Return the continuation behind the cut of a part as a function of the part's numbers."""

    def rest(numbers: Sequence[int]) -> Continuation:
        with importing():
            from cenote.passes.specialize import specialize

        rest = specialize(*part(numbers)).rest
        assert rest is not None, "a part is cut at all sizes of its class"
        return rest

    return rest


def supply(tail: Tail, part: Part) -> None:
    """Set the source from which a tail that was read from a file can be compiled; `part` precedes it."""
    tail.rest = rest_of(part)
    for pattern, sized in tail.classes.plans:
        if sized.tail is not None:
            supply(sized.tail, part_after(tail, pattern))


def check_kept(tail: Tail | None) -> None:
    """Raise UnsupportedError where the plans behind a cut cannot be stored, InputError where there are none yet."""
    if tail is None:
        return
    if tail.classes.failed:
        raise UnsupportedError("what follows values whose content decides shapes has no plan for all sizes")
    if not tail.classes.plans and not tail.cut.ends:
        raise InputError("shapes depend on the content of values: run the model before saving a plan")
    for _, sized in tail.classes.plans:
        check_kept(sized.tail)


def compile_class(
    classes: SizeClasses,
    pattern: Pattern,
    numbers: Sequence[int],
    part: Part,
    how: Compilation,
    workplaces: Workplaces,
) -> tuple[SizedPlan, StoredPlan] | None:
    """Compile a plan for the class of these numbers; None where only a plan for the numbers alone is possible, which
    `fall_back` tells once there is one."""
    if not numbers or pattern in classes.failed:
        return None
    if len(classes.plans) >= _MOST_CLASSES:
        classes.refused[pattern] = CapacityError(f"there are {_MOST_CLASSES} classes of sizes already")
        return None
    try:
        sized = _compiled(part, numbers, how)
    except (MemoryError, CapacityError, CodegenError, OSError, FormulaError):
        raise  # a plan for these sizes alone would fail too
    except (OpenSizeError, CenoteError) as error:
        # Wrong shapes raise their error when the model is compiled for these numbers alone.
        classes.refused[pattern] = error
        return None
    except Exception as error:
        if checks_formulas():
            raise
        classes.refused[pattern] = error
        return None
    plan = sized.at(numbers, workplaces)
    if plan is None:
        return None
    classes.plans.insert(0, (pattern, sized))
    return sized, plan


def fall_back(classes: SizeClasses, pattern: Pattern) -> None:
    """Plan each size of a pattern by itself from here on, as the sizes are right and the class is not, and say so: a
    warning in the log, or the error itself where formulas are checked, unless it is what an open size cannot do."""
    classes.failed.add(pattern)
    error = classes.refused.pop(pattern, None)
    if error is None:
        return
    if checks_formulas() and not isinstance(error, OpenSizeError | CapacityError):
        raise error
    fault = "" if isinstance(error, OpenSizeError | CenoteError) else ", a fault of Cenote"
    _log.warning("no plan for all sizes%s: %s: %s", fault, type(error).__name__, error)


def check_stage(
    named: Collection[str],
    source: Graph,
    made: Graph | None,
    tail: Tail | None,
    numbers: Sequence[int],
    whole: bool = True,
) -> None:
    """Raise ArgumentError for named nodes and operators of a graph of which nothing is left in what has been `made` of
    it, nor in the rest behind a cut; with `whole`, also for others (see `compiler.algorithms.check_part`)."""
    with importing():
        from cenote.compiler.algorithms import check_part

    assert made is not None, "it has been compiled now"
    rest = tail.rest(numbers) if tail is not None and tail.rest is not None else None
    check_part(named, source, made, rest.nodes if rest is not None else (), whole)


@collector_paused()
def _compiled(part: Part, numbers: Sequence[int], how: Compilation) -> SizedPlan:
    """Compile the plan of a class."""
    with importing():
        from cenote.compiler.compile import compile_sized
        from cenote.core.trace import Trace
        from cenote.graph.graph import OwnedGraph
        from cenote.passes.specialize import specialize

    trace = Trace()
    graph, types = part([trace.dimension(number) for number in numbers])
    specialized = specialize(graph, types)
    inputs = specialized.graph.inputs
    shapes = tuple(tuple(map(at_hand, types[declared.name].shape)) for declared in inputs)
    rest, made = specialized.rest, OwnedGraph(specialized.graph)
    outputs = specialized.graph.outputs
    del graph, specialized
    tail = None if rest is None else Tail(rest.cut, rest=rest_of(part))
    between = () if rest is None else rest.host
    del rest
    template, text, optimised = compile_sized(made, how, trace, between)
    _log.debug("a plan for sizes like %s: %d guards", list(numbers), len(trace.guards))
    for question, place in trace.fixed.items():
        if question in trace.guards:
            _log.debug("holds for some sizes only, those with %s: %s", question, place)
    names = tuple(declared.name for declared in inputs)
    return SizedPlan(template, text.encode(), shapes, names, outputs, tail, optimised)
