"""Slow interpreter: it walks a graph node by node with each operator's `infer` and `reference`.

It is the oracle for whole graphs, and computes the results of folding and of host nodes. `infer_node` and `run_node`
are the only places where an operator's own methods meet a graph, so errors get the node's name here, and only errors
of Cenote come out.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from cenote.core.errors import (
    FAULTS,
    CapacityError,
    CenoteError,
    InputError,
    MissingPackageError,
    ModelError,
    ShapeError,
)
from cenote.core.limits import MOST_BYTES, check_extents
from cenote.core.types import Array, TensorType
from cenote.graph.graph import Graph, Node
from cenote.ops.base import Arrays, Op, ShapeFromData, Types, ValueNeeded
from cenote.runtime.memory import available_bytes


def infer_node(node: Node, inputs: Sequence[TensorType | None]) -> Types:
    """Return the types of a node's outputs; errors name the node.

    Raises ValueNeeded and ShapeFromData unchanged; CapacityError for a size no machine can address.
    """
    try:
        types = node.op.infer(*inputs)
    except (ValueNeeded, ShapeFromData):
        raise
    except CenoteError as error:
        raise error.located(node.where) from error
    except FAULTS as error:
        raise ModelError(f"{node.where}: cannot work on {_shown(inputs)} ({error})") from error
    if len(types) < len(node.outputs):
        raise ModelError(f"{node.where}: gives {len(types)} outputs, but {len(node.outputs)} are asked for")
    for kind in types:
        if any(extent < 0 for extent in kind.shape):  # min() would compare sizes with each other
            raise ShapeError(
                f"{node.where}: output would be {kind}, with a negative extent, from {_shown(inputs)}"
            )
        if not 0 < kind.nbytes < MOST_BYTES:
            check_extents(f"{node.where}: an output", kind.shape, kind.dtype.itemsize)
    return types


class Inference:
    """Cache of `infer_node` for many nodes: the same operator between the same types is inferred once, and equal types
    that it gives are one object. Operators and types are compared by identity, so identical nodes should share them.
    Content is never shared."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], tuple[Types, object]] = {}
        self._types: dict[Hashable, TensorType] = {}

    def one(self, type: TensorType) -> TensorType:
        """The object that stands for types like this."""
        return self._types.setdefault(type.key, type)

    def of(self, node: Node, inputs: Sequence[TensorType | None]) -> Types:
        """Return the types of a node's outputs. Raises as `infer_node`."""
        key = (id(node.op), len(node.outputs), *map(id, inputs))
        entry = self._known.get(key)
        if entry is not None:
            return entry[0]
        types = infer_node(node, inputs)
        if all(kind.value is None for kind in types):
            types = tuple([self.one(kind) for kind in types])
            self._known[key] = types, (node.op, inputs)  # kept, so that their ids stay unique
        return types


def run_node(node: Node, inputs: Sequence[Array | None], threads: int | None = None) -> Arrays:
    """Return a node's outputs by its reference, or with a number of threads by `Op.run_on_host`; errors name the
    node.

    Raises CapacityError when memory does not suffice, and ModelError when the result is not what `infer` says.
    """
    kinds = tuple(None if x is None else TensorType.known(x) for x in inputs)
    inferable = kinds
    if type(node.op).open_shapes is not Op.open_shapes:  # with the content, `infer` would run the reference
        inferable = tuple(None if x is None else TensorType(x.dtype, x.shape) for x in kinds)
    try:
        types: Types | None = infer_node(node, inferable)
    except ShapeFromData:
        types = None
    needed = sum(kind.nbytes for kind in types or ())
    if needed > available_bytes():
        raise CapacityError(f"{node.where}: its outputs take {needed / 1e6:.0f} MB, more than is available")
    try:
        with np.errstate(all="ignore"):
            outputs = node.op.reference(*inputs) if threads is None else _on_host(node.op, threads, inputs)
    except CenoteError as error:
        raise error.located(node.where) from error
    except MemoryError as error:
        raise CapacityError(f"{node.where}: not enough memory for {_shown(kinds)}") from error
    except FAULTS as error:
        raise ModelError(f"{node.where}: cannot work on {_shown(kinds)} ({error})") from error
    outputs = tuple(np.asarray(y) for y in outputs)
    if types is not None:
        _compare(node, outputs, types)
    return outputs


def _on_host(op: Op, threads: int, inputs: Sequence[Array | None]) -> Arrays:
    """Run an operator where a model is cut. Kernels that its plan file does not hold, in an installation that compiles
    none, are the reference's work, which has the same bits."""
    try:
        return op.run_on_host(threads, *inputs)
    except MissingPackageError:
        if type(op).run_on_host is Op.run_on_host:
            raise
        return op.reference(*inputs)


def evaluate(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Run any graph, specialised or not, by references alone.

    `inputs` holds an array for each input of the graph. Returns an array for each output, by name.
    """
    arrays = {name: _native(np.asarray(array)) for name, array in inputs.items()}
    check_input_types(graph, {name: TensorType(x.dtype, x.shape) for name, x in arrays.items()})
    values = {**graph.constants, **arrays}
    last = {name: index for index, node in enumerate(graph.nodes) for name in node.inputs if name}
    kept = set(graph.outputs)
    for index, node in enumerate(graph.nodes):
        results = run_node(node, [values[name] if name else None for name in node.inputs])
        values.update({name: y for name, y in zip(node.outputs, results, strict=False) if name})
        for name in set(node.inputs):
            if name and last[name] == index and name not in kept:
                del values[name]
    return {name: values[name] for name in graph.outputs}


def check_input_types(graph: Graph, types: Mapping[str, TensorType]) -> None:
    """Raise InputError unless there is a type for each input that fits its declaration, and no other."""
    names = ", ".join(str(declared) for declared in graph.inputs) or "none"
    declared_names = {declared.name for declared in graph.inputs}
    for name in types:
        if name not in declared_names:
            raise InputError(f"'{name}' is no input of the model (its inputs: {names})")
    for declared in graph.inputs:
        kind = types.get(declared.name)
        if kind is None:
            raise InputError(f"input '{declared.name}' is missing (the model's inputs: {names})")
        if kind.dtype != declared.dtype:
            raise InputError(f"input '{declared.name}' is {kind.dtype}, the model takes {declared.dtype}")
        if declared.shape is None:
            continue
        if kind.rank != len(declared.shape):
            raise InputError(
                f"input is {kind}, the model takes {declared}: the rank must be {len(declared.shape)}"
            )
        for axis, (extent, expected) in enumerate(zip(kind.shape, declared.shape, strict=True)):
            if isinstance(expected, int) and extent != expected:
                raise InputError(
                    f"input is {kind}, the model takes {declared}: axis {axis} must be {expected}"
                )


def _native(array: Array) -> Array:
    """Return the array C-contiguous, in the machine's byte order; strings as Python objects."""
    dtype = np.dtype(object) if array.dtype.kind in "UST" else array.dtype.newbyteorder("=")
    return np.ascontiguousarray(array, dtype).reshape(array.shape)


def _compare(node: Node, outputs: Arrays, types: Types) -> None:
    """Check that a reference and its `infer` agree; where they do not, the operator has a bug."""
    for name, y, kind in zip(node.outputs, outputs, types, strict=False):
        if name and (y.shape != kind.shape or y.dtype != kind.dtype):
            raise ModelError(
                f"{node.where}: internal error: '{name}' was to be {kind}, but is {TensorType.known(y)}"
            )


def _shown(kinds: Sequence[TensorType | None]) -> str:
    return ", ".join("nothing" if kind is None else str(kind) for kind in kinds) or "no inputs"
