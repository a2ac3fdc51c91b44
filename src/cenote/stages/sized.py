"""Plans for all sizes: what a model with symbolic dimensions keeps beside the plans for shapes that it has seen.

A `SizedPlan` holds for a class of sizes: those for which the questions that compiling asked have the same answers. A
size of another class gives another plan. Where shapes depend on content, a plan has a `Tail`: the same again for what
follows, whose sizes are those of the plan and those that were found at the cut.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
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
_MOST_CLASSES = 32  # of a model or a tail; sizes of more are compiled for themselves


Part = Callable[[Sequence[int]], "tuple[Graph, Mapping[str, TensorType]]"]
"""Gives a graph and the types of its inputs for numbers, which may be Sizes."""


def part_of(graph: Callable[[], Graph], signature: Signature, pattern: Pattern) -> Part:
    """A model, for the numbers of a pattern of shapes."""
    return lambda numbers: (graph(), signature.typed(pattern, numbers))


def part_after(tail: Tail, pattern: Pattern) -> Part:
    """What follows a cut, for the numbers of the part before and then those that were found there."""

    def part(numbers: Sequence[int]) -> tuple[Graph, Mapping[str, TensorType]]:
        with importing():
            from cenote.graph.cut import CutFindings, count_of

        assert tail.rest is not None, "there is no model to compile it from"
        split = len(numbers) - count_of(pattern)
        return tail.rest(numbers[:split]).opened(CutFindings(pattern, tuple(numbers[split:])))

    return part


def rest_of(part: Part) -> Callable[[Sequence[int]], Continuation]:
    """What follows the cut of a part, for the part's numbers."""

    def rest(numbers: Sequence[int]) -> Continuation:
        with importing():
            from cenote.passes.specialize import specialize

        found = specialize(*part(numbers)).rest
        assert found is not None, "a part is cut at all sizes of its class"
        return found

    return rest


def supply(tail: Tail, part: Part) -> None:
    """Let a tail out of a file know what it can be compiled from: `part` comes before it."""
    tail.rest = rest_of(part)
    for pattern, sized in tail.classes.plans:
        if sized.tail is not None:
            supply(sized.tail, part_after(tail, pattern))


def check_kept(tail: Tail | None) -> None:
    """Raise UnsupportedError where the plans that followed a cut cannot be written down, InputError where none did."""
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
    """Compile the class of these numbers; None where that is not possible: they are then compiled for themselves."""
    if not numbers or pattern in classes.failed or len(classes.plans) >= _MOST_CLASSES:
        return None
    try:
        sized = _compiled(part, numbers, how)
    except (MemoryError, CapacityError, CodegenError, OSError, FormulaError):
        raise  # nothing that other sizes would mend
    except (OpenSizeError, CenoteError) as error:
        # Wrong shapes are told when the model is compiled for the numbers alone.
        _log.info("no plan for all sizes: %s: %s", type(error).__name__, error)
        return None
    except Exception as error:
        if checks_formulas():
            raise
        _log.warning("no plan for all sizes, a fault of Cenote: %s: %s", type(error).__name__, error)
        return None
    plan = sized.at(numbers, workplaces)
    if plan is None:
        return None
    classes.plans.insert(0, (pattern, sized))
    return sized, plan


@collector_paused()
def _compiled(part: Part, numbers: Sequence[int], how: Compilation) -> SizedPlan:
    """The plan of a class."""
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
