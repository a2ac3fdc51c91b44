"""`cenote export`: a model as a library that needs no Python."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import cenote
from cenote.cli.answers import read_labels
from cenote.cli.console import say, say_json, seconds, size, waiting
from cenote.cli.options import Json
from cenote.cli.preprocess import Pictures
from cenote.cli.shapes import Shapes, parse_shapes

Target = Literal["x86-64", "x86-64-v3", "x86-64-v4", "aarch64", "riscv64", "wasm32", "wasm32-relaxed"]


@dataclass(frozen=True)
class Exported:
    """The options that say what is written."""

    shape: Annotated[
        list[str] | None,
        typer.Option(
            "--shape",
            help="Size of an input: NAME=1,3,224,224. Once more for the same input: one more entry.",
            show_default=False,
        ),
    ] = None
    name: Annotated[
        str,
        typer.Option(
            help="Prefix of files and functions (default: the name of the model's file).", show_default=False
        ),
    ] = ""
    weights_in: Annotated[
        Literal["inside", "beside"] | None,
        typer.Option(
            "--weights-in",
            help="The weights' place: the code's file, or one beside it (WebAssembly, and from 512 MB on).",
            show_default=False,
        ),
    ] = None
    web_threads: Annotated[
        int | None,
        typer.Option(
            "--web-threads",
            min=1,
            max=64,
            help="Threads that a run of WebAssembly may have.",
            show_default=False,
        ),
    ] = None
    page: Annotated[
        bool,
        typer.Option("--page", help="One HTML file that shows the model: picture in, answer out (wasm32)."),
    ] = False
    labels: Annotated[
        Path | None,
        typer.Option(help="Names of the classes, a line each, for --page.", show_default=False),
    ] = None


def export(
    model: Annotated[Path, typer.Argument(help="A model.", metavar="MODEL", show_default=False)],
    options: cenote.LoadOptions,
    exported: Exported,
    pictures: Pictures,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the files.", show_default=False)],
    target: Annotated[Target, typer.Option(help="Machine that the code is for.", show_default=False)],
    as_json: Json = False,
) -> None:
    """Write a model as a library that needs no Python: for all that calls C, or as WebAssembly with its JavaScript.

    Sizes are fixed: a batch is 1, other open dimensions need --shape. Models with steps that only NumPy can run are
    refused, with the names of the steps.
    """
    start = time.perf_counter()
    with waiting(f"exporting {model.name}"):
        files = cenote.export_model(
            model,
            output,
            target=target,
            name=exported.name,
            shapes=_entries(exported.shape or []),
            weights=exported.weights_in,
            threads=exported.web_threads,
            page=_page(exported, pictures),
            options=options,
        )
    took = time.perf_counter() - start
    if as_json:
        listed = {path.name: path.stat().st_size for path in files}
        say_json(
            {"model": str(model), "target": target, "folder": str(output), "files": listed, "seconds": took}
        )
        return
    for path in files:
        say(f"{path}: {size(path.stat().st_size)}")
    guide = next((path.name for path in files if path.name == "README.md" or path.suffix == ".h"), "")
    say(f"in {seconds(took)}" + (f"; how to call it is in {guide}" if guide else "; open it in a browser"))


def _page(exported: Exported, pictures: Pictures) -> dict[str, Any] | None:
    """Return what the page is to show, None without one. Raises BadParameter."""
    if not exported.page:
        return None
    settings = {name: value for name, value in asdict(pictures.settings()).items() if value is not None}
    return {**settings, "labels": read_labels(exported.labels)} if exported.labels else settings


def _entries(texts: Sequence[str]) -> list[Shapes]:
    """Return the sizes of each entry: an input that is named again begins the next one."""
    entries: list[Shapes] = []
    for text in texts:
        for name, extents in parse_shapes([text]).items():
            if not entries or name in entries[-1]:
                entries.append({})
            entries[-1][name] = extents
    return entries
