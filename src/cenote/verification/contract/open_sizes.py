"""Whole programs of samples: on several threads, and with open sizes, which are the batch and the extents behind the
channels of the first input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cenote.compiler.compile import Compilation, compile_graph, compile_sized
from cenote.core.errors import CenoteError
from cenote.core.formulas.expressions import OpenSizeError
from cenote.core.load_options import LoadOptions
from cenote.core.target import Target
from cenote.core.trace import Trace
from cenote.core.types import Array, Declared, TensorType, is_float
from cenote.graph.graph import Graph, Node
from cenote.ops.base import Sample, ShapeFromData
from cenote.passes.specialize import specialize
from cenote.runtime.program import Program
from cenote.verification.contract.comparison import assert_close, same_bits
from cenote.verification.contract.harness import lowerings_of, require

Sizes = Mapping[int, Any]  # of axes: numbers, or Sizes
GROWTH = (
    0,
    3,
    1,
)  # how much larger the sizes are than those of a sample: what is planned, and what is run besides
TOLERANCES = {2: 2e-2, 4: 2e-5, 8: 2e-5}  # of the largest value, by bytes of an element


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
    assert first is not None, "samples without a first input have no open axes"
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
        assert x is not None, "absent inputs are not given"
        shape = tuple(sizes.get(axis, extent) for axis, extent in enumerate(x.shape))
        types[f"x{index}"] = TensorType(x.dtype, shape)
    return types


def is_accepted(sample: Sample, given: Sequence[int], sizes: Sizes) -> bool:
    """Return whether the operator takes these sizes, with the constants at hand."""
    try:
        return specialize(graph_of(sample, given), types_of(sample, given, sizes)).rest is None
    except CenoteError:
        return False


def check_threads(sample: Sample) -> bool:
    """Check that the program of a sample gives the same bits on one thread and on two. Return whether there is one: a
    program takes arrays, and types that are known before the data."""
    if not sample.inputs or sample.inputs[0] is None or not sample.op.pure:
        return False
    given = alike(sample)
    try:
        graph = specialize(graph_of(sample, given), types_of(sample, given, {})).graph
    except ShapeFromData:
        return False
    if not graph.nodes:
        return False
    arrays = [x for index in given if (x := sample.inputs[index]) is not None]
    one, two = (
        compile_graph(graph, Compilation(LoadOptions(threads=threads))).program.run(arrays)
        for threads in (1, 2)
    )
    for a, b in zip(one, two, strict=True):
        require(same_bits(a, b), f"{sample.op}: other bits on two threads than on one")
    return True


def check_open_sizes(sample: Sample, target: Target) -> str:
    """Check that one plan for all sizes gives what the reference gives, at three. Return the reason why there is none;
    "" where there is one."""
    axes, given = (
        symbolic_axes(sample),
        alike(sample) if sample.inputs and sample.inputs[0] is not None else [],
    )
    if not axes or not sample.op.pure:
        return "no axis that can be open"
    first = sample.inputs[0]
    assert first is not None, "it has open axes"
    sizes = [{axis: first.shape[axis] + more for axis in axes} for more in GROWTH]
    if not all(is_accepted(sample, given, each) for each in sizes):
        return "takes no other sizes"
    trace = Trace()
    made = {axis: trace.dimension(size) for axis, size in sizes[0].items()}
    try:
        graph = specialize(graph_of(sample, given), types_of(sample, given, made)).graph
        template, _, _ = compile_sized(graph, Compilation(LoadOptions(threads=1)), trace)
    except OpenSizeError as error:
        return f"planned for each size: {error}"
    for each in sizes:
        program = template.at(list(each.values()))
        if program is not None:
            compare_at(sample, each, program, target, f"{sample} at {each}")
    return ""


def compare_at(
    sample: Sample, sizes: Mapping[int, int], program: Program, target: Target, where: str
) -> None:
    """Compare a program's outputs with the reference's; larger inputs repeat what is in the sample's. Raises
    ContractError."""
    inputs: list[Array | None] = list(sample.inputs)
    for index, type in types_of(sample, alike(sample), sizes).items():
        x = inputs[int(index[1:])]
        assert x is not None, "it has a type"
        inputs[int(index[1:])] = np.resize(x, type.shape)
    with np.errstate(all="ignore"):
        wanted = sample.op.reference(*inputs)
    given = [x for index in alike(sample) if (x := inputs[index]) is not None]
    found = program.run(given)
    known = [lowering.tolerance for lowering in lowerings_of(sample.op, inputs, target, True)]
    for y, want in zip(found, wanted, strict=True):
        tolerance = TOLERANCES.get(want.dtype.itemsize, 0.0) if is_float(want.dtype) else 0.0
        assert_close(y, want, max(tolerance, *known, 0.0), where)
