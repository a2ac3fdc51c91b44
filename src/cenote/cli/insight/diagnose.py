"""`cenote diagnose`: why a model is slow, and what helps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

import cenote
from cenote.cli.console import err, say, say_json, write
from cenote.cli.loaded import InputGroup, load
from cenote.cli.options import Json, Model

Tolerance = Annotated[
    float,
    typer.Option(
        "--tolerance",
        min=0.0,
        help="With --apply: how far outputs may differ, relative to their largest value. 0: nothing is tried that "
        "changes them by more than rounding.",
    ),
]


def diagnose(
    model: Model,
    given: InputGroup,
    options: cenote.LoadOptions,
    deep: Annotated[bool, typer.Option("--deep", help="Measure longer, and try more.")] = False,
    apply: Annotated[
        bool, typer.Option("--apply", help="Try what the findings advise; keep what helps beyond doubt.")
    ] = False,
    tolerance: Tolerance = 0.0,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="With --apply: write what helped as a plan file.", show_default=False
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Write the findings and the profile as a page.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Say why a model takes as long as it does, what could be done, and how much that would gain."""
    if output is not None and not apply:
        raise typer.BadParameter("a plan is written of what --apply found", param_hint="--output")
    ready = load(model, options, given)
    loaded, inputs = ready.model, ready.inputs()
    if output is not None:
        loaded.run(inputs)
        loaded.save(output, model)  # what cannot be written shows now, not after a minute of trials
    diagnosis = loaded.diagnose(inputs, deep=deep)
    diagnosis = replace(diagnosis, profile=replace(diagnosis.profile, model=model.name))
    best = loaded
    if apply:
        diagnosis, best = loaded.treat(diagnosis, inputs, tolerance=tolerance)
    _show(diagnosis, html, as_json)
    if output is not None:
        if best is not loaded:
            best.save(output, model)
        _tell(output, loaded, best)


def _show(found: cenote.Diagnosis, html: Path | None, as_json: bool) -> None:
    if as_json:
        say_json(found.to_dict())
    else:
        say(str(found))
    if html is not None:
        write(html, found.profile.html())
        err().print(f"written: {html}", markup=False, soft_wrap=True)


def _tell(output: Path, before: cenote.Model, after: cenote.Model) -> None:
    """Print what the written plan file holds, and the options to load it with."""
    what = "nothing helped, the model as it is" if after is before else "what helped"
    how = ", ".join(_of_loading(before, after))
    text = f"written: {output} ({what}{f'; load it with {how}' if how else ''})"
    err().print(text, markup=False, soft_wrap=True)


def _of_loading(before: cenote.Model, after: cenote.Model) -> Iterator[str]:
    """Options that helped and that plan files do not hold."""
    if after.threads != before.threads:
        yield f"threads={after.threads}"
    if after.denormals != before.denormals:
        yield f'denormals="{after.denormals}"'
