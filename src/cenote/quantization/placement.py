"""Which layers of a network are quantised, and which of its values therefore pass through 8 bits.

A layer with weights (convolution, product) reads bytes. It gives bytes where a layer with weights or an average comes
behind it: results on their way to the model's outputs stay in float32. A Relu or Clip behind a layer belongs to it.
From there bytes spread:

    additions, products of two values     where all inputs are bytes
    averages                              where the input is bytes
    concatenations                        where one input, or the result, is bytes
    pools of maxima, resizes, movement    where the input, or the result, is bytes

Values around the last two kinds share scale and zero point, so that bytes are only moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from onnx import NodeProto

from cenote.core.deferred import dataclass
from cenote.core.types import Array
from cenote.quantization.network import Network, attribute, label
from cenote.quantization.prepare import filters_axis

WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_SUMS = ("Add", "Mul")
_AVERAGES = ("AveragePool", "GlobalAveragePool", "ReduceMean")
_MOVEMENT = (
    "MaxPool",
    "Reshape",
    "Transpose",
    "Flatten",
    "Squeeze",
    "Unsqueeze",
    "Slice",
    "Split",
    "Gather",
    "Pad",
    "Resize",
    "Expand",
    "Tile",
    "DepthToSpace",
    "SpaceToDepth",
    "Identity",
    "Dropout",
)
_ACTIVATIONS = ("Relu", "Clip")
Excluded = Callable[[NodeProto], bool]


@dataclass(frozen=True)
class ByteLayer:
    """A node that computes on bytes; `result`: its value, behind its activation; `weighted`: it has weights."""

    node: NodeProto
    result: str

    @property
    def weighted(self) -> bool:
        """Whether it has weights."""
        return self.node.op_type in WEIGHTED

    @property
    def name(self) -> str:
        """The name in reports."""
        return label(self.node)


@dataclass(frozen=True)
class BytePlacement:
    """Layers in order, and for each value that passes through 8 bits the one whose scale it has."""

    layers: tuple[ByteLayer, ...]
    groups: dict[str, str]

    def members(self) -> dict[str, list[str]]:
        """Return the values by the one whose scale they share."""
        found: dict[str, list[str]] = {}
        for value, leader in self.groups.items():
            found.setdefault(leader, []).append(value)
        return found


def place(network: Network, excluded: Excluded, kept: Iterable[str] = ()) -> BytePlacement:
    """Return what is quantised. `excluded`: nodes that stay in float; `kept`: values that must."""
    return _Placing(network, excluded, set(kept)).placed()


class _Placing:
    def __init__(self, network: Network, excluded: Excluded, kept: set[str]) -> None:
        self.network = network
        self.nodes = [node for node in network.nodes if node.domain in ("", "ai.onnx") and not excluded(node)]
        self.kept = kept | set(network.constants)
        self.read_later = _read_later(network)
        self.bytes: set[str] = set()
        self.weighted = [
            node for node in self.nodes if is_weighted(network, node) and node.input[0] not in self.kept
        ]

    def placed(self) -> BytePlacement:
        for node in self.weighted:
            self.bytes.add(node.input[0])
            self._mark(result_of(self.network, node))
        others = [node for node in self.nodes if node.op_type not in WEIGHTED]
        before = -1
        while before != len(self.bytes):
            before = len(self.bytes)
            for node in others:
                self._spread(node)
        return BytePlacement(tuple(self._layers()), self._groups(others))

    def _may(self, value: str) -> bool:
        """Whether a layer's result may be bytes: the model's outputs stay floats, for their callers."""
        return bool(value) and value in self.read_later and value not in self.kept | self.network.outputs

    def _mark(self, *values: str) -> None:
        self.bytes.update(value for value in values if self._may(value))

    def _spread(self, node: NodeProto) -> None:
        if node.op_type in _SUMS and all(value in self.bytes for value in node.input):
            self._mark(result_of(self.network, node))
        elif node.op_type in _AVERAGES and node.input[0] in self.bytes:
            self._mark(node.output[0])
        else:
            ends = shared_ends(self.network, node)
            whole = node.op_type != "Concat" or all(self._may(value) for value in ends)
            if whole and not self.bytes.isdisjoint(ends):
                self._mark(*ends)

    def _layers(self) -> Iterable[ByteLayer]:
        weighted = {label(node) for node in self.weighted}
        for node in self.nodes:
            result = result_of(self.network, node)
            read = node.input if node.op_type in _SUMS else node.input[:1]
            others = node.op_type in (*_SUMS, *_AVERAGES) and self.bytes.issuperset((*read, result))
            if label(node) in weighted or others:
                yield ByteLayer(node, result)

    def _groups(self, others: Iterable[NodeProto]) -> dict[str, str]:
        leaders = {value: value for value in self.network.makers if value in self.bytes}
        leaders |= {value: value for value in self.network.inputs if value in self.bytes}

        def leader(value: str) -> str:
            while leaders[value] != value:
                value = leaders[value]
            return value

        for node in others:
            ends = [value for value in shared_ends(self.network, node) if value in self.bytes]
            for value in ends[1:]:
                leaders[leader(value)] = leader(ends[0])
        return {value: leader(value) for value in leaders}


def is_weighted(network: Network, node: NodeProto) -> bool:
    """Whether a node is a convolution or product of float32 whose weights, and bias, are finite constants."""
    weights, bias = network.constant(node, 1), network.constant(node, 2)
    if node.op_type not in WEIGHTED or weights is None or not _fit(weights):
        return False
    if len(node.input) > 2 and node.input[2] and (bias is None or not _fit(bias)):
        return False
    if node.op_type == "MatMul":
        return weights.ndim == 2
    if node.op_type == "Gemm":
        columns = weights.shape[filters_axis(node)]
        plain = not any(attribute(node, name, 0) for name in ("alpha", "beta", "transA"))
        return plain and (bias is None or bias.shape == (columns,))
    return weights.ndim > 2


def _fit(array: Array) -> bool:
    return array.dtype == np.float32 and bool(array.size) and bool(np.isfinite(array).all())


def result_of(network: Network, node: NodeProto) -> str:
    """Return the value that a layer gives, behind the Relu or Clip that alone reads its result."""
    result = str(node.output[0])
    reader = network.only_reader(result)
    if node.op_type not in (*WEIGHTED, *_SUMS) or reader is None or reader.op_type not in _ACTIVATIONS:
        return result
    bounds = [name for name in reader.input[1:] if name]
    return (
        str(reader.output[0])
        if reader.input[0] == result and all(b in network.constants for b in bounds)
        else result
    )


def shared_ends(network: Network, node: NodeProto) -> list[str]:
    """Return the values around a node that only moves or selects numbers; [] for other nodes."""
    if node.op_type == "Concat":
        return [*node.input, *node.output]
    if node.op_type not in _MOVEMENT or not node.input[0] or node.input[0] in network.constants:
        return []
    if node.op_type == "Resize" and attribute(node, "mode", b"nearest") == b"cubic":
        return []  # exceeds the range of its input
    if node.op_type == "Pad" and attribute(node, "mode", b"constant") == b"constant":
        value = network.constant(node, 2)
        if len(node.input) > 2 and node.input[2] and (value is None or np.any(value != 0)):
            return []
    if node.op_type in ("MaxPool", "Dropout") and any(node.output[1:]):
        return []
    return [node.input[0], *(name for name in node.output if name)]


def _read_later(network: Network) -> set[str]:
    """Return the values that a layer with weights, or an average, reads, directly or through others."""
    found: set[str] = set()
    for node in reversed(network.nodes):
        if node.op_type in (*WEIGHTED, *_AVERAGES) or any(name in found for name in node.output):
            found.update(node.input)
    return found
