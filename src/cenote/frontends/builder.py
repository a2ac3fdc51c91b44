"""Construction of graphs by front ends: nodes by ONNX's names of operators, constants, unique names of values.

The vocabulary is ONNX's whatever the file's format, so that an operator's attributes are read and checked in one
place (`Op.from_onnx`). Small results of constants are computed at once: axes, shapes and paddings that a file
computes from constants are then available as numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from cenote.core.computed import SizedArray, has_sizes
from cenote.core.errors import FAULTS, CenoteError, ModelError, UnsupportedError
from cenote.core.trace import Trace
from cenote.core.types import Array, Declared, Dimension, TensorType
from cenote.graph.graph import Graph, Node
from cenote.graph.sized_values import run_sized
from cenote.ops.base import Decoder, Imported, Op, Rewired
from cenote.ops.elementwise.cast import Cast, converted
from cenote.ops.movement.reshape import Identity
from cenote.ops.table import DECODERS

S = TypeVar("S")
T = TypeVar("T")

# Version of ONNX whose names and attributes are used.
OPSET = 21
# The domain of operators that ONNX does not have.
PRIVATE = "cenote"
# Most elements of a result that is computed at once.
_FOLDED = 1 << 16


def decoded(decode: Callable[[S], T], site: S) -> T:
    """Apply a decoder to an operation. Raises ModelError where the inputs or attributes have other forms or counts
    than the operation's, which decoders assume."""
    try:
        return decode(site)
    except CenoteError:
        raise
    except (TypeError, ValueError, LookupError, ArithmeticError) as error:
        raise ModelError(f"its inputs or attributes do not fit ({error})") from error


def operator_of(
    imported: Imported, decoder: Decoder | None = None
) -> tuple[Op, tuple[int | Array | Op | None, ...] | None]:
    """Return the operator of a node, and the wiring of its inputs where it is not the node's; by a decoder of the
    user's, if there is one. Raises ModelError for attributes that do not fit."""
    key = f"{imported.domain}.{imported.op}" if imported.domain else imported.op
    try:
        made = (decoder or DECODERS[key])(imported)
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
        if isinstance(error, CenoteError):
            raise
        raise ModelError(f"{key}: an attribute's value does not fit ({error})") from error
    return (made.op, made.inputs) if isinstance(made, Rewired) else (made, None)


def trimmed(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names without absent ones at the end."""
    count = len(names)
    while count and not names[count - 1]:
        count -= 1
    return tuple(names[:count])


class GraphBuilder:
    """A graph under construction. Values are named by strings; "" is an absent one.

    `sizes`: for inputs by name, an entry per axis, of which whole numbers fix a size that is open in the file. What
    follows from such sizes, whatever the others, is computed now, so that a loop may have a known number of rounds.
    """

    def __init__(self, sizes: Mapping[str, Sequence[object]] | None = None) -> None:
        self.sizes = sizes or {}
        self._trace = Trace()  # of the sizes that stay open
        self._types: dict[str, TensorType] = {}  # of values whose inputs have entries in `sizes`
        self.inputs: list[Declared] = []
        self.constants: dict[str, Array] = {}
        self.nodes: list[Node] = []
        # The name, in the file, of the operation for which nodes are made now.
        self.label = ""
        self._taken: set[str] = set()
        self._copies: dict[str, int] = {}

    def name(self, wanted: str) -> str:
        """Return a name that no value has: `wanted`, or `wanted` with a number behind it."""
        name = wanted or "value"
        while name in self._taken:
            self._copies[wanted] = self._copies.get(wanted, 0) + 1
            name = f"{wanted}.{self._copies[wanted]}"
        self._taken.add(name)
        return name

    def input(self, name: str, dtype: np.dtype[Any], shape: Sequence[Dimension] | None) -> str:
        """Add an input of the graph; return its name."""
        name = self.name(name)
        fixed = tuple(self.sizes.get(name, ()))
        if fixed and (shape is None or len(shape) == len(fixed)):
            shape = [
                size if isinstance(size, int) and not isinstance(open_size, int) else open_size
                for size, open_size in zip(fixed, shape or (None,) * len(fixed), strict=True)
            ]
            extents = (size if isinstance(size, int) else self._trace.dimension(2, least=0) for size in shape)
            self._types[name] = TensorType(dtype, tuple(extents))
        self.inputs.append(Declared(name, dtype, None if shape is None else tuple(shape)))
        return name

    def constant(self, value: Any, name: str = "") -> str:
        """Add a constant; return its name."""
        made = self.name(name or f"{self.label or 'graph'}/constant")
        # Maybe a view: only constants that the graph keeps are copied to contiguous memory.
        self.constants[made] = np.asarray(value)
        return made

    def integers(self, value: int | Sequence[int] | Array) -> str:
        """Add a constant of one or more int64."""
        return self.constant(np.array(value, np.int64))

    def known(self, value: str) -> Array | None:
        """Return the content of a constant; None for any other value."""
        return self.constants.get(value)

    def need(self, value: str, what: str) -> Array:
        """Return the content of a value that must be constant.

        Raises UnsupportedError where it is not: a value that depends on the data cannot be an attribute.
        """
        content = self.known(value)
        if content is None:
            raise UnsupportedError(f"{what} is computed when the model runs; it must be a constant")
        return content

    def numbers(self, value: str, what: str) -> tuple[int, ...]:
        """Return the content of a constant of integers."""
        content = self.need(value, what)
        if content.dtype.kind not in "iu":
            raise ModelError(f"{what} holds {content.dtype.name}, not integers")
        return tuple(int(number) for number in content.reshape(-1))

    def number(self, value: str, what: str) -> int:
        """Return the content of a constant of one integer."""
        numbers = self.numbers(value, what)
        if len(numbers) != 1:
            raise ModelError(f"{what} holds {len(numbers)} numbers, not one")
        return numbers[0]

    def add(self, op: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Add a node with one output; return the value. `op` and the attributes are ONNX's."""
        return self.add_many(op, inputs, (name,), **attributes)[0]

    def cast(self, value: str, dtype: np.dtype[Any], name: str = "") -> str:
        """Return the value in another element type; a constant is converted at once, whatever its size."""
        content = self.known(value)
        if content is not None:
            return self.constant(converted(content, dtype), name or f"{value}/{dtype.name}")
        return self.add_op(Cast(dtype), (value,), (name,))[0]

    def add_many(
        self, op: str, inputs: Sequence[str], names: Sequence[str], domain: str = "", **attributes: Any
    ) -> tuple[str, ...]:
        """Add a node with an output for each name; return the values."""
        return self.add_decoded(op, inputs, names, domain, attributes)

    def add_decoded(
        self,
        op: str,
        inputs: Sequence[str],
        names: Sequence[str],
        domain: str,
        attributes: Mapping[str, Any],
        decoder: Decoder | None = None,
    ) -> tuple[str, ...]:
        """Add a node as `add_many` does, by a decoder of the user's, if there is one."""
        imported = Imported(
            op=op,
            domain=domain,
            opset=OPSET if not domain else 1,
            attributes=attributes,
            present=tuple(bool(value) for value in inputs),
            outputs=len(names),
            constants={i: self.constants[value] for i, value in enumerate(inputs) if value in self.constants},
        )
        made, wiring = operator_of(imported, decoder)
        if wiring is not None:
            inputs = [self._wired(item, inputs) for item in wiring]
        return self.add_op(made, inputs, names)

    def _wired(self, item: int | Array | Op | None, inputs: Sequence[str]) -> str:
        if item is None:
            return ""
        if isinstance(item, int):
            return inputs[item] if item < len(inputs) else ""
        return self.add_op(item, (), ("",))[0] if isinstance(item, Op) else self.constant(item)

    def add_op(self, op: Op, inputs: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
        """Add a node of an operator; results of small constants are computed now."""
        operands = trimmed(inputs)
        made = tuple(self.name(name or f"{self.label or op.name}/{op.name}") for name in names)
        folded = self._fold(op, operands)
        if folded is None and self._types:
            folded = self._inferred(op, operands, made)
        if folded is not None:
            self.constants.update(zip(made, folded, strict=False))
        else:
            self.nodes.append(Node(op, operands, made, self.label))
        return made

    def _fold(self, op: Op, inputs: Sequence[str]) -> Sequence[Array] | None:
        if not op.pure or not all(not value or value in self.constants for value in inputs):
            return None
        arrays = [self.constants[value] if value else None for value in inputs]
        known = [None if x is None else TensorType.known(x) for x in arrays]
        if op.folds_late(known):  # weights stay as they are stored until a pass has seen what reads them
            return None
        types = op.infer(*known)
        if sum(math.prod(kind.shape) for kind in types) > _FOLDED:
            return None
        return op.reference(*arrays)

    def _inferred(self, op: Op, inputs: Sequence[str], made: Sequence[str]) -> Sequence[Array] | None:
        """Note the types of results that hold whatever the open sizes are; return the results where they say them."""
        known: list[TensorType | None] = []
        for value in inputs:
            content = self.constants.get(value)
            kind = self._types.get(value) if content is None else TensorType.known(content)
            if value and kind is None:
                return None
            known.append(kind)
        try:
            with self._trace.apart() as guards:
                types = self._valued(op, known)
        except (CenoteError, *FAULTS):
            return None  # the load says so
        if guards:  # true of some of the open sizes only
            return None
        self._types.update(zip(made, types, strict=False))
        values = [kind.value for kind in types if kind.value is not None and not has_sizes(kind.value)]
        return values if len(values) == len(types) else None

    def _valued(self, op: Op, known: Sequence[TensorType | None]) -> Sequence[TensorType]:
        """Return the types of results, with their content where the contents of all inputs are small and known."""
        types = op.infer(*known)
        contents = [None if kind is None else kind.value for kind in known]
        if not op.pure or not any(isinstance(content, SizedArray) for content in contents):
            return types
        if any(kind is not None and kind.value is None for kind in known):
            return types
        names = tuple("" if kind is None else f"x{index}" for index, kind in enumerate(known))
        node = Node(op, names, tuple(f"y{index}" for index in range(len(types))))
        return [TensorType.known(array) for array in run_sized(node, contents)]

    def graph(self, outputs: Mapping[str, str], name: str) -> Graph:
        """Return the finished graph; `outputs` has the value of each output, by the output's name."""
        names = []
        for wanted, value in outputs.items():
            if value == wanted:
                names.append(value)
                continue
            names.append(self.name(wanted))
            self.nodes.append(Node(Identity(), (value,), (names[-1],)))
        used = {value for node in self.nodes for value in node.inputs} | set(names)
        self.constants = {value: content for value, content in self.constants.items() if value in used}
        # One by one, so that each original is freed when its copy is made.
        for value in self.constants:
            if not self.constants[value].flags.c_contiguous:
                self.constants[value] = np.ascontiguousarray(self.constants[value])
        return Graph(
            tuple(self.inputs), tuple(names), tuple(self.nodes), self.constants, name=name or "graph"
        )


def transposed(builder: GraphBuilder, value: str, order: Sequence[int], name: str = "") -> str:
    """Return the value with its axes in another order; a constant is transposed at once, whatever its size."""
    if tuple(order) == tuple(range(len(order))):
        return value
    content = builder.known(value)
    if content is not None:
        return builder.constant(content.transpose(order), name or f"{value}/transposed")
    return builder.add("Transpose", value, perm=tuple(order), name=name)


def reshaped(builder: GraphBuilder, value: str, shape: Sequence[int], name: str = "") -> str:
    """Return the value in another shape, in which one extent may be -1; a constant is reshaped at once, whatever its
    size."""
    content = builder.known(value)
    if content is not None:
        return builder.constant(content.reshape(shape), name or f"{value}/reshaped")
    return builder.add("Reshape", value, builder.integers(shape), name=name, allowzero=1)
