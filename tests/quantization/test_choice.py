"""The fewest layers in float, beside trying every number of them."""

from __future__ import annotations

import pytest

from cenote.quantization.choice import fewest

NAMES = [f"layer{place}" for place in range(9)]


@pytest.mark.parametrize("needed", range(len(NAMES) + 1))
def test_the_fewest(needed: int) -> None:
    made: list[frozenset[str]] = []

    def make(left: frozenset[str]) -> frozenset[str]:
        made.append(left)
        return left

    found, left = fewest(NAMES, make, lambda given: max(0, needed - len(given)) * 0.01, 0.005)
    assert left == tuple(NAMES[:needed])
    assert found == frozenset(left)
    assert len(made) <= 5


def test_where_more_in_float_is_worse_the_answer_was_measured() -> None:
    drops = {0: 1.0, 1: 0.0, 2: 1.0, 3: 1.0, 4: 0.0, 5: 0.0, 6: 0.0, 7: 1.0, 8: 0.0, 9: 0.0}
    found, left = fewest(NAMES, lambda given: given, lambda given: drops[len(given)], 0.5)
    assert drops[len(left)] == 0
    assert found == frozenset(left)
