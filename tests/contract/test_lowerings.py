"""Every native lowering of every operator against its float64 reference, from the operator's own samples.

Each runs on outputs full of junk between guard bytes, whole and in pieces (run in reverse order), which must give the
same bits; blocked inputs have NaN in their junk lanes; halos larger than asked for surround blocked tensors.
"""

from __future__ import annotations

from cenote.core.types import TensorType
from cenote.ops.base import Op, Sample
from cenote.ops.table import operators
from cenote.verification.contract.comparison import check_sample
from cenote.verification.contract.native import bad_inputs, check_special, check_spread, special_inputs
from tests.contract.samples import each_operator, listed, named, trials
from tests.harness import input_types
from tests.targets import TARGETS


@each_operator
def test_lowerings(op: type[Op]) -> None:
    for place, target in enumerate(TARGETS):
        for sample, constants, lowerings in trials(op, target, place):
            if lowerings:
                with named(sample):
                    check_sample(sample.op, sample.inputs, target, constants, lowerings, halos=not place)


@each_operator
def test_special_values(op: type[Op]) -> None:
    """NaN, infinities and signed zeros in the data: they come out where the reference has them."""
    for sample, arrays in special_inputs(listed(op)):
        with named(sample):
            check_special(sample.op, arrays, TARGETS[0])


@each_operator
def test_a_bad_element_stays_where_it_belongs(op: type[Op]) -> None:
    """One NaN or infinity in the data: outputs that the float64 reference has finite are finite, in every algorithm.
    What lies beside it in a vector, a tile, a batch or a running sum must not meet it, not even times 0."""
    for sample, constants, lowerings in trials(op, TARGETS[0]):
        if lowerings and constants:
            for arrays in bad_inputs(sample):
                with named(sample):
                    check_spread(sample.op, arrays, lowerings, TARGETS[0])


def test_there_are_lowerings() -> None:
    """The suite would pass if nothing were lowered: these must be."""
    wanted = {"add", "mul", "relu", "sigmoid", "clip", "softmax", "resize", "concat", "pad", "lrn"}
    native = {op.name for op in operators() if op.name in wanted and any(_lowered(s) for s in listed(op))}
    assert native == wanted


def _lowered(sample: Sample) -> bool:
    types: list[TensorType | None] = input_types(sample.inputs, True)
    return next(iter(sample.op.lowerings(types, TARGETS[0])), None) is not None
