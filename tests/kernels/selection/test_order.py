"""Long rows in order: partitions by vectors, and what follows poor pivots; stable, nothing outside is touched."""

from __future__ import annotations

import numpy as np
import pytest

from cenote.core.types import Array
from cenote.kernels.selection import order
from cenote.ops.reduction.topk import Ordered
from cenote.verification.contract.comparison import same_bits
from tests.harness import lowerings_of, run_lowering
from tests.targets import TARGETS, Target

LENGTH = 5003
DTYPES = [np.float32, np.int32, np.uint32, np.float64, np.int64, np.uint64]


def rows(kind: str, dtype: type) -> Array:
    rng = np.random.default_rng(len(kind))
    made = {
        "random": lambda: rng.integers(-(2**31), 2**31 - 1, (3, LENGTH)),
        "few": lambda: rng.integers(-3, 3, (3, LENGTH)),
        "equal": lambda: np.full((2, LENGTH), 7),
        "rising": lambda: np.arange(2 * LENGTH).reshape(2, -1),
        "falling": lambda: -np.arange(2 * LENGTH).reshape(2, -1),
        "clusters": lambda: (rng.integers(-1, 2, (2, LENGTH)) << 60) + rng.integers(0, 1 << 20, (2, LENGTH)),
        "wide": lambda: rng.integers(-(2**62), 2**62, (2, LENGTH)),
        "pipes": lambda: np.abs(np.arange(LENGTH) - LENGTH // 2)[None],
    }[kind]()
    x = made.astype(dtype)
    if x.dtype.kind == "f":
        x[:, ::97] = np.resize([np.nan, -0.0, 0.0, np.inf, -np.inf], x[:, ::97].shape)
    return x


@pytest.mark.parametrize("levels", [order.LEVELS, 1, 0])
@pytest.mark.parametrize("kind", ["random", "few", "equal", "rising", "falling", "pipes", "clusters", "wide"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_long_rows(monkeypatch: pytest.MonkeyPatch, dtype: type, kind: str, levels: int) -> None:
    """Without levels every segment of more than 32 records is sorted by radix. In clusters many keys of 64 bits differ
    in their last bits alone."""
    usual = order.LEVELS
    monkeypatch.setattr(order, "LEVELS", levels)
    x = rows(kind, dtype)
    for op in (Ordered(-1, False), Ordered(-1, True), Ordered(-1, True, 600)):
        wanted = op.reference(x)
        for number, target in enumerate(TARGETS[: 1 if levels != usual else None]):
            if number and DTYPES.index(dtype) % 3 != number:
                continue  # narrower targets take a type of each width
            (lowering,) = lowerings_of(op, (x,), target, True)
            found = run_lowering(op, lowering, (x,), target)
            assert all(same_bits(y, want) for y, want in zip(found, wanted, strict=True)), (op, target.name)


@pytest.mark.parametrize("length", [*range(30, 36), 63, 64, 65, 127, 128, 129, 257])
def test_any_length(length: int) -> None:
    x = np.random.default_rng(length).standard_normal((4, length), np.float32)
    op = Ordered(-1, False)
    (lowering,) = lowerings_of(op, (x,), TARGETS[0], True)
    values, places = run_lowering(op, lowering, (x,), TARGETS[0])
    assert np.array_equal(places, np.argsort(x, -1, kind="stable"))
    assert np.array_equal(values, np.sort(x, -1))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int64, np.uint64])
def test_the_ends_of_integers(dtype: type) -> None:
    """Integers are made of their keys, also the smallest and the largest; in columns, too."""
    ends = np.iinfo(dtype)
    row = np.array([3, ends.max, 0, ends.min, ends.max - 1, ends.min + 1] * 20, dtype)
    for axis, op in ((-1, Ordered(-1, False)), (-1, Ordered(-1, True)), (0, Ordered(0, True, 50))):
        x = np.stack([row, row[::-1]], axis=0 if axis else 1)
        for target in TARGETS:
            (lowering,) = lowerings_of(op, (x,), target, True)
            found = run_lowering(op, lowering, (x,), target)
            assert all(same_bits(y, want) for y, want in zip(found, op.reference(x), strict=True)), op


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("spread", [300, 2**32 - 1, 2**32, 2**62])
@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_integers_near_each_other(dtype: type, spread: int, target: Target) -> None:
    """Differences of 32 bits and of more, from the lowest number on and up to the highest; equal ones stay in order."""
    ends = np.iinfo(dtype)
    offsets = np.random.default_rng(3).integers(0, spread, (4, 1003), np.uint64, endpoint=True)
    offsets[:, :2] = 0, spread
    low = (int(ends.min), int(ends.max) - spread, 5, 0)
    x = np.stack(
        [(row + np.uint64(first % 2**64)).view(dtype) for row, first in zip(offsets, low, strict=True)]
    )
    x[:, 500:] = x[:, :503]
    for descending in (False, True):
        op = Ordered(-1, descending)
        (lowering,) = lowerings_of(op, (x,), target, True)
        found = run_lowering(op, lowering, (x,), target)
        assert all(same_bits(y, want) for y, want in zip(found, op.reference(x), strict=True))
