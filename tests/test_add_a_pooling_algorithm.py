"""docs/add_a_pooling_algorithm.md, done: its file and lines are written into a copy of the source, its program runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.executed_pages import blocks, follow, python, replace

PAGE = "add_a_pooling_algorithm.md"


def test_a_stranger_can_add_an_algorithm(checkout: Path) -> None:
    (printed,) = follow(checkout, PAGE)
    ran = re.search(r"(\d+) samples by the new algorithm", printed)
    assert ran
    assert int(ran[1]) >= 4

    # The page promises that the samples find faults: one row too few must fail.
    kernel = checkout / "src" / "cenote" / "kernels" / "pool" / "direct.py"
    replace(kernel, 'k.range(0, n("window_h"))', 'k.range(1, n("window_h"))')
    with pytest.raises(AssertionError, match="assert_close"):
        python(checkout, "-c", dict(blocks(PAGE))["run"])
