"""What every operator promises, from its samples: types as inferred, float64 answers, printing, regions, cost."""

from __future__ import annotations

import contextlib
import dataclasses
import pkgutil
from collections.abc import Sequence

import numpy as np
import pytest

import cenote.ops
from cenote.core.errors import CenoteError, DTypeError
from cenote.core.types import FLOAT64, Array, TensorType, is_float
from cenote.ops.base import Box, Op, Sample, ShapeFromData
from cenote.ops.table import DECODERS, operators, operators_in
from tests.contract.comparison import same_bits
from tests.contract.samples import each_operator, each_sample, listed, named

SMALL = 20_000  # elements up to which a sample is perturbed for the test of regions


def known(arrays: Sequence[Array | None]) -> list[TensorType | None]:
    return [None if array is None else TensorType.known(array) for array in arrays]


def answer(op: Op, arrays: Sequence[Array | None]) -> tuple[Array, ...]:
    with np.errstate(all="ignore"):
        return op.reference(*arrays)


def copies(arrays: Sequence[Array | None]) -> list[Array | None]:
    return [None if array is None else array.copy() for array in arrays]


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


def check_meaning(sample: Sample) -> None:
    op, arrays = sample.op, sample.inputs
    before = copies(arrays)
    results = answer(op, arrays)
    for array, kept in zip(arrays, before, strict=True):
        assert array is None or kept is None or same_bits(array, kept), "the reference changed its input"
    try:
        types = op.infer(*known(arrays))
    except ShapeFromData:
        return
    assert [(y.shape, y.dtype) for y in results] == [(kind.shape, kind.dtype) for kind in types]
    if op.pure:
        again = answer(op, arrays)
        assert all(same_bits(a, b) for a, b in zip(results, again, strict=True))
    cost = op.cost(known(arrays))
    assert cost.operations >= 0
    assert cost.bytes >= 0


@each_operator
def test_float64_in_gives_float64_out(op: type[Op]) -> None:
    for _, sample in each_sample(op):
        with named(sample):
            check_float64(sample)


def check_float64(sample: Sample) -> None:
    """The oracle of the kernels: in float64 the answer must be that of float32, with more digits."""
    arrays = [None if a is None or a.dtype != np.float32 else a.astype(FLOAT64) for a in sample.inputs]
    arrays = [wide if wide is not None else a for wide, a in zip(arrays, sample.inputs, strict=True)]
    if not any(a is not None and a.dtype == FLOAT64 for a in arrays):
        return
    try:
        kinds = sample.op.infer(*known(arrays))
    except (DTypeError, ShapeFromData):
        return
    single = answer(sample.op, sample.inputs)
    double = answer(sample.op, arrays)
    for kind, wide, narrow in zip(kinds[:1], double, single, strict=False):
        assert wide.dtype == kind.dtype
        if narrow.dtype != np.float32 or not sample.op.pure:
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            np.testing.assert_allclose(wide.astype(np.float32), narrow, rtol=1e-4, atol=1e-5)


@each_operator
def test_prints_hashes_and_compares(op: type[Op]) -> None:
    for sample in listed(op):
        made = sample.op
        assert str(made).startswith(made.name)
        assert "\n" not in str(made)
        assert "object at 0x" not in str(made)
        fields = {f.name: getattr(made, f.name) for f in dataclasses.fields(made)}  # type: ignore[arg-type]
        twin = type(made)(**fields)
        assert twin == made
        assert hash(twin) == hash(made)
        with pytest.raises(dataclasses.FrozenInstanceError):
            made.anything = 1  # type: ignore[attr-defined]


@each_operator
def test_wrong_inputs_raise_our_errors(op: type[Op]) -> None:
    """No input and nine of them are refused where that is too few or too many; what else is wrong raises our errors."""
    made = listed(op)[0].op
    nine = (TensorType.of(np.float32, ()),) * 9
    needed = bool(listed(op)[0].inputs) and (not op.operands or not op.operands[0].endswith("?"))
    counted = op.operands and not op.operands[-1].endswith("*") and len(op.operands) < len(nine)
    for types, refused in (((), needed), ((None,), needed), (nine, counted)):
        with pytest.raises(CenoteError) if refused else contextlib.suppress(CenoteError):
            made.infer(*types)
    with contextlib.suppress(CenoteError):
        made.infer(TensorType.of(np.complex64, (2, 3)))


@each_operator
def test_region_is_all_that_a_box_needs(op: type[Op]) -> None:
    for _, sample in each_sample(op):
        with named(sample):
            check_region(sample)


def check_region(sample: Sample) -> None:
    """Change every element outside of the region: the box of the output keeps its bits."""
    op, arrays = sample.op, sample.inputs
    size = sum(a.size for a in arrays if a is not None)
    if type(op).region is Op.region or not op.pure or size > SMALL:
        return
    results = answer(op, arrays)
    if not results[0].size:
        return
    generator = np.random.default_rng(0)
    for _ in range(3):
        ranges = []
        for extent in results[0].shape:
            begin, end = sorted(generator.integers(0, extent + 1, 2).tolist())
            ranges.append(
                (begin, end) if begin < end else (min(begin, extent - 1), min(begin, extent - 1) + 1)
            )
        box = Box(tuple(ranges))
        regions = op.region(box, known(arrays))
        assert len(regions) == len(arrays)
        changed = [_changed_outside(a, r) for a, r in zip(arrays, regions, strict=True)]
        place = tuple(slice(begin, end) for begin, end in box.ranges)
        assert same_bits(answer(op, changed)[0][place], results[0][place]), (
            f"{op}: {box} needs more than {regions}"
        )


def _changed_outside(array: Array | None, region: Box | None) -> Array | None:
    if array is None or region is None or not array.size or not is_float(array.dtype):
        return array  # integers may be indices, which have to stay in range
    assert len(region.ranges) == array.ndim
    for (begin, end), extent in zip(region.ranges, array.shape, strict=True):
        assert 0 <= begin <= end <= extent, f"region {region} leaves {array.shape}"
    other = array + np.asarray(50).astype(array.dtype)
    other = np.where(np.arange(array.size).reshape(array.shape) % 2, other, -other).astype(array.dtype)
    inside = tuple(slice(begin, end) for begin, end in region.ranges)
    other[inside] = array[inside]
    return other


def test_samples_break_things() -> None:
    """Together the samples hold ragged channels, batches, single elements, empty tensors and several types."""
    arrays = [a for op in operators() for _, s in each_sample(op) for a in s.inputs if a is not None]
    assert any(a.ndim >= 2 and a.shape[1] % 8 for a in arrays)
    assert any(not a.size for a in arrays)
    assert len({a.dtype for a in arrays}) >= 6
