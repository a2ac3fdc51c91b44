"""Lowerings that say their output may take an input's memory: the answer is the same bits when it does."""

from __future__ import annotations

from cenote.core.target import Target
from cenote.ops.base import Op, Sample, ShapeFromData, ValueNeeded
from cenote.ops.elementwise.binary import Add
from cenote.verification.contract.native import check_in_place
from tests import harness
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
            check_in_place(sample.op, lowering, sample.inputs, target, constants, index)


def test_some_lowerings_work_in_place() -> None:
    sample = listed(Add)[0]
    assert any(
        lowering.in_place for lowering in harness.lowerings_of(sample.op, sample.inputs, TARGETS[0], False)
    )
