"""`cenote verify`: the plan of a model beside another engine and its operators' references."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, TypedDict

import typer

import cenote
from cenote.cli.bench import filled
from cenote.cli.console import say, say_json, say_within, terminal_width, waiting
from cenote.cli.inputs import Inputs, read_inputs
from cenote.cli.options import Feed, Fetch, Input, Json, PrecisionOption, Shape
from cenote.cli.preprocess import Preprocess
from cenote.cli.shapes import complete_shapes, parse_shapes, shapes_of

Peer = Literal["onnxruntime", "litert", "tensorflow", "keras", "torch", "reference"]


class Reading(TypedDict):
    """The part of a file that is loaded."""

    signature: str | None
    inputs: list[str] | None
    outputs: list[str] | None


def verify(
    model: Annotated[
        Path, typer.Argument(help="A model in any format.", metavar="MODEL", show_default=False)
    ],
    against: Annotated[
        Peer | None,
        typer.Option(
            help="The engine to compare with (default: the format's own if installed, else reference)."
        ),
    ] = None,
    shape: Shape = None,
    input: Input = None,
    inputs: Annotated[list[str] | None, typer.Option(hidden=True)] = None,  # as it was called before
    sizes: Annotated[
        int,
        typer.Option(min=0, help="Of a model with symbolic dimensions: at so many other sizes, too."),
    ] = 2,
    tolerance: Annotated[
        float, typer.Option(min=0.0, help="Of a value, relative to the peer's largest element.")
    ] = 1e-4,
    precision: PrecisionOption = "fast",
    signature: Annotated[
        str | None,
        typer.Option(help="Which function of a model that has several.", show_default=False),
    ] = None,
    feed: Feed = None,
    fetch: Fetch = None,
    as_json: Json = False,
) -> None:
    """Compare each value of a model's plan, as it runs, with another engine; say where they part and whose fault it is.

    inherited: the difference from the peer. local: that of the layer's kernels from their float64 reference on the
    same inputs. Of a model with symbolic dimensions the loaded model is called as well, at the sizes of the inputs and
    at others. Ends with 1 where something is wrong: a kernel, the import, a plan for many sizes, or more rounding than
    the tolerance.
    """
    reading: Reading = {"signature": signature, "inputs": feed, "outputs": fetch}
    with waiting(f"verifying {model.name}"):
        found = cenote.verify(
            model,
            against=against,
            inputs=_inputs(model, reading, shape or (), [*(input or ()), *(inputs or ())]),
            tolerance=tolerance,
            precision=precision,
            sizes=sizes,
            signature=signature,
            feed=feed,
            fetch=fetch,
        )
    if as_json:
        say_json({"file": str(model), **found.as_dict()})
    else:
        *rows, verdict = str(found).splitlines()
        for row in rows:
            say(row)
        say_within(verdict, terminal_width())
    if not found.ok:
        raise typer.Exit(1)


def _inputs(model: Path, reading: Reading, shape: Sequence[str], input: Sequence[str]) -> Inputs | None:
    """The inputs that are given, the others random; None where nothing is, and the model need not be loaded for it."""
    given = parse_shapes(shape)
    if not shape and not input:
        return None
    with cenote.load(model, **reading) as loaded:
        real = read_inputs(loaded, input, Preprocess())
        return filled(loaded, complete_shapes(loaded, given, shapes_of(real)), real)
