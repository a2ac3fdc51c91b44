"""A fault that tests put into a plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cenote.compiler.schedule import Schedule


def spoilt(made: Schedule, label: str) -> Schedule:
    """The convolution of this name leaves its last item of work undone."""

    def bind_of(bind: Any) -> Any:
        def wrong(inputs: Any, outputs: Any) -> list[Any]:
            *calls, last = bind(inputs, outputs)
            return [*calls, replace(last, items=last.items - 1)] if last.items > 1 else calls

        return wrong

    lowerings = [
        replace(option, bind=bind_of(option.bind)) if option is not None and node.label == label else option
        for node, option in zip(made.graph.nodes, made.lowerings, strict=True)
    ]
    return replace(made, lowerings=tuple(lowerings))
