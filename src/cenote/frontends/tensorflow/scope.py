"""The nodes around a node: the outputs that references mean, and the branches that these are in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Generic, TypeVar

from cenote.core.deferred import dataclass
from cenote.core.errors import ModelError
from cenote.frontends.tensorflow.branches import Sides, around

Value = TypeVar("Value")
# Names of outputs, of operations that have several: bodies of functions refer to them by these.
_OUTPUTS = {
    "FusedBatchNorm": ("y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2"),
    "Switch": ("output_false", "output_true"),
    "Merge": ("output", "value_index"),
    "TensorListPopBack": ("output_handle", "tensor"),
    "TopKV2": ("values", "indices"),
    "MaxPoolWithArgmax": ("output", "argmax"),
    "Unique": ("y", "idx"),
    "NonMaxSuppressionV4": ("selected_indices", "valid_outputs"),
    "NonMaxSuppressionV5": ("selected_indices", "selected_scores", "valid_outputs"),
}
_OUTPUTS |= dict.fromkeys(("FusedBatchNormV2", "FusedBatchNormV3"), _OUTPUTS["FusedBatchNorm"])

ENTERS, MERGES, _EXITS = ("Enter", "RefEnter"), ("Merge", "RefMerge"), ("Exit", "RefExit")


@dataclass
class TensorFlowScope(Generic[Value]):
    """The nodes of a graph or of the body of a function, and the values that they have made."""

    nodes: Mapping[str, Any]
    prefix: str = ""
    arguments: Mapping[str, Value] = field(default_factory=dict)
    made: dict[str, tuple[Value, ...]] = field(default_factory=dict)
    depth: int = 0
    # Undecided branches that all of it is in.
    around: Sides = ()
    # Branches of an output; of all others at -1.
    sides: dict[tuple[str, int], Sides] = field(default_factory=dict)
    # Outputs that are inputs of the model.
    fed: dict[tuple[str, int], str] = field(default_factory=dict)
    # References to outputs that leave it.
    results: Sequence[str] = ()
    # Last values of the loops that are unrolled, by frame and Switch.
    frames: dict[str, dict[str, Value]] = field(default_factory=dict)

    def place(self, reference: str) -> tuple[str, int]:
        """Return node and output that an input refers to: "node", "node:1", or "node:name:1" in a function."""
        name, *rest = reference.split(":")
        try:
            if len(rest) < 2:
                return name, int(rest[0]) if rest else 0
            known = _OUTPUTS.get(self.nodes[name].op if name in self.nodes else "", ())
            return name, known.index(rest[0]) + int(rest[1]) if rest[0] in known else int(rest[1])
        except ValueError as error:
            raise ModelError(f"'{reference}' names no output") from error

    def sides_of(self, reference: str) -> Sides:
        """Return the undecided branches that an output is in."""
        name, index = self.place(reference)
        return around(self.around, self.sides.get((name, index), self.sides.get((name, -1), ())))

    def sources(self, name: str) -> list[str]:
        """Return the inputs of a node; for a node without inputs, those that determine its branch."""
        node = self.nodes[name]
        if node.op in ("IteratorGetNext", "Placeholder"):
            # An input, whatever its content would be computed from.
            return []
        if node.op in _EXITS:
            return [enter.input[0] for enter in self.frame_of(name)[1].values()]
        read = [each for each in node.input if not each.startswith("^")]
        return read or [each[1:] for each in node.input if is_pivot(self.nodes, each[1:])]

    def frame_of(self, name: str) -> tuple[str, dict[str, Any]]:
        """Return the frame that an Exit leaves and all its Enters. Raises ModelError where there is none."""
        path = [name]
        for _ in range(3):  # to the Switch, the Merge and the Enter
            node = self.nodes.get(path[-1])
            if node is None or not node.input:
                break
            path.append(self.place(node.input[0])[0])
        first = self.nodes.get(path[-1])
        if first is None or first.op not in ENTERS or len(path) != 4:
            raise ModelError(f"node '{name}' leaves a loop that nothing enters")
        frame = first.attr["frame_name"].s.decode()
        enters = {
            each: node
            for each, node in self.nodes.items()
            if node.op in ENTERS and node.attr["frame_name"].s.decode() == frame
        }
        return frame, enters


def is_pivot(nodes: Mapping[str, Any], name: str) -> bool:
    """Return whether a node only signals that a branch is taken."""
    node = nodes.get(name)
    if node is None or node.op != "Identity" or not node.input:
        return False
    source = nodes.get(node.input[0].split(":")[0])
    return source is not None and source.op in ("Switch", "RefSwitch")
