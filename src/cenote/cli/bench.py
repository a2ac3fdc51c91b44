"""`cenote bench`: latency, throughput and memory of one model."""

from __future__ import annotations

import resource
import sys
import time
from typing import Annotated, Any

import numpy as np
import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

import cenote
from cenote.cli.console import err, say_json, say_within, seconds, size, terminal_width
from cenote.cli.inputs import Inputs
from cenote.cli.loaded import InputGroup, load
from cenote.cli.options import Json, Model
from cenote.cli.shapes import Shapes

WARM_UP = 3
PERCENTILES = (50, 90, 99)


def bench(
    model: Model,
    given: InputGroup,
    options: cenote.LoadOptions,
    duration: Annotated[float, typer.Option("--seconds", min=0.01, help="How long to measure.")] = 5.0,
    as_json: Json = False,
) -> None:
    """Measure latency, throughput and memory of a model, on the inputs given, else on seeded random numbers."""
    start = time.perf_counter()
    ready = load(model, options, given)
    load_seconds = time.perf_counter() - start
    loaded, shapes, inputs = ready.model, ready.shapes, ready.inputs()
    for _ in range(WARM_UP):
        loaded.run(inputs)
    times = np.array(_measure(loaded, inputs, duration))
    batch = next((extents[0] for extents in shapes.values() if extents), 1)
    result: dict[str, Any] = {
        "model": str(model),
        "inputs": {name: list(extents) for name, extents in shapes.items()},
        "threads": loaded.threads,
        "precision": loaded.precision,
        "load_seconds": load_seconds,
        "runs": len(times),
        "seconds": {
            "min": float(times.min()),
            **{f"p{percent}": float(np.percentile(times, percent)) for percent in PERCENTILES},
            "mean": float(times.mean()),
            "max": float(times.max()),
        },
        "items_per_second": batch / float(times.mean()) if batch else 0.0,
        "memory_bytes": _memory(loaded, shapes),
    }
    if as_json:
        say_json(result)
    else:
        say_within(_text(result), terminal_width())


def _measure(model: cenote.Model, inputs: Inputs, duration: float) -> list[float]:
    """Return the seconds of each run: as many runs as fit the duration, at least one. The progress bar is drawn between
    runs, at most ten times a second."""
    console = err()
    times: list[float] = []
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=console, transient=True, auto_refresh=False, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task("measuring", total=duration)
        start = shown = time.perf_counter()
        while True:
            before = time.perf_counter()
            model.run(inputs)
            after = time.perf_counter()
            times.append(after - before)
            if after - shown > 0.1:
                shown = after
                progress.update(task, completed=after - start, refresh=True)
            if after - start >= duration:
                return times


def _memory(model: cenote.Model, shapes: Shapes) -> dict[str, int]:
    """Return the bytes that the plan for these shapes takes, and those of this process."""
    memory = model.plan_for(shapes).describe().memory
    return {
        "arena": memory.arena,
        "constants": memory.constants,
        "scratch_per_thread": memory.scratch,
        "process_peak": _peak_memory(),
    }


def _peak_memory() -> int:
    """Bytes of this process at its largest."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _text(result: dict[str, Any]) -> str:
    times, memory = result["seconds"], result["memory_bytes"]
    shapes = ", ".join(f"{name}[{','.join(map(str, extents))}]" for name, extents in result["inputs"].items())
    return "\n".join(
        (
            f"{result['model']}: {shapes}",
            f"{result['threads']} thread(s), precision {result['precision']}, "
            f"loaded in {seconds(result['load_seconds'])}",
            f"latency     median {seconds(times['p50'])}, p90 {seconds(times['p90'])}, p99 {seconds(times['p99'])}, "
            f"fastest {seconds(times['min'])} ({result['runs']} runs)",
            f"throughput  {result['items_per_second']:.4g} per second",
            f"memory      arena {size(memory['arena'])}, constants {size(memory['constants'])}, "
            f"scratch {size(memory['scratch_per_thread'])} per thread, process at most {size(memory['process_peak'])}",
        )
    )
