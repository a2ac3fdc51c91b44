"""Export of a model: to a library for C, or to a WebAssembly module."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cenote.core.errors import ArgumentError
from cenote.core.load_options import LoadOptions
from cenote.export.c_library import LARGEST_INSIDE, write_library
from cenote.export.page.page import PageOptions, with_maps, write_page
from cenote.export.planning import Exporter
from cenote.export.targets import is_wasm, target_named
from cenote.export.wasm.module import MOST_THREADS, PLAIN, write_module
from cenote.graph.graph import Graph

PLACES = ("inside", "beside")  # of weights


def write_export(
    graph: Graph,
    options: LoadOptions,
    folder: str | os.PathLike[str],
    target: str,
    name: str,
    about: Mapping[str, str],
    shapes: Sequence[Mapping[str, Sequence[int]]] = (),
    weights: str | None = None,
    threads: int | None = None,
    page: Mapping[str, Any] | None = None,
) -> list[Path]:
    """Write a graph's export into a folder, and return the files. Arguments and errors as in `Model.export`."""
    if weights is not None and weights not in PLACES:
        raise ArgumentError(f"weights: '{weights}' is none of {', '.join(PLACES)}")
    web = is_wasm(target_named(target))
    if threads is not None and not (web and 1 <= threads <= MOST_THREADS):
        raise ArgumentError(
            f"threads: {threads} (1 to {MOST_THREADS}, of WebAssembly; a library for C takes any number)"
        )
    if web and weights == "inside" and (threads or 1) > 1:
        raise ArgumentError(
            "weights: modules for threads share one memory, into which they are read from beside"
        )
    if page is not None:
        return _write_page(graph, options, Path(folder), target, name, about, shapes, page)
    program = Exporter(graph, options, target).program(name, about, shapes)
    if web:
        return write_module(program, Path(folder), weights != "inside", threads or 1)
    beside = weights == "beside" if weights else program.constant_bytes > LARGEST_INSIDE
    return write_library(program, Path(folder), beside)


def _write_page(
    graph: Graph,
    options: LoadOptions,
    folder: Path,
    target: str,
    name: str,
    about: Mapping[str, str],
    shapes: Sequence[Mapping[str, Sequence[int]]],
    page: Mapping[str, Any],
) -> list[Path]:
    """Write a model as one HTML file."""
    if target != PLAIN or len(shapes) > 1:
        raise ArgumentError(
            f"page: one set of sizes for the target {PLAIN}, which has relaxed SIMD where it can"
        )
    try:
        wanted = PageOptions(**page)
    except TypeError as error:
        raise ArgumentError(
            f"page: {error}; it takes {', '.join(PageOptions.__dataclass_fields__)}"
        ) from None
    graph, wanted = with_maps(graph, wanted)
    return write_page(Exporter(graph, options, target).program(name, about, shapes), folder, wanted)
