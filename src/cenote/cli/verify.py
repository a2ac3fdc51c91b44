"""`cenote verify`: the plan of a model beside another engine and its operators' references."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

import cenote
from cenote.cli.console import say, say_json, say_within, terminal_width, waiting
from cenote.cli.options import Json, PrecisionOption

Peer = Literal["onnxruntime", "litert", "tensorflow", "keras", "torch", "reference"]


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
    inputs: Annotated[
        Path | None,
        typer.Option(
            help="A .npz with an array per input (default: seeded random numbers).", show_default=False
        ),
    ] = None,
    tolerance: Annotated[
        float, typer.Option(min=0.0, help="Of a value, relative to the peer's largest element.")
    ] = 1e-4,
    precision: PrecisionOption = "fast",
    signature: Annotated[
        str | None,
        typer.Option(help="Which function of a model that has several.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare each value of a model's plan, as it runs, with another engine; say where they part and whose fault it is.

    inherited: the difference from the peer. local: that of the layer's kernels from their float64 reference on the
    same inputs. Ends with 1 where something is wrong: a kernel, the import, or more rounding than the tolerance.
    """
    given = None if inputs is None else _arrays(inputs)
    with waiting(f"verifying {model.name}"):
        found = cenote.verify(
            model,
            against=against,
            inputs=given,
            tolerance=tolerance,
            precision=precision,
            signature=signature,
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


def _arrays(path: Path) -> dict[str, Any]:
    """The arrays of a .npz by name."""
    try:
        with np.load(path, allow_pickle=False) as content:
            return {name: content[name] for name in content.files}
    except (ValueError, EOFError, zipfile.BadZipFile, AttributeError, TypeError) as error:
        raise cenote.InputError(f"{path}: not a .npz file ({error})") from None
