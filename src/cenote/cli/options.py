"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Precision(StrEnum):
    """How convolutions may be computed."""

    FAST = "fast"
    EXACT = "exact"


Threads = Annotated[
    int | None,
    typer.Option("--threads", min=1, help="Threads per inference (default: one per physical core)."),
]
PrecisionOption = Annotated[Precision, typer.Option("--precision", help="exact: no Winograd convolution.")]
Shape = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        help="Size of an input with symbolic dimensions: NAME=1,3,224,224. A batch is 1 by default.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]
