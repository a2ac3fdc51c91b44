"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

Precision = Literal["fast", "exact"]
Denormals = Literal["preserve", "flush"]
Tune = Literal["off", "cached", "full"]

Threads = Annotated[
    int | None,
    typer.Option("--threads", min=1, max=256, help="Threads per inference (default: one per physical core)."),
]
PrecisionOption = Annotated[
    Precision, typer.Option("--precision", help="exact: no Winograd convolution, sums in float64.")
]
DenormalsOption = Annotated[
    Denormals | None,
    typer.Option(
        "--denormals",
        help="flush: numbers below 1.2e-38 may become zero, where they make a model slow.",
        show_default=False,
    ),
]
TuneOption = Annotated[
    Tune,
    typer.Option(
        "--tune",
        help="How algorithms are chosen. full: measured now where the cost model finds them close, and kept in the "
        "cache; cached: by what is kept there; off: by the cost model alone.",
    ),
]
Shape = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        help="Size of an input with symbolic dimensions: NAME=1,3,224,224. A batch is 1 by default; a "
        "bound (h<=224) counts as its size.",
        show_default=False,
    ),
]
Input = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        help="A real input instead of random numbers: a picture, .npy or .npz, NAME=FILE, or NAME=NUMBER "
        "(sr=16000, sizes=[1,2]).",
        metavar="INPUT",
        show_default=False,
    ),
]
Feed = Annotated[
    list[str] | None,
    typer.Option(
        "--feed",
        help="A value inside the model that is to be an input, by its name (scope/node:0); may be given several times. "
        "Only what lies between them and the outputs is loaded.",
        metavar="NAME",
        show_default=False,
    ),
]
Fetch = Annotated[
    list[str] | None,
    typer.Option(
        "--fetch",
        help="A value that is to be an output, by its name; may be given several times.",
        metavar="NAME",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]
