"""Groups joined until they fill vectors: which channels each filter group reads."""

from __future__ import annotations

import numpy as np
import pytest

from cenote.core.target import Target
from cenote.kernels.conv.joined_calls import JoinedFilters
from cenote.kernels.elementwise.activations import Activation
from cenote.ops.conv.conv import Conv
from cenote.ops.values import seeded
from tests.harness import lowerings_of, run_lowering
from tests.targets import over_targets, target_name

# Groups, channels and filters of one: those whose taps are of 8, 4, 2 and 1 channels on some lanes.
JOINED = (
    (4, 24, 24),
    (3, 36, 9),
    (3, 36, 144),
    (3, 9, 32),
    (6, 12, 12),
    (2, 10, 6),
    (5, 24, 72),
    (2, 24, 17),
)


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize(("groups", "channels", "filters"), JOINED)
def test_ranges_hold_every_channel_of_a_vector(groups: int, channels: int, filters: int, lanes: int) -> None:
    joined = JoinedFilters(channels, filters, groups * filters, lanes)
    for registers in (16, 32):
        runs = joined.best(registers)
        ends = [first + count * each for first, count, each in runs]
        assert [first for first, _, _ in runs] == [0, *ends[:-1]]
        assert ends[-1] == -(-groups * filters // lanes)
        for first, count, each in runs:
            for number, (begin, length) in enumerate(joined.ranges(first, count, each)):
                start = (first + number * each) * lanes
                inside = [f // filters for f in range(start, min(start + each * lanes, groups * filters))]
                assert (begin, length) == (inside[0] * channels, (inside[-1] + 1 - inside[0]) * channels)
        assert joined.cost(runs) <= joined.cost(joined.runs(2))


def test_zeros_are_skipped() -> None:
    """Groups of 24 joined in pairs on 16 lanes: 96 of 144 multiply-adds per tap."""
    pair = JoinedFilters(24, 24, 48, 16)
    assert pair.best(32) == [(0, 3, 1)]
    assert pair.ranges(0, 3, 1) == [(0, 24), (0, 48), (24, 24)]
    assert JoinedFilters(8, 8, 16, 16).best(32) == [(0, 1, 1)]


@pytest.mark.parametrize(("groups", "channels", "filters", "target"), over_targets(JOINED), ids=target_name)
def test_joined_groups(groups: int, channels: int, filters: int, target: Target) -> None:
    arrays = (
        seeded((2, groups * channels, 7, 6), 1),
        seeded((groups * filters, channels, 3, 3), 2),
        seeded((groups * filters,), 3),
    )
    for op in (
        Conv(pads=((1, 1), (1, 1)), groups=groups, activation=Activation("relu")),
        Conv((2, 1), groups=groups, exact=False),
    ):
        (wanted,) = op.reference(*arrays)
        for lowering in lowerings_of(op, arrays, target, True):
            if lowering.name == "direct_joined":
                (got,) = run_lowering(op, lowering, arrays, target, constants=True)
                assert np.abs(got - wanted).max() <= lowering.tolerance * np.abs(wanted).max()
