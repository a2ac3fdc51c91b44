"""An ONNX graph as the quantiser looks at it: who makes a value, who reads it, which are constants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, numpy_helper

from cenote.core.types import Array
from cenote.frontends.onnx_inference import inferred

Value = TypeVar("Value")


class Network:
    """A view of a model of ONNX; `refreshed` after the model's nodes have changed.

    `constants`: initializers as arrays; `makers`: the node of each value; `readers`: the nodes that read it;
    `outputs`: the model's; `inside`: values that graphs inside of nodes (the branches of If, say) read.
    """

    def __init__(self, model: ModelProto) -> None:
        self.model = model
        self.constants: dict[str, Array] = {
            each.name: numpy_helper.to_array(each) for each in model.graph.initializer
        }
        self._given: set[str] = set()
        self.refreshed()

    def refreshed(self) -> None:
        """Look at the nodes again."""
        self.makers: dict[str, NodeProto] = {}
        self.readers: dict[str, list[NodeProto]] = defaultdict(list)
        self.outputs = {each.name for each in self.model.graph.output}
        self.inside: set[str] = set()
        for node in self.nodes:
            for name in node.output:
                self.makers[name] = node
            for name in dict.fromkeys(node.input):
                self.readers[name].append(node)
            self.inside.update(read_inside(node))

    @property
    def nodes(self) -> list[NodeProto]:
        """The nodes of the graph itself, in order."""
        return list(self.model.graph.node)

    @property
    def inputs(self) -> list[str]:
        """Names of the model's inputs."""
        return [each.name for each in self.model.graph.input]

    def constant(self, node: NodeProto, place: int) -> Array | None:
        """Return the constant that a node reads at a place; None where there is none."""
        return self.constants.get(node.input[place]) if place < len(node.input) else None

    def only_reader(self, name: str) -> NodeProto | None:
        """Return the node that alone reads a value; None where others, or the model's callers, read it too."""
        readers = self.readers.get(name, [])
        alone = len(readers) == 1 and name not in self.outputs and name not in self.inside
        return readers[0] if alone else None

    def fresh(self, stem: str) -> str:
        """Return a name that no value has, and that is not returned again."""
        named = (self.constants, self.makers, self.outputs, self.readers, self.inside)
        taken = (*named, self.inputs, self._given)
        name = stem
        while any(name in names for names in taken):
            name += "_"
        self._given.add(name)
        return name

    def set_constant(self, name: str, array: Array) -> None:
        """Add a constant, or change one that nothing else reads."""
        if name in self.constants:
            self.drop_constants(lambda each: each == name)
        self.constants[name] = array
        self.model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))

    def drop_constants(self, dropped: Callable[[str], bool]) -> None:
        """Remove constants by their names."""
        held = [each for each in self.model.graph.initializer if not dropped(each.name)]
        if len(held) < len(self.model.graph.initializer):
            del self.model.graph.initializer[:]
            self.model.graph.initializer.extend(held)
            self.constants = {name: array for name, array in self.constants.items() if not dropped(name)}

    def drop_unread_constants(self) -> None:
        """Remove constants that nothing reads."""
        self.refreshed()
        read = {*self.readers, *self.outputs, *self.inside}
        self.drop_constants(lambda name: name not in read)

    def of_rank(self, rank: int) -> set[str]:
        """Return the names of values that are known to have so many axes."""
        graph = self.model.graph
        found = (*graph.input, *inferred(self.model).graph.value_info)
        return {
            each.name
            for each in found
            if each.type.tensor_type.HasField("shape") and len(each.type.tensor_type.shape.dim) == rank
        }

    def replace_nodes(self, nodes: list[NodeProto]) -> None:
        """Put other nodes in place of all, in an order in which each value is made before it is read."""
        del self.model.graph.node[:]
        self.model.graph.node.extend(nodes)
        self.refreshed()

    def weight_bytes(self) -> int:
        """Bytes of all constants."""
        return sum(array.nbytes for array in self.constants.values())


def label(node: NodeProto) -> str:
    """Return a node's name in reports: its own, or that of its first result."""
    return str(node.name or node.output[0])


def attribute(node: NodeProto, name: str, default: Value) -> Value:
    """Return an attribute's value, which is of the default's type; None stands for any."""
    for each in node.attribute:
        if each.name == name:
            found: Value = onnx.helper.get_attribute_value(each)
            return found
    return default


def read_inside(node: NodeProto) -> Iterator[str]:
    """Yield the names that graphs inside of a node (the branches of If, say) read or give; some are their own."""
    for each in node.attribute:
        for graph in (*([each.g] if each.HasField("g") else ()), *each.graphs):
            yield from _read_in(graph)


def _read_in(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the names that a graph inside of a node reads or gives; some of them are its own."""
    yield from (each.name for each in graph.output)
    for node in graph.node:
        yield from node.input
        yield from read_inside(node)
