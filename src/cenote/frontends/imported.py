"""Results of a front end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from cenote.core.deferred import dataclass
from cenote.core.types import Declared
from cenote.graph.graph import Graph


@dataclass(frozen=True)
class Ends:
    """Names of values that are to be a model's inputs and outputs; None for those of its file. `sizes`: of inputs, as
    `GraphBuilder` takes them."""

    inputs: Sequence[str] | None = None
    outputs: Sequence[str] | None = None
    sizes: Mapping[str, Sequence[object]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return (self.inputs, self.outputs) != (None, None)


@dataclass(frozen=True)
class ImportedModel:
    """A model as it is in its file.

    `outputs` are the outputs whose type is declared or follows from the inputs', by name; `metadata` the file's own
    key-value pairs; `about` its description of itself, as far as it has one: "producer_name" (the program that wrote
    it), "producer_version", "graph_name", "domain", "description", "graph_description", "version"; `external` the
    files beside the model that hold weights; `between`: the front end has read only the part between `Ends`; `inside`
    are the types that the file declares for values that are to be inputs; `operators` the digests of the user's
    operators that nodes were decoded by, by name.
    """

    graph: Graph
    outputs: Mapping[str, Declared] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict)
    external: tuple[str, ...] = ()
    between: bool = False
    inside: Mapping[str, Declared] = field(default_factory=dict)
    operators: Mapping[str, str] = field(default_factory=dict)
