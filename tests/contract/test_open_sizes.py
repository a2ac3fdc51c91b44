"""Every operator on inputs whose sizes are made of open ones, as n + 4 behind a border, 2n behind a transposed
convolution, n - 2, n // 2 and n * m: the plan has the numbers that it has for an open size that is one unknown, and its
answers are the reference's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from cenote.compiler.compile import Compilation, _assembled, _scheduled, compile_sized
from cenote.compiler.offsets import offsets_as_formulas
from cenote.compiler.templates import lifetimes
from cenote.core.errors import CenoteError
from cenote.core.formulas.expressions import OpenSizeError
from cenote.core.load_options import LoadOptions
from cenote.core.sizes import is_size
from cenote.core.trace import Trace
from cenote.kernels.base import word_of
from cenote.ops.base import Op, Sample
from cenote.ops.table import operators
from cenote.passes.specialize import specialize
from cenote.runtime.formulas import Formulas
from cenote.runtime.steps import Slot
from cenote.verification.contract.open_sizes import (
    alike,
    compare_at,
    graph_of,
    is_accepted,
    symbolic_axes,
    types_of,
)
from tests.contract.samples import each_operator, listed, named
from tests.targets import TARGETS

STEP = 6  # sizes are multiples of it, so that every form can give them
PLANNED = 37  # how much larger the sizes that are planned are than the sample's: than vectors and tiles,
COMPUTED = 1  # and those that are computed; references are slow


class Form(NamedTuple):
    """A size made of dimensions, and dimensions that make a size."""

    of: Callable[..., Any]
    dimensions: Callable[[int], tuple[int, ...]]


PLAIN = Form(lambda n: n, lambda size: (size,))
FORMS = {
    "n + 4": Form(lambda n: n + 4, lambda size: (size - 4,)),
    "2n": Form(lambda n: 2 * n, lambda size: (size // 2,)),
    "n - 2": Form(lambda n: n - 2, lambda size: (size + 2,)),
    "n // 2": Form(lambda n: n // 2, lambda size: (2 * size + 1,)),
    "n * m": Form(lambda n, m: n * m, lambda size: (size // 3, 3)),
}


def accepted(op: type[Op], more: int) -> list[Sample]:
    """The samples that take sizes so much larger."""
    return [
        sample
        for sample in listed(op)
        if symbolic_axes(sample) and is_accepted(sample, alike(sample), grown(sample, more))
    ]


def grown(sample: Sample, more: int) -> dict[int, int]:
    """The sizes of a sample's open axes."""
    x = sample.inputs[0]
    assert x is not None
    return {axis: -(-(x.shape[axis] + more) // STEP) * STEP for axis in symbolic_axes(sample)}


def dimensions_of(form: Form, sizes: Mapping[int, int]) -> list[int]:
    return [dimension for size in sizes.values() for dimension in form.dimensions(size)]


def traced(form: Form, sizes: Mapping[int, int]) -> tuple[Trace, dict[int, Any]]:
    """Sizes of the form, in the order of `dimensions_of`."""
    trace = Trace()
    unknowns = [[trace.dimension(each) for each in form.dimensions(size)] for size in sizes.values()]
    return trace, {axis: form.of(*each) for axis, each in zip(sizes, unknowns, strict=True)}


def planned(
    sample: Sample, form: Form, sizes: Mapping[int, int], others: Sequence[Mapping[int, int]]
) -> list[Any]:
    """All numbers and arrays of the sample's plan for some sizes, evaluated for others; None where it does not hold."""
    trace, made = traced(form, sizes)
    given = alike(sample)
    graph = specialize(graph_of(sample, given), types_of(sample, given, made)).graph
    assembler, _ = _assembled(_scheduled(graph, Compilation(LoadOptions(threads=1)), trace), None, trace)
    numbers: list[Any] = []
    for step in assembler.steps:
        if step.call is not None:
            words = [word_of(argument) for argument in step.call.arguments]
            numbers += [word.offset if isinstance(word, Slot) else word for word in words]
            numbers += [step.call.items, step.call.grain, step.call.scratch, step.call.chosen]
    numbers += [extent for type in assembler.graph.types.values() for extent in type.shape]
    levels = assembler._side_by_side()
    offsets_as_formulas(assembler.memory.buffers, lifetimes(assembler.steps, levels), trace)
    open_ones = {index: x for index, x in enumerate(numbers) if is_size(x)}
    tables = [table for _, table in assembler.weights.tables.values()]
    formulas = Formulas.compile(trace.source(list(open_ones.values()), tables), trace.objects)
    found = []
    for other in others:
        evaluated = formulas.numbers(dimensions_of(form, other))
        if evaluated is not None:
            values = {**dict(enumerate(numbers)), **dict(zip(open_ones, evaluated[0], strict=True))}
            evaluated = list(values.values()), evaluated[1]
        found.append(evaluated)
    return found


@each_operator
def test_numbers_are_those_of_an_unknown(op: type[Op]) -> None:
    samples = accepted(op, PLANNED)
    for number, (name, form) in enumerate(FORMS.items() if samples else ()):
        sample = samples[number % len(samples)]
        sizes = grown(sample, PLANNED)
        others = [grown(sample, PLANNED + more) for more in (STEP, 3 * STEP)]
        with named(sample):
            try:
                wanted = planned(sample, PLAIN, sizes, others)
            except (CenoteError, OpenSizeError):
                continue  # those that are planned for each size: tests/compiler/test_templates_of_operators.py
            np.testing.assert_equal(planned(sample, form, sizes, others), wanted, f"{name} for {sizes}")


@each_operator
def test_answers_are_those_of_the_reference(op: type[Op]) -> None:
    samples = accepted(op, COMPUTED)
    place = operators().index(op)
    if not samples or not samples[0].op.pure:
        return
    sample = samples[place % len(samples)]
    name, form = list(FORMS.items())[place % len(FORMS)]
    trace, made = traced(form, grown(sample, COMPUTED))
    with named(sample):
        graph = specialize(graph_of(sample, alike(sample)), types_of(sample, alike(sample), made)).graph
        template, _, _ = compile_sized(graph, Compilation(LoadOptions(threads=1)), trace)
        for more in (3 * STEP, STEP, 0):
            sizes = grown(sample, COMPUTED + more)
            program = template.at(dimensions_of(form, sizes))
            if program is not None and is_accepted(sample, alike(sample), sizes):
                compare_at(sample, sizes, program, TARGETS[0], f"{sample} with {name} at {sizes}")
                return
        raise AssertionError("the plan does not hold for the sizes that it was made with")
