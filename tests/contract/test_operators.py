"""What every operator promises, from its samples: types as inferred, float64 answers, printing, regions, cost."""

from __future__ import annotations

import dataclasses
import pkgutil

import cenote.ops
from cenote.ops.base import Op
from cenote.ops.table import DECODERS, operators, operators_in
from cenote.verification.contract.meaning import (
    check_float64,
    check_meaning,
    check_refusals,
    check_region,
    check_text,
)
from tests.contract.samples import each_operator, each_sample, listed, named


@each_operator
def test_has_samples_and_a_docstring(op: type[Op]) -> None:
    assert len(listed(op)) >= 2
    assert op.__doc__
    assert not op.__doc__.startswith(f"{op.__name__}("), "dataclasses write that one themselves"
    assert op.name
    assert dataclasses.is_dataclass(op)


def test_names_are_unique() -> None:
    names = [op.name for op in operators()]
    assert len(set(names)) == len(names)
    decoded = [name for op in operators() for name in op.from_onnx]
    assert len(set(decoded)) == len(decoded), "two operators decode one ONNX operator"
    assert set(DECODERS) == set(decoded), "the table does not say what the files decode"


def test_every_file_of_operators_is_listed() -> None:
    for module in pkgutil.iter_modules(cenote.ops.__path__):
        for op in operators_in(module.name):
            assert op in operators(), f"{module.name}.py is missing in the table"


@each_operator
def test_meaning(op: type[Op]) -> None:
    for _, sample in each_sample(op):
        with named(sample):
            check_meaning(sample)


@each_operator
def test_float64_in_gives_float64_out(op: type[Op]) -> None:
    for _, sample in each_sample(op):
        with named(sample):
            check_float64(sample)


@each_operator
def test_prints_hashes_and_compares(op: type[Op]) -> None:
    for sample in listed(op):
        check_text(sample.op)


@each_operator
def test_wrong_inputs_raise_our_errors(op: type[Op]) -> None:
    check_refusals(listed(op)[0].op, bool(listed(op)[0].inputs))


@each_operator
def test_region_is_all_that_a_box_needs(op: type[Op]) -> None:
    for _, sample in each_sample(op):
        with named(sample):
            check_region(sample)


def test_samples_break_things() -> None:
    """Together the samples hold ragged channels, batches, single elements, empty tensors and several types."""
    arrays = [a for op in operators() for _, s in each_sample(op) for a in s.inputs if a is not None]
    assert any(a.ndim >= 2 and a.shape[1] % 8 for a in arrays)
    assert any(not a.size for a in arrays)
    assert len({a.dtype for a in arrays}) >= 6
