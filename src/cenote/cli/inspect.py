"""`cenote inspect`: the optimised graph, the plan and the memory of a model."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import cenote
from cenote.cli.console import err, say, say_json, say_within, size, terminal_width, waiting, write
from cenote.cli.loaded import InputGroup, Loaded, load
from cenote.cli.options import Json, Model

_LATER = ": its shapes depend on values that the stage before computed"
_SECONDS = 1.0  # of measuring, for the page
_WITH_OPERATORS = 110  # letters of a line from which operators have room beside the rest


def inspect(
    model: Model,
    given: InputGroup,
    options: cenote.LoadOptions,
    graph: Annotated[bool, typer.Option(help="Print the optimised graph too.")] = True,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Only list what is not supported, all of it; exit code 1 if there is any."
        ),
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", help="Write a page that draws the graph, with each step's time.", show_default=False
        ),
    ] = None,
    memory: Annotated[
        bool,
        typer.Option("--memory", help="Only show what a call needs of memory; with --html as a page."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show a model's graph after optimisation, the plan (steps, kernels, what runs on the host and why), memory.

    Where shapes depend on the content of values, there are several plans; those after the first are shown
    for the inputs given with --input, else for random ones.

    On a terminal lines are wrapped or cut to its width. Through a pipe and with --json nothing is cut: names of
    kernels are whole there.
    """
    if check:
        _check(model, as_json)
        return
    anew = _compiled_anew() if graph or as_json else contextlib.nullcontext()
    with anew:
        ready = load(model, options, given)
        loaded = ready.model
        _run_to_the_end(ready)
        if memory:
            _show_memory(loaded.memory_usage(), html, as_json)
            return
        plans = loaded.plans
        if html is not None:
            _draw(ready, model.name, html)
            plans = loaded.plans
    if as_json:
        say_json(_content(model, loaded))
        return
    width = terminal_width()
    say_within(_head(model, loaded), width)
    for number, plan in enumerate(plans):
        if len(plans) > 1:
            how = f"{_LATER}, here from {'the given' if ready.given else 'random'} inputs" if number else ""
            say_within(f"\nstage {number + 1} of {len(plans)}{how}", width)
        text = graph_text(plan) if graph else None
        if text:
            say_within(f"\n{text}", width)
        say("")
        _show(loaded, number, width)


def _run_to_the_end(ready: Loaded) -> None:
    """Run the model where plans after the first depend on the content of values."""
    loaded = ready.model
    if len(ready.given) == len(loaded.inputs):
        loaded.run(ready.given)
    elif not all(_is_fixed(declared.shape) for declared in loaded.outputs):
        with contextlib.suppress(cenote.CenoteError):  # what these numbers lead to is not at fault
            loaded.run(ready.inputs())


def _draw(ready: Loaded, name: str, html: Path) -> None:
    """Write the page of the graph, with times."""
    with waiting(f"timing {name}"):
        timed = ready.model.profile(ready.inputs(), seconds=_SECONDS)
    write(html, ready.model.graph_html(timed))
    err().print(f"written: {html}", markup=False, soft_wrap=True)


def _show_memory(usage: cenote.MemoryUsage, html: Path | None, as_json: bool) -> None:
    """Print what a call needs of memory, and write it as a page."""
    if as_json:
        say_json(usage.to_dict())
    else:
        say(str(usage))
    if html is not None:
        write(html, usage.html())
        err().print(f"written: {html}", markup=False, soft_wrap=True)


def _is_fixed(shape: tuple[int | str | None, ...] | None) -> bool:
    return shape is not None and all(isinstance(extent, int) for extent in shape)


def _content(model: Path, loaded: cenote.Model) -> dict[str, Any]:
    """Return everything that the command prints, for --json."""
    plans = loaded.plans
    return {
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


def _check(model: Path, as_json: bool) -> None:
    """Print what keeps the model from being read, one reason a line. Exits with 1 if there is any."""
    problems = cenote.unsupported(model)
    if as_json:
        say_json({"file": str(model), "ok": not problems, "unsupported": problems})
    else:
        say("\n".join(problems) or f"{model}: everything in it is supported")
    if problems:
        raise typer.Exit(1)


def _head(path: Path, model: cenote.Model) -> str:
    """File, inputs, outputs, metadata: a line each."""
    lines = [f"file {path} ({size(path.stat().st_size)})"]
    lines += [f"input {declared}" for declared in model.inputs]
    lines += [f"output {declared}" for declared in model.outputs]
    for key, value in model.metadata.items():
        lines.append(
            f"metadata {key}: {value if len(value) <= 200 else f'{value[:200]}… ({len(value)} letters)'}"
        )
    return "\n".join(lines)


def _show(model: cenote.Model, number: int, width: int | None) -> None:
    """Print one of the model's plans; on a terminal its steps and kernels cut to fit."""
    plan = model.plans[number].describe()
    if width is None:
        say(str(plan))
        return
    say_within("\n".join(plan.head), width)
    rows: list[tuple[str, ...]] = [(str(place), *row) for place, row in enumerate(plan.rows)]
    if width < _WITH_OPERATORS:
        rows = [row[:-1] for row in rows]
    for line in _table(rows, width):
        say(line)
    say_within("\n".join(plan.notes), width)
    for symbol, count in plan.kernels:
        say(_cut(f"kernel {count:3} x  {_short(symbol)}", width))


def _table(rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Rows in columns, two spaces apart; the widest columns give way. Of an output, `%name: type`, the end stays."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    while sum(widths) + 2 * len(widths) > width and max(widths) > 1:
        widths[widths.index(max(widths))] -= 1
    for row in rows:
        cells = [
            _cut(text, room, of_output=at == 3)
            for at, (text, room) in enumerate(zip(row, widths, strict=True))
        ]
        padded = [cells[0].rjust(widths[0]), *map(str.ljust, cells[1:], widths[1:])]
        yield f"  {'  '.join(padded)}".rstrip()


def _cut(text: str, width: int, of_output: bool = False) -> str:
    if len(text) <= width:
        return text
    return f"…{text[len(text) - width + 1 :]}" if of_output else f"{text[: width - 1]}…"


def _short(symbol: str) -> str:
    """Name of a kernel without its options that are off."""
    return "__".join(part for part in symbol.split("__") if not part.endswith(("_False", "_0")))


@contextlib.contextmanager
def _compiled_anew() -> Iterator[None]:
    """Compile models in this context, as plans in the cache have no graphs. Kernels still come from the cache."""
    before = os.environ.get("CENOTE_PLAN_CACHE")
    os.environ["CENOTE_PLAN_CACHE"] = "0"
    try:
        yield
    finally:
        os.environ.pop("CENOTE_PLAN_CACHE")
        if before is not None:
            os.environ["CENOTE_PLAN_CACHE"] = before


def graph_text(plan: object) -> str | None:
    """The optimised graph; a plan file holds none."""
    graph = getattr(plan, "graph", None)
    return None if graph is None else str(graph)
