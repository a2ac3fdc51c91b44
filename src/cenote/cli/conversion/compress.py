"""`cenote compress`: a float model as a smaller one within a bound of the error."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import cenote
from cenote.cli.console import progressing, say, say_json
from cenote.cli.conversion.quantize import calibration_data
from cenote.cli.options import Json
from cenote.cli.preprocess import Pictures


def compress(
    pictures: Pictures,
    model: Annotated[
        Path, typer.Argument(help="A float model of ONNX.", metavar="MODEL", show_default=False)
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The file to write.", metavar="FILE", show_default=False)
    ],
    inputs: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Real inputs on which the error is measured: pictures, .npy, .npz, or folders of such; all examples "
            "of an array lie along its first axis. Default: random numbers.",
            metavar="INPUT",
            show_default=False,
        ),
    ] = None,
    within: Annotated[
        float, typer.Option(help="Largest difference of an output, relative to its largest value.")
    ] = 1e-2,
    goal: Annotated[
        Literal["both", "size", "speed"],
        typer.Option(
            "--for",
            help="both: a smaller file and no slower call; size: a smaller file; speed: a faster call, beyond doubt.",
        ),
    ] = "both",
    treatment: Annotated[
        list[str] | None,
        typer.Option(
            help="What is tried: prune, low_rank, int4, int8, float16, bfloat16; may be given several times. Default: "
            "all but bfloat16.",
            metavar="TREATMENT",
            show_default=False,
        ),
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, max=256, help="As for loading.")] = None,
    as_json: Json = False,
) -> None:
    """Make a float model of ONNX smaller: filters of zeros are removed, products become pairs of thin ones, weights are
    stored in 4, 8 or 16 bits, layer by layer, as the error allows and it pays. The file runs in other engines, too.
    """
    data = calibration_data(model, inputs, output, pictures.settings(), threads) if inputs else None
    chosen: dict[str, Any] = {} if treatment is None else {"treatments": treatment}
    with progressing(f"compressing {model.name}") as progress:
        made = cenote.compress(
            model,
            output,
            within=within,
            calibration=data,
            goal=goal,
            threads=threads,
            progress=progress,
            **chosen,
        )
    if as_json:
        say_json({"file": str(model), **made.as_dict()})
    else:
        say(str(made))
