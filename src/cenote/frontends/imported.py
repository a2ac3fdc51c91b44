"""What a front end gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cenote.core.types import Declared
from cenote.graph.graph import Graph


@dataclass(frozen=True)
class Ends:
    """Values by name that are to be a model's inputs and outputs; None for those that its file says."""

    inputs: Sequence[str] | None = None
    outputs: Sequence[str] | None = None

    def __bool__(self) -> bool:
        return (self.inputs, self.outputs) != (None, None)


@dataclass(frozen=True)
class ImportedModel:
    """A model as its file has it.

    `outputs` are the outputs whose type is declared or follows from the inputs', by name; `metadata` the file's own
    key-value pairs; `about` what it says about itself: "producer_name" (the program that wrote it), "producer_version",
    "graph_name", "domain", "description", "graph_description", "version", as far as it does; `external` the files
    beside the model that hold weights; `between` says that the front end has read what lies between `Ends` only;
    `inside` are the types that the file declares of values that are to be inputs.
    """

    graph: Graph
    outputs: Mapping[str, Declared] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict)
    external: tuple[str, ...] = ()
    between: bool = False
    inside: Mapping[str, Declared] = field(default_factory=dict)
