"""Which operators keep one plan for all sizes: each sample's first input gets symbolic sizes, and what planning asked
is put to other sizes. Nothing is compiled: steps are bound, and their questions evaluated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from cenote.compiler.compile import Compilation, _assembled, _scheduled, compile_sized
from cenote.core.errors import FAULTS, CenoteError
from cenote.core.trace import Trace
from cenote.core.types import Declared, TensorType
from cenote.graph.graph import Graph, Node
from cenote.ops.base import Op, Sample
from cenote.ops.values import seeded
from cenote.passes.specialize import specialize
from cenote.runtime.formulas import Formulas
from tests.contract.samples import each_operator, listed

BASE = 37  # how much larger the sizes at hand are than the sample's: than vectors and tiles, whose ends have classes
GROWN = (38, 41, 52, 80, 30)  # the same of the other sizes

FIXED, RANGE = "one size each:", "a range of sizes:"
DIVISORS = "whether divisors are powers of two, and alike in all columns"
ENDS = "whether the last window or part reaches beyond the input"
NARROW = "fewer elements in a row than a vector has lanes"
ROWS = "whether rows are longer than some bytes, where axes are joined to one"
PIECES = "many elements for few results are reduced in pieces"

# Operators some of whose samples are planned for each size; docs/any_size.md has them, and why.
FIXES = {
    "adaptive_average_pool": "an output of the input's own size",
    "adaptive_max_pool": "an output of the input's own size",
    "blur_pool": "tables of a map's border",
    "conv_transpose": "an output of stride times the input, with windows at odd places",
}
# Operators some of whose samples have a class per range of sizes (or odd and even ones).
RANGES = {
    "adaptive_average_pool": DIVISORS, "average_pool": DIVISORS, "lp_pool": ENDS,
    "max_pool": ENDS, "min_pool": ENDS, "conv": ENDS, "conv_transpose": ENDS,
    "adaptive_max_pool": NARROW, "split": ENDS, "reorder": NARROW, "resize": "a table of taps that reaches further",
    "softmax": ROWS, "log_softmax": ROWS, "batch_normalization": PIECES, "instance_normalization": PIECES,
    "group_normalization": PIECES, "slice": "whether what it takes fills vectors",
    "dynamic_quantize_linear": PIECES,
    "global_lp_pool": PIECES, "global_max_pool": PIECES, "global_average_pool": PIECES,
    **{
        f"reduce_{name}": PIECES
        for name in ("sum", "mean", "max", "min", "prod", "l1", "l2", "sum_square", "log_sum", "log_sum_exp")
    },
}  # fmt: skip


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


def types_of(sample: Sample, given: Sequence[int], sizes: dict[int, int]) -> dict[str, TensorType]:
    """The inputs' types with these sizes at their axes."""
    types = {}
    for index in given:
        x = sample.inputs[index]
        assert x is not None
        shape = tuple(sizes.get(axis, extent) for axis, extent in enumerate(x.shape))
        types[f"x{index}"] = TensorType(x.dtype, shape)
    return types


def is_accepted(sample: Sample, given: Sequence[int], sizes: dict[int, int]) -> bool:
    """Does the operator take these sizes, with the constants at hand?"""
    try:
        return specialize(graph_of(sample, given), types_of(sample, given, sizes)).rest is None
    except CenoteError:
        return False


def narrow(sample: Sample) -> Iterator[str]:
    """What is said of the sizes that a sample's plan does not hold for, or why there is none."""
    axes = symbolic_axes(sample)
    if not axes:
        return
    given, shape = alike(sample), sample.inputs[0].shape  # type: ignore[union-attr]  # there are axes

    def sizes_at(more: int) -> dict[int, int]:
        return {axis: shape[axis] + more for axis in axes}

    others = [sizes for more in GROWN if is_accepted(sample, given, sizes := sizes_at(more))]
    if not others or not is_accepted(sample, given, sizes_at(BASE)):
        return
    trace = Trace()
    sizes = {axis: trace.dimension(size) for axis, size in sizes_at(BASE).items()}
    try:
        graph = specialize(graph_of(sample, given), types_of(sample, given, sizes)).graph
        _assembled(_scheduled(graph, Compilation(1), trace), None, trace)
        formulas = Formulas.compile(trace.source([], []), trace.objects)
    except (CenoteError, AssertionError, *FAULTS) as error:
        yield f"{sample}: {FIXED} {type(error).__name__}: {error}"
        return
    for other in others:
        if formulas.numbers([other[axis] for axis in axes]) is None:
            places = sorted({place for question, place in trace.fixed.items() if question in trace.guards})
            yield f"{sample}: {FIXED if places else RANGE} not for {other}; {', '.join(places)}"
            return


@each_operator
def test_one_plan_serves_all_sizes(op: type[Op]) -> None:
    found = [words for sample in listed(op) for words in narrow(sample)]
    for kind, exceptions in ((FIXED, FIXES), (RANGE, RANGES)):
        narrower = [words for words in found if kind in words]
        assert bool(narrower) == (op.name in exceptions), "\n".join(narrower) or f"{op.name} is none any more"


def test_exceptions_are_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "any_size.md").read_text(encoding="utf-8")
    assert not [
        name for name in (*FIXES, *RANGES) if f"`{name}`" not in page and not name.startswith("reduce_")
    ]


COMPUTED = (
    "adaptive_average_pool", "adaptive_max_pool", "average_pool", "median_pool", "soft_pool", "gem_pool", "lp_pool",
    "fractional_max_pool", "global_max_pool", "global_average_pool", "lrn", "instance_normalization", "reduce_mean",
)  # fmt: skip


@each_operator
def test_other_sizes_are_as_the_reference(op: type[Op]) -> None:
    """What was planned for one size and evaluated for others: the first sample of each kind that has a plan for all."""
    if op.name not in COMPUTED:
        return
    samples = [sample for sample in listed(op) if symbolic_axes(sample) and len(alike(sample)) == 1]
    for sample in samples[:3]:
        axes, x = symbolic_axes(sample), sample.inputs[0]
        assert x is not None
        trace = Trace()
        sizes = {axis: trace.dimension(x.shape[axis] + 37) for axis in axes}
        if not is_accepted(sample, [0], {axis: x.shape[axis] + 37 for axis in axes}):
            continue
        graph = specialize(graph_of(sample, [0]), types_of(sample, [0], sizes)).graph
        template, _, _ = compile_sized(graph, Compilation(1), trace)
        for more in (41, 30):
            other = {axis: x.shape[axis] + more for axis in axes}
            made = template.at([other[axis] for axis in axes])
            if made is None or not is_accepted(sample, [0], other):
                continue
            shape = tuple(other.get(axis, extent) for axis, extent in enumerate(x.shape))
            given = seeded(shape, more, x.dtype)
            wanted = sample.op.reference(given, *sample.inputs[1:])
            for y, want in zip(made.run([given]), wanted, strict=True):
                assert y.shape == want.shape
                near = 2e-2 if x.dtype.itemsize == 2 else 2e-5
                np.testing.assert_allclose(
                    y.astype(np.float64),
                    want.astype(np.float64),
                    rtol=near,
                    atol=near,
                    err_msg=f"{sample} {shape}",
                )
