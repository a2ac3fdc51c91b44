"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Precision(StrEnum):
    """How convolutions may be computed."""

    FAST = "fast"
    EXACT = "exact"


class Denormals(StrEnum):
    """What becomes of numbers too small for full precision."""

    PRESERVE = "preserve"
    FLUSH = "flush"


class Tune(StrEnum):
    """How algorithms are chosen where several come close."""

    OFF = "off"
    CACHED = "cached"
    FULL = "full"


Threads = Annotated[
    int | None,
    typer.Option("--threads", min=1, help="Threads per inference (default: one per physical core)."),
]
PrecisionOption = Annotated[Precision, typer.Option("--precision", help="exact: no Winograd convolution.")]
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
        help="Size of an input with symbolic dimensions: NAME=1,3,224,224. A batch is 1 by default.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]
