"""`cenote inspect`: what became of a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

import cenote
from cenote.cli.console import say, size, waiting
from cenote.cli.options import Json, Precision, PrecisionOption, Shape, Threads, Tune, TuneOption
from cenote.cli.shapes import complete_shapes, parse_shapes


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
    """Show a model's graph after optimisation, the plan (steps, kernels, what runs on the host and why), memory."""
    given = parse_shapes(shape or ())
    with waiting(f"loading {model.name}"):
        loaded = cenote.load(model, threads=threads, precision=precision, tune=tune)
        plan = loaded.plan_for(complete_shapes(loaded, given))
    description = plan.describe()
    optimised = getattr(plan, "graph", None)  # a plan file holds none
    if as_json:
        content = {
            "file": str(model),
            "bytes": model.stat().st_size,
            "inputs": [str(declared) for declared in loaded.inputs],
            "outputs": [str(declared) for declared in loaded.outputs],
            "metadata": loaded.metadata,
            "graph": str(optimised) if optimised else None,
            "plan": description.as_dict(),
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
    if graph and optimised:
        say(f"\n{optimised}")
    say(f"\n{description}")
