"""Movement between dequantisation and quantisation on bytes: elements that are only moved are quantised before.

    %a = dequantize_linear %q, …           %a = dequantize_linear %q, …
    %b = transpose %a                ->    %c = quantize_linear %a, …
    %y = quantize_linear %b, …             %y = transpose %c

`tabulate_bytes` then finds that nothing is left of a quantisation of what was dequantised at the same scale, or a
table. Convolutions and products before movement are quantised themselves, so that they may run on bytes.
Maxima are moved numbers too, as long as none is NaN: quantisation keeps their order.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cenote.core.target import PAIRS, Target
from cenote.core.types import TensorType
from cenote.graph.graph import Graph, Node
from cenote.graph.interpreter import run_node
from cenote.ops.base import Op
from cenote.ops.conv.conv import Conv
from cenote.ops.conv.conv_transpose import ConvTranspose
from cenote.ops.elementwise.activation import Clip, Relu
from cenote.ops.linear.gemm import Gemm
from cenote.ops.linear.matmul import MatMul
from cenote.ops.movement.depth_space import DepthToSpace, SpaceToDepth
from cenote.ops.movement.indexing import Gather
from cenote.ops.movement.pad import Pad
from cenote.ops.movement.parts import Concat, Slice, Split
from cenote.ops.movement.reshape import AxesFrom, Expand, Flatten, Identity, Reshape, Squeeze, Unsqueeze
from cenote.ops.movement.resize import Resize
from cenote.ops.movement.transpose import Transpose
from cenote.ops.pool.whole_map import GlobalMaxPool
from cenote.ops.pool.window import MaxPool
from cenote.ops.quantization.quantize import DequantizeLinear, QuantizeLinear
from cenote.passes.cleanup import fresh
from cenote.passes.fuse import Rewriter
from cenote.passes.quantization.scales import scale_and_zero_point

_REARRANGING = (
    AxesFrom,
    Concat,
    DepthToSpace,
    Expand,
    Flatten,
    Identity,
    Pad,
    Reshape,
    Resize,
    SpaceToDepth,
    Squeeze,
    Transpose,
    Unsqueeze,
)
# Fewer elements come out of these: what is not bytes before them is better quantised behind them.
_CHOOSING = (Gather, GlobalMaxPool, MaxPool, Slice, Split)
_MOST = 64  # movements in a row that are looked at
_LARGEST = 1e9  # scale, of sums that cannot overflow


def move_bytes(graph: Graph, target: Target) -> Graph:
    """Quantise before movement, where the quantised result is what is read, or bytes are moved."""
    if not any(isinstance(node.op, QuantizeLinear) for node in graph.nodes):
        return graph
    mover = _Mover(graph, target)
    for node in graph.nodes:
        mover.count(node)
        if isinstance(node.op, QuantizeLinear) and mover.has_one_scale(node):
            node = mover.moved(node)
        mover.nodes.append(node)
    return mover.result()


class _Mover:
    """A graph with quantisations moved up, node after node."""

    def __init__(self, graph: Graph, target: Target) -> None:
        self.graph, self.target, self.rewriter = graph, target, Rewriter(graph)
        self.nodes: list[Node] = []
        self.types = dict(graph.types)
        self.taken = set(graph.values())
        self.made: dict[tuple[object, ...], str] = {}  # quantised values by float value, scale and zero point
        self.lengths: dict[str, int] = {}  # of the movement in a row that makes a value
        # Dequantised by an ordinary scale, and moved: maxima are those of the bytes, and none is NaN.
        self.ordered: set[str] = set()
        self.sums: set[str] = set()  # of products of dequantised numbers, perhaps bounded, that are read once
        self.movable: dict[tuple[object, ...], bool] = {}
        self.changed = False

    def count(self, node: Node) -> None:
        """Note how many movements in a row make a node's results, and whether these are ordered as bytes are."""
        if _moves(node.op):
            data = self._data(node)
            length = 1 + max(self.lengths.get(name, 0) for name in data)
            self.lengths.update(dict.fromkeys(node.outputs, length))
            if not isinstance(node.op, Pad) and all(name in self.ordered for name in data):
                self.ordered.update(node.outputs)
        elif isinstance(node.op, DequantizeLinear) and self.has_one_scale(node):
            self.ordered.update(node.outputs)
        elif self._is_sum(node):
            self.sums.update(node.outputs)
            self.ordered.update(node.outputs)

    def _is_sum(self, node: Node) -> bool:
        """Whether a node adds products of dequantised numbers, or bounds such sums, for one reader. None is NaN: scales
        beyond `_LARGEST` are no ordinary ones here."""
        if self.rewriter.uses[node.outputs[0]] != 1:
            return False
        if isinstance(node.op, Relu | Clip):
            bounds = [self.rewriter.constants.get(name) for name in node.inputs[1:] if name]
            known = all(bound is not None and not np.isnan(bound).any() for bound in bounds)
            return node.inputs[0] in self.sums and known
        if not isinstance(node.op, Conv | ConvTranspose | Gemm | MatMul):
            return False
        makers = [self._maker(name) for name in node.inputs[:2]]
        scales = [
            self.rewriter.constants.get(maker.inputs[1])
            for maker in makers
            if maker is not None and isinstance(maker.op, DequantizeLinear)
        ]
        bias = [
            self.rewriter.constants.get(name) for name in node.inputs[2:] if name and not self._maker(name)
        ]
        numbers = [each for each in (*scales, *bias) if each is not None]
        is_bounded = all(np.abs(each).max(initial=0) < _LARGEST for each in numbers)
        return len(scales) == 2 and len(numbers) == len(scales) + len(bias) and is_bounded

    def result(self) -> Graph:
        if not self.changed:
            return self.graph
        constants = self.rewriter.constants
        types = self.types | {name: TensorType.known(value) for name, value in constants.items()}
        return self.graph.replace(nodes=tuple(self.nodes), constants=constants, types=types)

    def has_one_scale(self, node: Node) -> bool:
        """Whether a quantisation to bytes is by one ordinary scale."""
        return scale_and_zero_point(self.rewriter, node)[0] is not None

    def moved(self, last: Node) -> Node:
        """Return what takes the place of a quantisation: an identity behind movement of bytes, or itself."""
        if not self._can_move(last.inputs[0], last):
            return last
        self.changed = True
        return Node(Identity(), (self._quantized(last.inputs[0], last),), last.outputs, last.label)

    def _can_move(self, name: str, last: Node) -> bool:
        """Whether movement makes a value, of which bytes are as good: it is read once, or moves bytes."""
        key = (name, self.types[last.outputs[0]].dtype)
        if key not in self.movable:
            self.movable[key] = 0 < self.lengths.get(name, 0) <= _MOST and self._is_movable(name, last)
        return self.movable[key]

    def _is_movable(self, name: str, last: Node) -> bool:
        node = self._maker(name)
        assert node is not None
        data = self._data(node)
        if isinstance(node.op, MaxPool | GlobalMaxPool) and not (
            len(node.outputs) == 1 and node.inputs[0] in self.ordered
        ):
            return False
        if isinstance(node.op, Pad) and any(
            name and name not in self.rewriter.constants for name in node.inputs[2:3]
        ):
            return False  # the number that fills is computed
        only_bytes = all(self._is_bytes(each, last) for each in data)
        alone = isinstance(node.op, _REARRANGING) and self.rewriter.uses[name] == 1
        return (only_bytes or alone) and self._has_kernel(node, last)

    def _maker(self, name: str) -> Node | None:
        place = self.rewriter.position.get(name)
        return None if place is None else self.rewriter.nodes[place]

    def _data(self, node: Node) -> tuple[str, ...]:
        """The values that a node moves."""
        return node.inputs if isinstance(node.op, Concat) else node.inputs[:1]

    def _is_bytes(self, name: str, last: Node) -> bool:
        """Whether a value is dequantised, made of bytes, or moves bytes itself."""
        node = self._maker(name)
        if node is None:
            return name in self.rewriter.constants
        # With an instruction for them, sums of bytes are always quicker: more of them than are chosen may be quantised.
        is_sum = name in self.sums and self.target.dots != PAIRS
        return is_sum or isinstance(node.op, DequantizeLinear) or self._can_move(name, last)

    def _has_kernel(self, node: Node, last: Node) -> bool:
        """Whether bytes are moved natively."""
        dtype = self.types[last.outputs[0]].dtype
        types = [self._type(name) for name in node.inputs]
        data = len(self._data(node))
        if isinstance(node.op, Pad):
            types[2:3] = [None]  # the number that fills will be of bytes, too
        bytes_ = [
            TensorType(dtype, kind.shape) if kind is not None and place < data else kind
            for place, kind in enumerate(types)
        ]
        options = (*node.op.lowerings(bytes_, self.target), *node.op.aliases(bytes_, self.target))
        return bool(options)

    def _type(self, name: str) -> TensorType | None:
        if name in self.rewriter.constants:
            return TensorType.known(self.rewriter.constants[name])
        return self.types[name] if name else None

    def _quantized(self, name: str, last: Node) -> str:
        """Return the value that a float value is quantised to, made by nodes that are added."""
        key = (name, last.op, *last.inputs[1:])
        if key not in self.made:
            self._make(key, name, last)
        return self.made[key]

    def _make(self, key: tuple[object, ...], name: str, last: Node) -> None:
        scale = last.inputs[1:]
        if name in self.rewriter.constants:
            self.made[key] = self._number(f"{name}.quantized", name, last)
            return
        node = self._maker(name)
        if node is None or not self._can_move(name, last):
            self.made[key] = self._add(Node(last.op, (name, *scale), (self._fresh(name, last),), last.label))
            return
        data = self._data(node)
        inputs = [*(self._quantized(each, last) for each in data), *node.inputs[len(data) :]]
        op = node.op
        if isinstance(op, Pad) and op.mode == "constant":
            inputs, op = self._padded(op, inputs, last)
        outputs = tuple(self._fresh(each, last) if each else "" for each in node.outputs)
        self._add(Node(op, tuple(inputs), outputs, node.label))
        for each, made in zip(node.outputs, outputs, strict=True):
            if each:
                self.made[each, *key[1:]] = made

    def _padded(self, op: Pad, inputs: list[str], last: Node) -> tuple[list[str], Pad]:
        """Return the inputs and the operator of a padding by the quantised number."""
        filled = [*inputs, "", ""][: max(3, len(inputs))]
        content = self.rewriter.constants.get(filled[2])
        value = op.constant((None, None, content), np.dtype(np.float32))
        number = self.rewriter.constant(f"{last.outputs[0]}.pad", value)
        filled[2] = self._number(f"{number}.quantized", number, last)
        return filled, replace(op, value=None)

    def _number(self, stem: str, name: str, last: Node) -> str:
        """Return a constant quantised."""
        (value,) = run_node(
            replace(last, inputs=(name, *last.inputs[1:])),
            [self.rewriter.constants.get(each) for each in (name, *last.inputs[1:])],
        )
        return self.rewriter.constant(stem, value)

    def _fresh(self, name: str, last: Node) -> str:
        """Return a name for a value quantised, whose type is known."""
        made = fresh(f"{name}.quantized", self.taken)
        self.types[made] = TensorType(self.types[last.outputs[0]].dtype, self.types[name].shape)
        return made

    def _add(self, node: Node) -> str:
        self.nodes.append(node)
        return node.outputs[0]


def _moves(op: Op) -> bool:
    """Whether an operator moves elements and does nothing else, whatever they are."""
    if isinstance(op, Resize):
        return op.mode == "nearest" and op.coordinates != "tf_crop_and_resize"
    if isinstance(op, Gather):
        return op.invalid != "zero"
    return isinstance(op, (*_REARRANGING, *_CHOOSING))
