"""Import of TensorFlow's nodes as operators: names, attributes, calls of functions, decided branches.

Import is by demand: only the nodes that the outputs need are visited, so that savers, summaries and training leave no
trace. `OPERATORS` (beside this) has the decoder of each operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import CenoteError, ModelError, UnsupportedError
from cenote.core.types import Array, Dimension
from cenote.frontends.builder import GraphBuilder, decoded
from cenote.frontends.channels_last import ChannelsLast, SlidingWindow
from cenote.frontends.pieces import blocks_to_batch
from cenote.frontends.tensorflow.branches import Branches, Sides, around
from cenote.frontends.tensorflow.custom import decode_of
from cenote.frontends.tensorflow.messages import Contents
from cenote.frontends.tensorflow.scope import MERGES, TensorFlowScope
from cenote.frontends.tensorflow.tensors import array_of, dtype_of, shape_of
from cenote.frontends.tensorflow_common import MOST_NODES, Site, words
from cenote.ops.user_operators import UserOperators

DEEPEST_CALL = 64


@dataclass(frozen=True)
class VariableHandle:
    """The handle of a variable: the node that makes it, and the variable's own name."""

    node: str
    name: str


@dataclass(frozen=True)
class Dead:
    """A value of a branch that is not taken."""


@dataclass(frozen=True)
class SpaceToBatchNode:
    """The result of SpaceToBatchND on `value`, and operations on it that wait for BatchToSpaceND: a convolution
    between the two is a dilated one. `pads`: the value of the paddings."""

    value: str
    block: tuple[int, ...]
    pads: str
    waiting: tuple[NodeSite, ...] = ()


@dataclass(frozen=True)
class Noise:
    """Random numbers, or a result computed from them."""


@dataclass(frozen=True)
class TensorList:
    """A list of tensors: the slices of the tensor `whole` along its first axis, or `items`, "" where none is written
    yet."""

    whole: str = ""
    items: tuple[str, ...] = ()


Value = str | VariableHandle | Dead | SpaceToBatchNode | Noise | TensorList
DEAD = Dead()
# The key of operations on Noise in the table of operations, whatever they are.
MET_NOISE = "an operation on Noise"
Decode = Callable[["NodeSite"], "Value | Sequence[Value]"]

# Operations that do not use their inputs themselves.
_HANDS_ON = words(
    "Identity IdentityN Switch RefSwitch Merge RefMerge PartitionedCall StatefulPartitionedCall If "
    "StatelessIf While StatelessWhile"
)


_WAITING = words(
    "Conv2D DepthwiseConv2dNative ExpandDims Squeeze BiasAdd Add AddV2 Mul Identity Relu Relu6 Elu Selu "
    "Tanh Sigmoid LeakyRelu FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3"
)


def _waits(site: NodeSite) -> bool:
    """Return whether an operation on what SpaceToBatchND makes may be part of a dilated convolution."""
    if site.op in ("Add", "AddV2", "Mul"):
        content = site.known(1) if isinstance(site.inputs[1], str) else None
        return content is not None and content.squeeze().ndim <= 1
    return site.op in _WAITING


@dataclass
class NodeSite(Site):
    """A node with its inputs imported: the input of a decoder."""

    name: str
    op: str
    inputs: list[Value]
    attributes: Mapping[str, Any]
    importer: TensorFlowImporter
    scope: TensorFlowScope[Value]
    # Its name in the scope.
    node: str = ""
    # For a convolution: the window in place of the attributes'.
    window: SlidingWindow | None = None
    # Undecided branches that it is in, and those of each input.
    sides: Sides = ()
    ways: Sequence[Sides] = ()

    @property
    def builder(self) -> GraphBuilder:
        return self.importer.builder

    def x(self, index: int = 0) -> str:
        """Return the value of an input. Raises ModelError when there is none."""
        if not -len(self.inputs) <= index < len(self.inputs):
            raise ModelError(f"input {index} is missing")
        value = self.inputs[index]
        if isinstance(value, SpaceToBatchNode):
            return self.importer.in_batch(value)
        if isinstance(value, Noise):
            raise UnsupportedError(
                f"input {index} is made of random numbers; save the model for inference (training=False)"
            )
        if isinstance(value, TensorList):
            raise UnsupportedError(f"input {index} is a list of tensors, which this operation does not read")
        if not isinstance(value, str):
            raise UnsupportedError(
                f"input {index} is the handle of a variable, which this operation does not read"
            )
        return value

    def decoded(self) -> tuple[Value, ...]:
        """Return the node's outputs."""
        return self.importer.decoded(self)

    def _get(self, name: str, kind: str, default: Any) -> Any:
        if name not in self.attributes:
            if default is None:
                raise ModelError(f"attribute '{name}' is missing")
            return default
        attribute = self.attributes[name]
        if attribute.WhichOneof("value") not in (kind, None):
            raise ModelError(f"attribute '{name}' is of kind {attribute.WhichOneof('value')}, not {kind}")
        return getattr(attribute, kind)

    def integer(self, name: str, default: int | None = None) -> int:
        return int(self._get(name, "i", default))

    def real(self, name: str, default: float | None = None) -> float:
        """Return a float attribute: the float32 of the file."""
        return float(np.float32(self._get(name, "f", default)))

    def flag(self, name: str, default: bool = False) -> bool:
        return bool(self._get(name, "b", default))

    def text(self, name: str, default: str | None = None) -> str:
        content = self._get(name, "s", default)
        try:
            return content.decode() if isinstance(content, bytes) else str(content)
        except UnicodeDecodeError as error:
            raise ModelError(f"attribute '{name}' is no text") from error

    def dtype(self, name: str, default: int | None = None) -> np.dtype[Any]:
        return dtype_of(self._get(name, "type", default), f"attribute '{name}'")

    def integers(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
        if name not in self.attributes and default is not None:
            return tuple(default)
        return tuple(int(number) for number in self._get(name, "list", None).i)

    def shape(self, name: str) -> tuple[Dimension, ...] | None:
        return shape_of(self._get(name, "shape", None)) if name in self.attributes else None

    def shapes(self, name: str) -> list[tuple[Dimension, ...] | None]:
        return [shape_of(shape) for shape in self._get(name, "list", None).shape]

    def dtypes(self, name: str) -> list[np.dtype[Any]]:
        return [dtype_of(number, f"attribute '{name}'") for number in self._get(name, "list", None).type]

    def tensor(self, name: str) -> Array:
        return array_of(self._get(name, "tensor", None), self.importer.contents, f"attribute '{name}'")

    def has(self, index: int) -> bool:
        return index < len(self.inputs)

    def stored(self, index: int) -> str:
        return self.x(index)

    def result_dtype(self, attribute: str, default: int | None = None) -> np.dtype[Any]:
        return self.dtype(attribute, default)

    def names(self, count: int) -> list[str]:
        """Return the node's name, then the name with ":index" behind it."""
        return [self.name if not index else f"{self.name}:{index}" for index in range(count)]

    @property
    def is_float(self) -> bool:
        return self.dtype("T").kind == "f"

    @property
    def channels_first(self) -> bool:
        """True if the node has its channels first (data_format NCHW or NCDHW)."""
        form = self.text("data_format", "NHWC")
        if form not in ("NHWC", "NCHW", "NDHWC", "NCDHW"):
            raise UnsupportedError(f"data_format {form} is not supported")
        return form.startswith("NC")

    def pictures(self) -> ChannelsLast:
        """Return a builder of operators on pictures in the node's format."""
        return ChannelsLast(self.builder, self.channels_first)

    def spatial(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
        """Return a list attribute with a number per spatial axis; those of batch and channels must be 1."""
        every = self.integers(name, default)
        return self.spatial_of(every, name)

    def spatial_of(self, every: Sequence[int], what: str) -> tuple[int, ...]:
        if len(every) not in (3, 4, 5):
            raise ModelError(f"{what} {list(every)} must have a number for each of 4 or 5 axes")
        channel = 1 if self.channels_first else len(every) - 1
        if every[0] != 1 or every[channel] != 1:
            raise UnsupportedError(f"{what} {list(every)} of batch or channels other than 1 is not supported")
        return tuple(number for axis, number in enumerate(every) if axis not in (0, channel))


class TensorFlowImporter:
    """Importer of nodes into a graph under construction; `operators` has the decoder of each operation."""

    def __init__(
        self,
        operators: Mapping[str, Decode],
        contents: Contents,
        functions: Mapping[str, Any],
        variable: Callable[[VariableHandle], Array | None] | None = None,
        sizes: Mapping[str, Sequence[object]] | None = None,
    ) -> None:
        self.operators, self.builder = operators, GraphBuilder(sizes)
        self.contents, self.functions, self.variable = contents, functions, variable
        # Names of inputs outside of the graph, by their nodes.
        self.input_names: Mapping[str, str] = {}
        # Constants of variables, by the nodes of their handles.
        self.variables: dict[str, str] = {}
        # Collects problems, if given, instead of an error.
        self.problems: list[str] | None = None
        self.user_operators = UserOperators({})
        self.branches = Branches(self.builder)
        self._count = 0

    def value(self, scope: TensorFlowScope[Value], reference: str) -> Value:
        """Return the value that a reference to an output stands for, after importing all nodes that it needs."""
        name, index = scope.place(reference)
        if name in scope.arguments:
            return scope.arguments[name]
        if (name, index) in scope.fed:
            return scope.fed[name, index]
        self._visit(scope, name)
        outputs = scope.made[name]
        if not 0 <= index < len(outputs):
            raise ModelError(f"'{reference}' names output {index} of a node that has {len(outputs)}")
        return outputs[index]

    def _visit(self, scope: TensorFlowScope[Value], wanted: str) -> None:
        """Import a node and the nodes that it needs, deepest first, without recursion: networks are thousands of
        nodes deep."""
        path: dict[str, list[str]] = {}
        stack = [wanted]
        while stack:
            name = stack[-1]
            if name in scope.made or name in scope.arguments:
                stack.pop()
                continue
            if name not in path:
                path[name] = self._sources(scope, name)
            missing = [each for each in path[name] if each not in scope.made and each not in scope.arguments]
            if missing:
                if missing[0] in path:
                    raise UnsupportedError(
                        f"node '{missing[0]}' depends on itself, and not as a loop of Enter, Merge and Exit does"
                    )
                stack.append(missing[0])
                continue
            scope.made[name] = self._imported(scope, name)
            stack.pop()

    def _sources(self, scope: TensorFlowScope[Value], name: str) -> list[str]:
        if name not in scope.nodes:
            raise ModelError(f"no node is named '{name}'")
        places = map(scope.place, scope.sources(name))
        return [source for source, index in places if (source, index) not in scope.fed]

    def _imported(self, scope: TensorFlowScope[Value], name: str) -> tuple[Value, ...]:
        node, sources = scope.nodes[name], scope.sources(name)
        self._count += 1
        if self._count > MOST_NODES:
            raise UnsupportedError(f"inlining the model's functions makes more than {MOST_NODES} nodes")
        inputs = [self.value(scope, each) for each in sources]
        if node.op not in MERGES and any(isinstance(value, Dead) for value in inputs):
            # One for every output that it may have.
            return (DEAD,) * 64
        ways = [scope.sides_of(each) for each in sources]
        sides = around(scope.around, *ways)
        site = NodeSite(scope.prefix + name, node.op, inputs, node.attr, self, scope, name, None, sides, ways)
        label, since = self.builder.label, len(self.builder.nodes)
        self.builder.label = site.name
        try:
            return self.decoded(site)
        except CenoteError as error:
            located = error.located(f"node '{site.name}' ({node.op})")
            if not isinstance(error, UnsupportedError):
                raise located from error
            if sides and node.op not in MERGES:
                return (
                    self.branches.refused(error.located(f"node '{site.name}' ({node.op})"), site.name),
                ) * 64
            if self.problems is None:
                raise located from error
            self.problems.append(str(located))
            return (DEAD,) * 64
        finally:
            self.builder.label = label
            self.branches.note(since, site.sides)
            scope.sides[name, -1] = site.sides

    def decoded(self, site: NodeSite) -> tuple[Value, ...]:
        op = site.op
        if op not in _HANDS_ON and any(isinstance(value, Noise) for value in site.inputs):
            op = MET_NOISE
        decode = self.operators.get(op)
        if op != MET_NOISE:
            decode = decode_of(site, decode)
        assert decode is not None, "operations on noise have a decoder"
        spread = site.inputs[0] if site.inputs else None
        if isinstance(spread, SpaceToBatchNode) and _waits(site):
            return (replace(spread, waiting=(*spread.waiting, site)),)
        outputs = decoded(decode, site)
        if isinstance(outputs, Value):
            return (outputs,)
        return tuple(outputs)

    def in_batch(self, spread: SpaceToBatchNode) -> str:
        """Return the pictures of a block's positions, with the operations on them that have waited for a
        BatchToSpaceND which is not there, or not around a convolution."""
        value: Value = blocks_to_batch(self.builder, spread.value, spread.block, spread.pads)
        for each in spread.waiting:
            value = replace(each, inputs=[value, *each.inputs[1:]]).decoded()[0]
        assert isinstance(value, str)
        return value

    def call(
        self, site: NodeSite, name: str, inputs: Sequence[Value], branch: Sides = ()
    ) -> tuple[Value, ...]:
        """Return the outputs of a function of the library, with its body inlined; the call may be a branch."""
        function = self.functions.get(name)
        if function is None:
            raise ModelError(f"function '{name}' is not in the model's library")
        if site.scope.depth >= DEEPEST_CALL:
            raise ModelError(
                f"function calls are nested more than {DEEPEST_CALL} deep; '{name}' may call itself"
            )
        formal = [argument.name for argument in function.signature.input_arg]
        if len(formal) != len(inputs):
            raise ModelError(f"function '{name}' takes {len(formal)} inputs, not {len(inputs)}")
        scope = TensorFlowScope[Value](
            {node.name: node for node in function.node_def},
            f"{site.name}/",
            dict(zip(formal, inputs, strict=True)),
            depth=site.scope.depth + 1,
            around=around(site.sides, branch),
            results=tuple(function.ret.values()),
        )
        return tuple(self.value(scope, function.ret[output.name]) for output in function.signature.output_arg)

    def read(self, variable: VariableHandle) -> str:
        """Return a variable's content as a constant.

        Raises ModelError where the model has no value for it.
        """
        if variable.node not in self.variables:
            content = None if self.variable is None else self.variable(variable)
            if content is None:
                raise ModelError(
                    f"the variable '{variable.name}' has no value: the file holds none (freeze the graph, or load "
                    "the SavedModel folder or the checkpoint)"
                )
            self.variables[variable.node] = self.builder.constant(content, variable.name)
        return self.variables[variable.node]
