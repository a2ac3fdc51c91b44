"""Samples of operators whose inputs have open sizes: the batch and the extents behind the channels of the first one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cenote.core.errors import CenoteError
from cenote.core.types import Declared, TensorType
from cenote.graph.graph import Graph, Node
from cenote.ops.base import Sample
from cenote.passes.specialize import specialize

Sizes = Mapping[int, Any]  # of axes: numbers, or Sizes


def symbolic_axes(sample: Sample) -> list[int]:
    """The batch, and the extents behind the channels, of the first input; of less than 2 it is another question."""
    x = sample.inputs[0] if sample.inputs else None
    if x is None or not x.size:
        return []
    axes = [axis for axis in range(x.ndim) if axis != 1 or x.ndim == 2]
    return [axis for axis in axes if x.shape[axis] > 1]


def alike(sample: Sample) -> list[int]:
    """The inputs with the first one's shape and type."""
    first = sample.inputs[0]
    assert first is not None
    return [
        index
        for index, x in enumerate(sample.inputs)
        if x is not None and (x.shape, x.dtype.kind) == (first.shape, first.dtype.kind)
    ]


def graph_of(sample: Sample, given: Sequence[int]) -> Graph:
    """One node; inputs that are not given are constants."""
    names = tuple("" if x is None else f"x{index}" for index, x in enumerate(sample.inputs))
    kinds = [None if x is None else TensorType.known(x) for x in sample.inputs]
    outputs = tuple(f"y{index}" for index in range(len(sample.op.infer(*kinds))))
    constants = {
        f"x{index}": x for index, x in enumerate(sample.inputs) if x is not None and index not in given
    }
    inputs = tuple(
        Declared(f"x{index}", kind.dtype, (None,) * kind.rank)
        for index, kind in enumerate(kinds)
        if kind is not None and index in given
    )
    return Graph(inputs, outputs, (Node(sample.op, names, outputs),), constants)


def types_of(sample: Sample, given: Sequence[int], sizes: Sizes) -> dict[str, TensorType]:
    """The inputs' types with these sizes at their axes."""
    types = {}
    for index in given:
        x = sample.inputs[index]
        assert x is not None
        shape = tuple(sizes.get(axis, extent) for axis, extent in enumerate(x.shape))
        types[f"x{index}"] = TensorType(x.dtype, shape)
    return types


def is_accepted(sample: Sample, given: Sequence[int], sizes: Sizes) -> bool:
    """Does the operator take these sizes, with the constants at hand?"""
    try:
        return specialize(graph_of(sample, given), types_of(sample, given, sizes)).rest is None
    except CenoteError:
        return False
