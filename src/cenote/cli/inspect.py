"""`cenote inspect`: what became of a model."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Annotated, Any

import typer

import cenote
from cenote.cli.bench import random_inputs
from cenote.cli.console import say, size, waiting
from cenote.cli.options import Json, Precision, PrecisionOption, Shape, Threads, Tune, TuneOption
from cenote.cli.shapes import complete_shapes, parse_shapes

_LATER = ": its shapes depend on values that the stage before computed, here from random inputs"


def inspect(
    model: Annotated[
        Path, typer.Argument(help="An ONNX file or a plan file.", metavar="MODEL", show_default=False)
    ],
    shape: Shape = None,
    graph: Annotated[bool, typer.Option(help="Print the optimised graph too.")] = True,
    as_json: Json = False,
    threads: Threads = None,
    precision: PrecisionOption = Precision.FAST,
    tune: TuneOption = Tune.CACHED,
) -> None:
    """Show a model's graph after optimisation, the plan (steps, kernels, what runs on the host and why), memory.

    Where shapes depend on the content of values, there are several plans; those after the first are shown
    for random inputs.
    """
    given = parse_shapes(shape or ())
    with waiting(f"loading {model.name}"):
        loaded = cenote.load(model, threads=threads, precision=precision, tune=tune)
        shapes = complete_shapes(loaded, given)
        loaded.plan_for(shapes)
        if any(declared.shape is None for declared in loaded.outputs):
            with contextlib.suppress(cenote.CenoteError):  # what these numbers lead to is not at fault
                loaded.run(random_inputs(loaded, shapes))
        plans = loaded.plans
    if as_json:
        content = {
            "file": str(model),
            "bytes": model.stat().st_size,
            "inputs": [str(declared) for declared in loaded.inputs],
            "outputs": [str(declared) for declared in loaded.outputs],
            "metadata": loaded.metadata,
            "graph": graph_text(plans[0]),
            "plan": plans[0].describe().as_dict(),
            "later_stages": [
                {"graph": graph_text(plan), "plan": plan.describe().as_dict()} for plan in plans[1:]
            ],
        }
        say(json.dumps(content, indent=2))
        return
    say(f"file {model} ({size(model.stat().st_size)})")
    for declared in loaded.inputs:
        say(f"input {declared}")
    for declared in loaded.outputs:
        say(f"output {declared}")
    for key, value in loaded.metadata.items():
        say(f"metadata {key}: {value if len(value) <= 200 else f'{value[:200]}… ({len(value)} letters)'}")
    for number, plan in enumerate(plans):
        if len(plans) > 1:
            say(f"\nstage {number + 1} of {len(plans)}{_LATER if number else ''}")
        text = graph_text(plan) if graph else None
        if text:
            say(f"\n{text}")
        say(f"\n{plan.describe()}")


def graph_text(plan: Any) -> str | None:
    """The optimised graph; a plan file holds none."""
    graph = getattr(plan, "graph", None)
    return None if graph is None else str(graph)
