"""Counts of n-grams."""

import numpy as np
import pytest

from cenote.ops.learning.features import TfIdfVectorizer

POOL, STARTS, COLUMNS = (2, 3, 5, 4, 5, 6, 7, 8, 6, 7), (0, 4), (0, 1, 2, 3, 4, 5, 6)
ROW = np.array([1, 5, 3, 6, 3, 7, 8, 6, 7, 5, 6, 8])


@pytest.mark.parametrize(("shortest", "longest"), [(1, 1), (1, 2), (2, 2)])
def test_skipping_more_than_a_row_has_is_skipping_all_of_it(shortest: int, longest: int) -> None:
    """In as many steps as the row has places, not as the attribute says: 2 ** 62 would take for ever."""
    counts = [
        TfIdfVectorizer("TF", shortest, longest, skipped, STARTS, COLUMNS, POOL).compute(ROW)[0]
        for skipped in (len(ROW) - 2, len(ROW), 1 << 62)
    ]
    assert np.array_equal(counts[0], counts[1])
    assert np.array_equal(counts[0], counts[2])
    assert counts[0].any()
