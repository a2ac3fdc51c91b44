"""Lowerings that say their output may take an input's memory: the answer is the same bits when it does."""

from __future__ import annotations

from collections.abc import Sequence

from cenote.core.target import Target
from cenote.core.types import Array, Layout
from cenote.kernels.base import View
from cenote.ops.base import Lowering, Op, Sample, ShapeFromData, ValueNeeded
from cenote.ops.elementwise.binary import Add
from tests import harness
from tests.contract.comparison import same_bits
from tests.contract.samples import each_operator, each_sample, listed, named
from tests.targets import NARROWER_STEP, TARGETS

MOST_SAMPLES = 9  # the later ones differ in values, not in memory


@each_operator
def test_output_in_the_memory_of_an_input(op: type[Op]) -> None:
    for number, sample in each_sample(op):
        if number >= MOST_SAMPLES:
            return
        for target in TARGETS[:1] if number % NARROWER_STEP else TARGETS:
            for constants in (True, False) if len(sample.inputs) > 1 else (True,):
                with named(sample):
                    check_sample(sample, target, constants)


def check_sample(sample: Sample, target: Target, constants: bool) -> None:
    try:
        lowerings = harness.lowerings_of(sample.op, sample.inputs, target, constants)
    except (ShapeFromData, ValueNeeded):
        return
    for lowering in lowerings:
        for index in lowering.in_place:
            check(sample.op, lowering, sample.inputs, target, constants, index)


def check(
    op: Op, lowering: Lowering, arrays: Sequence[Array | None], target: Target, constants: bool, index: int
) -> None:
    apart = harness.run_lowering(op, lowering, arrays, target, constants=constants)
    types = harness.input_types(arrays, constants)
    output, *others = op.infer(*types)
    source = arrays[index]
    assert source is not None
    assert (output.dtype, output.shape) == (source.dtype, source.shape), f"{op}: input {index} does not fit"
    assert lowering.inputs[index] == lowering.outputs[0], f"{op}: layouts differ"
    buffers: list[harness.Buffer] = []
    views: list[View | None] = []
    for array, type, layout in zip(arrays, types, lowering.inputs, strict=True):
        if array is None or type is None:
            views.append(None)
            continue
        views.append(harness._view(type, layout or Layout(), buffers, 0xFF))
        harness.pack(array, layout or Layout(), buffers[-1])
    shared = views[index]
    assert shared is not None
    extra = [*zip(others, lowering.outputs[1:], strict=True), *((t, Layout()) for t in lowering.temporaries)]
    rest = [harness._view(type, layout, buffers, 0xFF) for type, layout in extra]
    y = View(output, shared.layout, shared.strides, shared.slot)
    for call in lowering.bind(views, [y, *rest]):
        harness.launch(call, buffers, target)
    for number, buffer in enumerate(buffers):
        buffer.check(f"{op} via {lowering.name} in place, buffer {number}")
    result = harness.unpack(buffers[shared.slot.index], output, shared.layout)
    assert same_bits(result, apart[0]), f"{op} via {lowering.name} in the memory of input {index}"


def test_some_lowerings_work_in_place() -> None:
    sample = listed(Add)[0]
    assert any(
        lowering.in_place for lowering in harness.lowerings_of(sample.op, sample.inputs, TARGETS[0], False)
    )
