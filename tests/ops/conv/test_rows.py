"""Convolutions of few channels by rows of plain memory, and packing by squares of weights that a run computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cenote.core.target import Target
from cenote.core.types import PLAIN, TensorType
from cenote.kernels.base import View, dense_strides
from cenote.kernels.conv.numbered_weights import numbered
from cenote.kernels.conv.packed_squares import squares_call
from cenote.kernels.elementwise.activations import Activation
from cenote.ops.conv.conv import Conv
from cenote.ops.values import seeded
from cenote.runtime.steps import Slot, SlotKind
from cenote.verification.contract.comparison import assert_close
from tests.harness import lowerings_of, run_lowering
from tests.targets import over_targets, target_name

# x, w and attributes: rows that end in each number of vectors, filters left over, every rank, bands of rows.
ROWS: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ((2, 3, 9, 50), (16, 3, 3, 3), {"pads": ((1, 1), (1, 1))}),
    ((1, 3, 35, 97), (13, 3, 3, 5), {"pads": ((0, 2), (1, 0)), "strides": (2, 1)}),
    ((1, 4, 8, 5), (5, 4, 1, 1), {}),
    ((1, 2, 7, 33), (8, 2, 3, 3), {"dilations": (2, 3), "pads": ((2, 2), (3, 3))}),
    ((3, 1, 40), (9, 1, 7), {"pads": ((3, 3),)}),
    ((1, 2, 4, 6, 20), (7, 2, 3, 3, 3), {"strides": (2, 1, 1), "pads": ((1, 1), (1, 1), (1, 1))}),
)


@pytest.mark.parametrize(("x", "w", "attributes", "target"), over_targets(ROWS), ids=target_name)
def test_rows(x: tuple[int, ...], w: tuple[int, ...], attributes: dict[str, Any], target: Target) -> None:
    for activation, added in ((Activation(), False), (Activation("silu"), True)):
        op = Conv(activation=activation, residual=added, **attributes)
        arrays = [seeded(x, 1), seeded(w, 2), seeded((w[0],), 3) if added else None]
        if added:
            plain = Conv(**attributes)
            arrays.append(seeded(plain.infer(*(TensorType.known(a) for a in arrays[:2]))[0].shape, 4))
        (lowering,) = (each for each in lowerings_of(op, arrays, target, False) if each.name == "direct_rows")
        (got,) = run_lowering(op, lowering, arrays, target, constants=False)
        assert_close(got, op.reference(*arrays)[0], lowering.tolerance, f"{x} {w}")


def test_sums_of_rows_are_one_short_chain() -> None:
    x, w = seeded((1, 12, 5, 20), 1), seeded((4, 12, 3, 3), 2)
    for op, offered in ((Conv(), True), (Conv(exact=True), False)):
        names = [each.name for each in lowerings_of(op, [x, w, None], over_targets([()])[0][-1], False)]
        assert ("direct_rows" in names) == offered


FILTERS = ((64, 5, 3), (20, 3, 3), (40, 24, 1), (17, 20, 3), (16, 1, 3))


@pytest.mark.parametrize(("filters", "channels", "window", "target"), over_targets(FILTERS), ids=target_name)
def test_packed_in_squares(filters: int, channels: int, window: int, target: Target) -> None:
    """Any number of filters; one channel of nine weights has no square and is picked on wide vectors."""
    arrays = [
        seeded((1, channels, 6, 7), 1),
        seeded((filters, channels, window, window), 2),
        seeded((filters,), 3),
    ]
    op = Conv(pads=((window // 2,) * 2,) * 2)
    (lowering,) = (each for each in lowerings_of(op, arrays, target, False) if each.name == "direct")
    (got,) = run_lowering(op, lowering, arrays, target, constants=False)
    assert_close(got, op.reference(*arrays)[0], lowering.tolerance, str(filters))


def test_orders_without_squares() -> None:
    """Squares are found where every vector has one weight of neighbouring filters, and each weight its place."""
    weights = numbered((8, 12)).astype(np.int32)
    place = View(TensorType.of(np.float32, (8, 12)), PLAIN, dense_strides((8, 12)), Slot(SlotKind.INPUT, 0))
    lanes = 4

    def found(numbers: np.ndarray[Any, Any], depth: int = 12) -> bool:
        return squares_call(numbers.astype(np.int32).ravel(), depth, lanes, place, place) is not None

    packed = weights.reshape(2, lanes, 12).transpose(0, 2, 1)
    for numbers in (packed, packed[:, ::-1], packed[1:]):
        assert found(numbers)
    assert found(np.where(packed > 12 * 6, 0, packed))
    assert not found(weights)
    assert not found(packed[:, :-1])
    assert not found(np.where(packed == 30, 0, packed))
    assert not found(np.concatenate((packed[:, :-1], packed[:, :1]), axis=1))
    assert not found(packed, 3)
