"""PyTorch with one thread: its samples are tiny, and its waiting threads would slow the suite several times."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(autouse=True)
def _one_torch_thread() -> None:
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
