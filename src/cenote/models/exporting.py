"""Export of a model's graph. What plans and writes is imported when it is needed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cenote.core.errors import InputError
from cenote.core.load_options import LoadOptions
from cenote.core.locks import importing
from cenote.models.origin import Origin

if TYPE_CHECKING:
    from cenote.graph.graph import Graph

WeightsPlace = Literal["inside", "beside"]


def export(
    graph: Graph,
    options: LoadOptions,
    folder: str | os.PathLike[str],
    target: str,
    name: str,
    about: Mapping[str, str],
    shapes: Sequence[Mapping[str, Sequence[int]]],
    weights: WeightsPlace | None,
    threads: int | None,
    page: Mapping[str, Any] | None,
) -> list[Path]:
    """Write the export of a graph; arguments and errors as in `Model.export`. `about`: the file's key-value pairs."""
    with importing():
        from cenote.export.exporting import write_export

    return write_export(
        graph, options.changed(tune="off"), folder, target, name, about, shapes, weights, threads, page
    )


def graph_of(origin: Origin) -> Graph:
    """Return a loaded model's graph once more. Raises InputError where it is not at hand."""
    if not origin.has_graph:
        raise InputError(
            "export: the model's graph is not at hand: a plan file holds none, and an open file is read once; load the "
            "model from its path"
        )
    return origin.graph()
