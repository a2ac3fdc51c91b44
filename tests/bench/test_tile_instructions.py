"""Innermost loops on tile registers, compiled for processors that have them, on any x86-64."""

from __future__ import annotations

import pytest

from bench.tile_instructions import loops
from cenote.codegen import jit


def test_loops_on_tiles_have_products_loads_and_addresses() -> None:
    """No vector instruction, as spills would be; loads and products as the cost model has them."""
    if not jit.host_target().triple.startswith("x86"):
        pytest.skip("LLVM here does not compile for x86-64")
    found = {loop.name: loop for loop in loops()}
    assert [(loop.products, loop.loads, loop.macs) for loop in found.values()] == [
        (4, 4, 65536),
        (4, 4, 65536),
        (4, 4, 32768),
        (12, 8, 32768),
    ]
    assert not any(loop.vectors for loop in found.values())
    assert all(loop.others <= 20 for loop in found.values())
