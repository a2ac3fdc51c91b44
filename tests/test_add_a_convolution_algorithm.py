"""docs/add_a_convolution_algorithm.md, done: its file and lines go into a copy of the source, its program runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.test_add_an_operator import BLOCK, ROOT, apply, checkout, python

DOCUMENT = ROOT / "docs" / "add_a_convolution_algorithm.md"

__all__ = ["checkout"]  # the fixture


def test_a_stranger_can_add_an_algorithm(checkout: Path) -> None:
    blocks = [
        (found["order"], found["code"]) for found in BLOCK.finditer(DOCUMENT.read_text(encoding="utf-8"))
    ]
    (program,) = (code for order, code in blocks if order == "run")
    places = {order.split(", before: ")[0] for order, _ in blocks if order != "run"}
    assert len(places) == 2
    for order, code in blocks:
        if order != "run":
            apply(checkout, order, code)
    ran = re.search(r"(\d+) samples by the new algorithm", python(checkout, "-c", program))
    assert ran
    assert int(ran[1]) >= 40

    # The page promises that the samples find faults: a row left out must fail.
    file = checkout / "src" / "cenote" / "ops" / "conv" / "by_rows.py"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("in range(last + 1):", "in range(1, last + 1):"), encoding="utf-8")
    with pytest.raises(AssertionError, match="assert_close"):
        python(checkout, "-c", program)
