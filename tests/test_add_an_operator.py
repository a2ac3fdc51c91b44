"""docs/add_an_operator.md, done: its files are written into a copy of the source, its programs run there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.executed_pages import blocks, follow, python, replace

PAGE = "add_an_operator.md"


def test_a_stranger_can_add_an_operator(checkout: Path) -> None:
    (by_reference,) = follow(checkout, PAGE)
    by_kernel = python(checkout, "-c", dict(blocks(PAGE))["run"])
    assert by_reference.startswith("[-2.  0.  0.  0.  2.]")
    assert "host: soft_threshold has no kernel" in by_reference
    assert by_kernel.startswith("[-2.  0.  0.  0.  2.]")
    assert "SoftThresholdSpec__lanes_" in by_kernel
    assert "0 on the host" in by_kernel

    tests = python(checkout, "-m", "pytest", "tests/contract/test_lowerings.py", "-k", "soft_threshold")
    passed = re.search(r"(\d+) passed", tests)
    assert passed, tests
    assert int(passed[1]) >= 2, tests
    assert "failed" not in tests

    # The document promises that tests come by themselves: a fault in the kernel must fail them.
    kernel = checkout / "src" / "cenote" / "kernels" / "elementwise" / "soft_threshold.py"
    replace(kernel, "value + threshold", "value - threshold")
    with pytest.raises(AssertionError, match="of the largest output"):
        python(checkout, "-m", "pytest", "tests/contract/test_lowerings.py", "-k", "soft_threshold")
