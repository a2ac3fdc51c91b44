"""The page of a verification, from data: what is on it, in what place, and in what colour."""

from __future__ import annotations

import math
import re

import pytest

from cenote.verification import page as pages
from cenote.verification.fields import Divergence, SizesRun, ValueErrors
from cenote.verification.found import Verification
from tests.read_page import Read

VALUES = (ValueErrors("a", "conv", 1e-7, 0.0), ValueErrors("b<i>", "pool", None, math.inf))
FAULT = Divergence("b<i>", "pool", "kernel", None, math.inf, {"x": (1, 3, 8, 8)})


def found(first: Divergence | None = None, **more: object) -> Verification:
    return Verification("onnxruntime", 1e-4, first, VALUES, **more)  # type: ignore[arg-type]


def test_every_value_is_a_row_and_every_error_a_mark() -> None:
    page = found().html("net.onnx")
    read = Read(page)
    assert "net.onnx beside onnxruntime" in read.texts
    assert {"a", "conv", "b<i>", "pool", "1.0e-07", "inf", "-"} <= set(read.texts)
    assert page.count("<circle") == 3
    assert page.count(pages._FAULT) == page.count("first that is wrong") == 0
    assert "class=warn" not in page


def test_what_is_wrong_is_marked_and_named() -> None:
    page = found(FAULT).html()
    assert "first divergence: &#x27;b&lt;i&gt;&#x27; of node &#x27;pool&#x27;: kernel" in page
    assert "class=warn" in page
    assert page.count(f"fill:{pages._FAULT}") == 1
    Read(page)


@pytest.mark.parametrize("error", [0.0, 1e-30, 1e-9, 3e-4, 1.0, 1e30, math.inf, math.nan])
def test_every_error_has_a_place_in_the_picture(error: float) -> None:
    assert 0 < pages._up(error) <= pages._HEIGHT


def test_larger_errors_lie_higher() -> None:
    heights = [pages._up(error) for error in (0.0, 1e-8, 1e-4, 1.0, 90.0)]
    assert heights == sorted(heights, reverse=True)
    assert len(set(heights)) == 5


def test_runs_at_other_sizes_are_listed_with_refusals() -> None:
    runs = (
        SizesRun({"x": (1, 3, 8, 8)}, "y", 2e-6),
        SizesRun({"x": (2, 3, 9, 9)}, refused="too odd"),
    )
    read = Read(found(sizes=runs).html())
    assert {"x=1,3,8,8", "2.0e-06", "refused: too odd"} <= set(read.texts)


def test_long_lists_are_folded_not_lost() -> None:
    rows = tuple(ValueErrors(f"v{number}", "n", 0.0, 0.0) for number in range(100))
    page = Verification("reference", 0.0, None, rows).html()
    assert re.search(r"<summary>60 more values</summary>", page)
    assert all(f"<td>v{number}</td>" in page for number in range(100))
    assert "tolerance 0" not in page


def test_nothing_compared_is_a_page_too() -> None:
    Read(Verification("reference", 1e-4, None, ()).html())
