"""Which operators keep one plan for all sizes: each sample's first input gets symbolic sizes, and what planning asked
is put to other sizes. Nothing is compiled: steps are bound, for two machines unlike each other, and their questions
evaluated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cenote.codegen import jit
from cenote.compiler.compile import Compilation, _assembled, _scheduled
from cenote.core.errors import FAULTS, CenoteError
from cenote.core.load_options import LoadOptions
from cenote.core.trace import Trace
from cenote.ops.base import Op, Sample
from cenote.passes.specialize import specialize
from cenote.runtime.formulas import Formulas
from cenote.verification.contract.open_sizes import alike, graph_of, is_accepted, symbolic_axes, types_of
from tests.contract.samples import each_operator, listed
from tests.targets import LARGE, SMALL

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
    "user_function": "a call with zeros of each size",
    "adaptive_average_pool": "an output of the input's own size",
    "adaptive_max_pool": "an output of the input's own size",
    "blur_pool": "tables of a map's border",
    "conv_transpose": "an output of stride times the input, with windows at odd places",
}
# Operators some of whose samples have a class per range of sizes (or odd and even ones).
RANGES = {
    "adaptive_average_pool": DIVISORS, "average_pool": DIVISORS, "lp_pool": ENDS,
    "max_pool": ENDS, "min_pool": ENDS, "conv": ENDS, "conv_transpose": ENDS,
    "adaptive_max_pool": NARROW, "split": ENDS, "resize": "a table of taps that reaches further",
    "softmax": ROWS, "log_softmax": ROWS, "batch_normalization": PIECES, "instance_normalization": PIECES,
    "group_normalization": PIECES,
    "dynamic_quantize_linear": PIECES,
    "global_lp_pool": PIECES, "global_max_pool": PIECES, "global_average_pool": PIECES,
    **{
        f"reduce_{name}": PIECES
        for name in ("sum", "mean", "max", "min", "prod", "l1", "l2", "sum_square", "log_sum", "log_sum_exp")
    },
}  # fmt: skip


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
        _assembled(_scheduled(graph, Compilation(LoadOptions(threads=1)), trace), None, trace)
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
def test_one_plan_serves_all_sizes(op: type[Op], monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []
    for machine, step in ((LARGE, 1), (SMALL, 3)):
        monkeypatch.setattr(jit, "host_target", lambda machine=machine: machine)
        found += [f"{words} ({machine.name})" for sample in listed(op)[::step] for words in narrow(sample)]
    for kind, exceptions in ((FIXED, FIXES), (RANGE, RANGES)):
        narrower = [words for words in found if kind in words]
        assert bool(narrower) == (op.name in exceptions), "\n".join(narrower) or f"{op.name} is none any more"


def test_exceptions_are_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "any_size.md").read_text(encoding="utf-8")
    assert not [
        name for name in (*FIXES, *RANGES) if f"`{name}`" not in page and not name.startswith("reduce_")
    ]
