"""docs/add_a_convolution_algorithm.md, done: its file and lines go into a copy of the source, its program runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.executed_pages import blocks, follow, python, replace

PAGE = "add_a_convolution_algorithm.md"


def test_a_stranger_can_add_an_algorithm(checkout: Path) -> None:
    orders = dict(blocks(PAGE))
    assert len({order.split(", before: ")[0] for order in orders} - {"run"}) == 2
    (printed,) = follow(checkout, PAGE)
    ran = re.search(r"(\d+) samples by the new algorithm", printed)
    assert ran
    assert int(ran[1]) >= 40

    # The page promises that the samples find faults: a row left out must fail.
    file = checkout / "src" / "cenote" / "ops" / "conv" / "by_rows.py"
    replace(file, "in range(last + 1):", "in range(1, last + 1):")
    with pytest.raises(AssertionError, match="assert_close"):
        python(checkout, "-c", orders["run"])
