"""Checks of what every operator promises, by its samples: types, float64 answers, printing, regions, cost."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence

import numpy as np

from cenote.core.errors import CenoteError, DTypeError
from cenote.core.types import FLOAT64, Array, TensorType, is_float
from cenote.ops.base import Box, Op, Sample, ShapeFromData
from cenote.verification.contract.comparison import same_bits
from cenote.verification.contract.harness import ContractError, require

SMALL = 20_000  # elements up to which a sample is perturbed for the check of regions


def known_types(arrays: Sequence[Array | None]) -> list[TensorType | None]:
    """Return the types of arrays, with their content."""
    return [None if array is None else TensorType.known(array) for array in arrays]


def answer(op: Op, arrays: Sequence[Array | None]) -> tuple[Array, ...]:
    """Return what the reference gives."""
    with np.errstate(all="ignore"):
        return op.reference(*arrays)


def copies(arrays: Sequence[Array | None]) -> list[Array | None]:
    return [None if array is None else array.copy() for array in arrays]


def check_meaning(sample: Sample) -> None:
    """Check that the reference leaves its inputs alone, gives the types that `types` says, and the same bits again, and
    that the cost is a number."""
    op, arrays = sample.op, sample.inputs
    before = copies(arrays)
    results = answer(op, arrays)
    for array, kept in zip(arrays, before, strict=True):
        require(array is None or kept is None or same_bits(array, kept), "compute changed its input")
    try:
        types = op.infer(*known_types(arrays))
    except ShapeFromData:
        return
    made = ", ".join(str(TensorType(y.dtype, y.shape)) for y in results)
    said = ", ".join(str(TensorType(kind.dtype, kind.shape)) for kind in types)
    require(made == said, f"compute returned {made}, but types said {said}")
    if op.pure:
        again = answer(op, arrays)
        require(
            all(same_bits(a, b) for a, b in zip(results, again, strict=True)),
            "compute returned other bits the second time: say pure = False",
        )
    cost = op.cost(known_types(arrays))
    require(cost.operations >= 0 and cost.bytes >= 0, f"its cost is {cost}")


def check_float64(sample: Sample) -> None:
    """Check that the answer in float64 is that in float32, with more digits: it is the oracle of kernels."""
    arrays = [None if a is None or a.dtype != np.float32 else a.astype(FLOAT64) for a in sample.inputs]
    arrays = [wide if wide is not None else a for wide, a in zip(arrays, sample.inputs, strict=True)]
    if not any(a is not None and a.dtype == FLOAT64 for a in arrays):
        return
    try:
        kinds = sample.op.infer(*known_types(arrays))
    except (DTypeError, ShapeFromData):
        return
    single = answer(sample.op, sample.inputs)
    double = answer(sample.op, arrays)
    for kind, wide, narrow in zip(kinds[:1], double, single, strict=False):
        require(
            wide.dtype == kind.dtype,
            f"for float64 compute returned {wide.dtype}, but types said {kind.dtype}",
        )
        if narrow.dtype != np.float32 or not sample.op.pure:
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            close = np.isclose(wide.astype(np.float32), narrow, rtol=1e-4, atol=1e-5, equal_nan=True)
        require(close.all(), "compute gives something else for the same numbers in float64")


def check_text(made: Op) -> None:
    """Check that an operator prints in one line that begins with its name, has a hash, and equals its twin."""
    text = str(made)
    require(text.startswith(made.name) and "\n" not in text, f"it prints as {text!r}")
    require(
        "object at 0x" not in text, f"it prints a place in memory: {text!r}; give the field's class a __str__"
    )
    fields = {f.name: getattr(made, f.name) for f in dataclasses.fields(made)}  # type: ignore[arg-type]
    twin = type(made)(**fields)
    require(twin == made, "it differs from one with the same fields")
    require(hash(twin) == hash(made), "it has another hash than one with the same fields")
    try:
        made.anything = 1  # type: ignore[attr-defined]
    except dataclasses.FrozenInstanceError:
        return
    raise ContractError("its fields can be changed: it is no frozen dataclass")


def check_refusals(made: Op, takes_inputs: bool) -> None:
    """Check that no input and nine of them are refused where that is too few or too many, and that whatever else is
    wrong raises errors of Cenote's. `takes_inputs`: whether samples have any."""
    nine = (TensorType.of(np.float32, ()),) * 9
    needed = takes_inputs and (not made.operands or not made.operands[0].endswith("?"))
    counted = bool(made.operands) and not made.operands[-1].endswith("*") and len(made.operands) < len(nine)
    cases: tuple[tuple[tuple[TensorType | None, ...], bool, str], ...] = (
        ((), needed, "no input"),
        ((None,), needed, "an absent first input"),
        (nine, counted, "nine inputs"),
        ((TensorType.of(np.complex64, (2, 3)),), False, "a complex array"),
    )
    for types, refused, what in cases:
        with contextlib.suppress(CenoteError):
            made.infer(*types)
            require(not refused, f"{what} is not refused")


def check_region(sample: Sample) -> None:
    """Check that a box of the output keeps its bits when every element outside of its region is changed."""
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
        regions = op.region(box, known_types(arrays))
        require(len(regions) == len(arrays), f"region gives {len(regions)} boxes for {len(arrays)} inputs")
        changed = [_changed_outside(a, r) for a, r in zip(arrays, regions, strict=True)]
        place = tuple(slice(begin, end) for begin, end in box.ranges)
        require(
            same_bits(answer(op, changed)[0][place], results[0][place]),
            f"{op}: {box} needs more than {regions}",
        )


def _changed_outside(array: Array | None, region: Box | None) -> Array | None:
    if array is None or region is None or not array.size or not is_float(array.dtype):
        return array  # integers may be indices, which have to stay in range
    require(len(region.ranges) == array.ndim, f"region {region} is of another rank than {array.shape}")
    for (begin, end), extent in zip(region.ranges, array.shape, strict=True):
        require(0 <= begin <= end <= extent, f"region {region} leaves {array.shape}")
    other: Array = array + np.asarray(50).astype(array.dtype)
    other = np.where(np.arange(array.size).reshape(array.shape) % 2, other, -other).astype(array.dtype)
    inside = tuple(slice(begin, end) for begin, end in region.ranges)
    other[inside] = array[inside]
    return other
