"""docs/add_a_load_option.md, done: its blocks are written into a copy of the source, its program runs there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.executed_pages import blocks, follow, python, touched

PAGE = "add_a_load_option.md"
# A second process, which finds a plan for each value of the option.
CACHED = """
import logging
import sys

import numpy as np

import cenote

logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
x = np.ones((1, 1, 32, 32), np.float32)
x[0, 0, 0, 0] = 1e8
print(cenote.load("mean.onnx", sums="float64")(x).item())
print(cenote.load("mean.onnx")(x).item() < 97657.25)
print(cenote.load("mean.cenote")(x).item())
"""
REFUSED = """
import cenote

try:
    cenote.load("mean.onnx", sums="wide")
except cenote.ArgumentError as error:
    print(error)
"""
DOCUMENTED = """
from docs.generate import options_page

print(*(line for line in options_page().splitlines() if "--sums" in line))
"""


def test_a_stranger_can_add_a_load_option(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CENOTE_CACHE", str(checkout / "cache"))
    monkeypatch.setenv("CENOTE_PLAN_CACHE", "100")
    assert len(touched(blocks(PAGE))) == 3
    (printed,) = follow(checkout, PAGE)
    exact, is_less, refused, compiled = printed.splitlines()
    assert (exact, is_less) == ("97657.25", "True")
    assert compiled.startswith("mean.cenote: ")
    assert refused.startswith(
        "narrow.cenote: sums='float64': a plan file keeps what it was made with, 'narrow'"
    )

    cached = python(checkout, "-c", CACHED).splitlines()
    assert cached == [
        "mean.onnx: from the cache",
        "97657.25",
        "mean.onnx: from the cache",
        "True",
        "97657.25",
    ]
    assert python(checkout, "-c", REFUSED) == "sums: 'wide' is not known (narrow, float64)\n"
    assert python(checkout, "-c", DOCUMENTED).startswith('| `sums` | `--sums` | `"narrow"`, `"float64"` |')
    assert "--sums" in python(checkout, "-m", "cenote", "bench", "--help")
