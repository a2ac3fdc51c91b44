"""What a front end gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cenote.core.types import Declared
from cenote.graph.graph import Graph


@dataclass(frozen=True)
class ImportedModel:
    """A model as its file has it.

    `outputs` are the outputs that declare a type, by name; `metadata` the file's own key-value pairs;
    `producer` the program that wrote it; `external` the files beside the model that hold weights.
    """

    graph: Graph
    outputs: Mapping[str, Declared] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    producer: str = ""
    external: tuple[str, ...] = ()
