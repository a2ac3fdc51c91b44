"""Plans for all sizes: what a model with symbolic dimensions keeps beside the plans for shapes that it has seen.

A `SizedPlan` holds for a class of sizes: those for which the questions that compiling asked have the same answers. A
size of another class gives another plan.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from cenote.core.collector import collector_paused
from cenote.core.errors import CapacityError, CodegenError
from cenote.core.locks import importing
from cenote.core.types import TensorType
from cenote.plans.format import SizedPlan, StoredPlan
from cenote.runtime.program import Workplaces
from cenote.runtime.signature import Pattern, Shapes, Signature

if TYPE_CHECKING:
    from cenote.graph.graph import Graph
    from cenote.stage import Options

_log = logging.getLogger(__name__)
_MOST_CLASSES = 32  # of a model; sizes of more are compiled for themselves


class SizedPlans:
    """The plans of a model's classes of sizes, those used last first."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.plans: list[tuple[Pattern, SizedPlan]] = []
        self._workplaces = Workplaces()  # of all classes: no run of one wants memory that another holds
        self._failed = self._given_up = False

    def find(self, shapes: Shapes) -> StoredPlan | None:
        """The plan for these shapes, out of the classes that there are."""
        found = self.signature.dimensions(shapes)
        if found is None:
            return None
        pattern, sizes = found
        for index, (other, sized) in enumerate(self.plans):
            if other == pattern and (plan := sized.at(sizes, self._workplaces)) is not None:
                if index:
                    self.plans.insert(0, self.plans.pop(index))
                return plan
        return None

    def compile(self, graph: Callable[[], Graph], shapes: Shapes, options: Options) -> StoredPlan | None:
        """Compile the class of these shapes; None where that is not possible: they are then compiled for themselves."""
        found, self._failed = self.signature.dimensions(shapes), False
        if found is None or self._given_up or len(self.plans) >= _MOST_CLASSES or not all(found[1]):
            return None
        try:
            sized = _compiled(graph(), self.signature, shapes, *found, options)
        except (MemoryError, CapacityError, CodegenError, OSError):
            raise  # nothing that other sizes would mend
        except (
            Exception
        ) as error:  # a Size cannot give what was asked of it, or the shapes are wrong: told next
            _log.info("no plan for all sizes: %s: %s", type(error).__name__, error)
            sized = None
        plan = None if sized is None else sized.at(found[1], self._workplaces)
        if sized is None or plan is None:
            self._failed = True
            return None
        self.plans.insert(0, (found[0], sized))
        return plan

    def compiled_alone(self) -> None:
        """Shapes were compiled for themselves. If that was because they could not be compiled for a class, nothing was
        wrong with them: other sizes will not be tried."""
        self._given_up |= self._failed


@collector_paused()
def _compiled(
    graph: Graph,
    signature: Signature,
    shapes: Shapes,
    pattern: Pattern,
    sizes: Sequence[int],
    options: Options,
) -> SizedPlan | None:
    """The plan of a class; None for a graph that is cut where a shape depends on content."""
    with importing():
        from cenote.compiler.compile import compile_sized
        from cenote.core.trace import Trace
        from cenote.graph.graph import OwnedGraph
        from cenote.passes.specialize import specialize

    trace = Trace()
    symbols = [trace.dimension(size) for size in sizes]
    types: Mapping[str, TensorType] = {
        declared.name: TensorType(
            declared.dtype, tuple(symbols[-1 - axis] if axis < 0 else axis for axis in shape)
        )
        for declared, shape in zip(signature.inputs, pattern, strict=True)
    }
    specialized = specialize(graph, types)
    if specialized.rest is not None:
        return None
    made = OwnedGraph(specialized.graph)
    del graph, specialized
    template, text, optimised = compile_sized(made, options.compilation, trace)
    sized = SizedPlan(template, text, shapes, optimised)
    _log.debug("a plan for sizes like %s: %d guards", list(sizes), len(trace.guards))
    for question, place in trace.fixed.items():
        if question in trace.guards:
            _log.debug("holds for some sizes only, those with %s: %s", question, place)
    return sized
