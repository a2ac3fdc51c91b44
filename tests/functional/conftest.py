"""PyTorch with one thread: its samples are tiny, and its waiting threads would slow the suite several times."""

from __future__ import annotations

import os
import sys

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when PyTorch is first imported


@pytest.fixture(autouse=True)
def _one_torch_thread() -> None:
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
