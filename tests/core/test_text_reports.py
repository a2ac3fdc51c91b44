"""What an interactive session shows of the objects that users get: one screen at most, whatever is in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cenote
import cenote.functional as F
from cenote.core.text import Report

EMBEDDED = Path(cenote.__file__).parent / "data" / "fashion.onnx"
X = np.zeros((4, 1, 28, 28), np.float32)
SCREEN = 24 * 80


def model() -> cenote.Model:
    loaded = cenote.load(EMBEDDED, threads=1)
    loaded(X)
    return loaded


MADE: dict[str, Callable[[], Any]] = {
    "model": model,
    "plan": lambda: model().plan,
    "described": lambda: model().plan.describe(),
    "profile": lambda: model().profile({"picture": X}, seconds=0.05),
    "comparison": lambda: cenote.compare_profiles(*[model().profile({"picture": X}, seconds=0.05)] * 2),
    "verification": lambda: cenote.verify(EMBEDDED),
    "explanation": lambda: F.explain("max_pool2d", X, 3),
    "call": lambda: cenote.profile_call(F.max_pool2d, X, 3),
    "information": cenote.info,
    "options": cenote.LoadOptions,
    "input": lambda: model().inputs[0],
    "tiling": lambda: cenote.tiling.plan("maxpool", input=(1, 64, 56, 56), kernel=3),
    "network": lambda: cenote.tiling.plan_model(EMBEDDED, shapes={"picture": (1, 1, 28, 28)}),
    "hardware": lambda: cenote.tiling.hardware_of("npu"),
}


@pytest.mark.parametrize("name", MADE)
def test_it_fits_on_a_screen(name: str) -> None:
    shown = repr(MADE[name]())
    assert 0 < len(shown) <= SCREEN
    assert shown.count("\n") < 24


def test_a_report_shows_its_first_line() -> None:
    class Told(Report):
        def __str__(self) -> str:
            return "what it is\nand more\n" * 1000

    assert repr(Told()) == "<Told: what it is; print it for all>"
    assert repr(cenote.verify(EMBEDDED)).startswith("<Verification: ")
