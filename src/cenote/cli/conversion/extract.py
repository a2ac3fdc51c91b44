"""`cenote extract`: a model's configuration and values as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

import cenote
from cenote.cli.console import say, say_json, size, waiting
from cenote.cli.options import Json


def extract(
    model: Annotated[
        Path, typer.Argument(help="A model in any format.", metavar="MODEL", show_default=False)
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The folder to write.", metavar="FOLDER", show_default=False),
    ],
    layer: Annotated[
        list[str] | None,
        typer.Option(
            "--layer", help="Only the layer of this name; may be given several times.", show_default=False
        ),
    ] = None,
    values: Annotated[
        Literal["safetensors", "npy", "bat"],
        typer.Option(help="bat: N_config.bat and N_values.bat, one value per line."),
    ] = "safetensors",
    as_json: Json = False,
) -> None:
    """Write each layer's configuration (layers.json) and values, by the model's names; cenote loads the folder."""
    with waiting(f"reading {model.name}"):
        written = cenote.extract(model, output, layers=layer or (), values=values)
    sizes = {
        str(path.relative_to(output)): path.stat().st_size for path in output.rglob("*") if path.is_file()
    }
    total = sum(sizes.values())
    if as_json:
        say_json(
            {
                "written": str(written),
                "folder": str(output),
                "bytes": total,
                "files": dict(sorted(sizes.items())),
            }
        )
        return
    say(f"{written}: {size(total)} in {output}")
