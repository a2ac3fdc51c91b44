"""Tables that calls of kernels take, against loops over channels and taps."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cenote.kernels.tables import row_table, tap_table

AXES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 500)), min_size=1, max_size=3)


@given(AXES, st.integers(0, 99), st.integers(1, 9), st.integers(0, 10_000))
def test_taps_of_each_channel_lie_at_their_steps(
    axes: list[tuple[int, int]], origin: int, channels: int, channel_step: int
) -> None:
    window, steps = zip(*axes, strict=True)
    taps = [
        sum(index * step for index, step in zip(place, steps, strict=True)) - origin
        for place in product(*map(range, window))
    ]
    rows, table = row_table(window, steps, origin), tap_table(window, steps, origin, channels, channel_step)
    assert rows.tolist() == taps
    assert table.tolist() == [channel * channel_step + tap for channel in range(channels) for tap in taps]
    assert rows.dtype == table.dtype == np.int32
