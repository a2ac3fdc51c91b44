"""Export of a model: to a library for C, or to a WebAssembly module."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from cenote.core.errors import ArgumentError, UnsupportedError
from cenote.core.load_options import LoadOptions
from cenote.export.c_library import LARGEST_INSIDE, write_library
from cenote.export.planning import Exporter
from cenote.export.targets import is_wasm, target_named
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
) -> list[Path]:
    """Write a graph's export into a folder, and return the files. Arguments and errors as in `Model.export`."""
    if weights is not None and weights not in PLACES:
        raise ArgumentError(f"weights: '{weights}' is none of {', '.join(PLACES)}")
    machine = target_named(target)
    if is_wasm(machine):
        raise UnsupportedError(f"target: {target} is not there yet")
    program = Exporter(graph, options, target).program(name, about, shapes)
    beside = weights == "beside" if weights else program.constant_bytes > LARGEST_INSIDE
    return write_library(program, Path(folder), beside)
