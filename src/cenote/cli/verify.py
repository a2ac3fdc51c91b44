"""`cenote verify`: the plan of a model beside another engine and its operators' references."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

import cenote
from cenote.cli.console import err, say, say_json, say_within, terminal_width, waiting, write
from cenote.cli.inputs import Inputs
from cenote.cli.loaded import InputGroup, completed
from cenote.cli.options import Json, Model
from cenote.cli.shapes import parse_shapes

Peer = Literal["onnxruntime", "litert", "tensorflow", "keras", "torch", "reference"]


def verify(
    model: Model,
    given: InputGroup,
    options: cenote.LoadOptions,
    against: Annotated[
        Peer | None,
        typer.Option(
            help="The engine to compare with (default: the format's own if installed, else reference)."
        ),
    ] = None,
    inputs: Annotated[list[str] | None, typer.Option(hidden=True)] = None,  # as it was called before
    sizes: Annotated[
        int,
        typer.Option(min=0, help="Of a model with symbolic dimensions: at so many other sizes, too."),
    ] = 2,
    tolerance: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help="Of a value, relative to the peer's largest element (default: 1e-4; with --precision bfloat16 0.2).",
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Write a page with a picture of the errors.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare each value of a model's plan, as it runs, with another engine; say where they part and whose fault it is.

    inherited: the difference from the peer. local: that of the layer's kernels from their float64 reference on the
    same inputs. Of a model with symbolic dimensions the loaded model is called as well, at the sizes of the inputs and
    at others. Ends with 1 where something is wrong: a kernel, the import, a plan for many sizes, or more rounding than
    the tolerance.
    """
    with waiting(f"verifying {model.name}"):
        verification = cenote.verify_with(
            model,
            options,
            against=against,
            inputs=_inputs(model, options, given.shape or (), [*(given.input or ()), *(inputs or ())]),
            tolerance=tolerance,
            sizes=sizes,
        )
    if as_json:
        say_json({"file": str(model), **verification.as_dict()})
    else:
        *rows, verdict = str(verification).splitlines()
        for row in rows:
            say(row)
        say_within(verdict, terminal_width())
    if html is not None:
        write(html, verification.html(model.name))
        err().print(f"written: {html}", markup=False, soft_wrap=True)
    if not verification.ok:
        raise typer.Exit(1)


def _inputs(
    model: Path, options: cenote.LoadOptions, shape: Sequence[str], input: Sequence[str]
) -> Inputs | None:
    """Inputs from files, the others random; None without any file, when the model need not be loaded for them."""
    shapes = parse_shapes(shape)
    if not shape and not input:
        return None
    with cenote.load_with(model, options) as loaded:
        return completed(loaded, shapes, input).inputs()
