"""Tables of bytes beside NumPy's indexing: every byte, in every way in which this machine looks bytes up."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from cenote.codegen import jit
from cenote.core.target import LOADS, SHUFFLE, Target
from cenote.kernels.elementwise.byte_table import ByteTableSpec
from cenote.ops.quantization.byte_table import ByteTable
from tests.harness import lowerings_of, run_lowering
from tests.targets import TARGETS

WAYS = [
    replace(target, lookups=way)
    for target in TARGETS
    for way in dict.fromkeys((target.lookups, *((SHUFFLE,) if target.has_fma else ()), LOADS))
    if way != SHUFFLE or target.triple.startswith("x86")
]
named = pytest.mark.parametrize("target", WAYS, ids=lambda target: f"{target.name}-{target.lookups}")
RANDOM = np.random.default_rng(7)


@named
@pytest.mark.parametrize("shape", [(256,), (1, 21, 9, 13), (3, 16, 5), (2, 3, 70000)], ids=str)
def test_every_byte_has_its_entry(target: Target, shape: tuple[int, ...]) -> None:
    """Rows shorter and longer than vectors and pieces, plain and blocked, whole and item by item."""
    x = np.resize(RANDOM.permutation(256), shape).astype(np.uint8)
    for table in (
        np.arange(255, -1, -1).astype(np.uint8),
        RANDOM.permutation(256).astype(np.uint8).view(np.int8),
    ):
        for data in (x, x.view(np.int8)):
            for index, lowering in enumerate(lowerings_of(ByteTable(), (data, table), target, True)):
                (y,) = run_lowering(ByteTable(), lowering, (data, table), target, chunk=index % 2, junk=0x5A)
                np.testing.assert_array_equal(y, table[x], err_msg=f"{lowering.name} {data.dtype}")


@pytest.mark.parametrize(
    ("name", "way", "instruction"), [("avx512", "avx512vbmi", "vperm[it]2b"), ("avx2", SHUFFLE, "vpshufb")]
)
def test_ways_become_their_instruction(name: str, way: str, instruction: str) -> None:
    target = next((each for each in TARGETS if each.name == name), None)
    if target is None:
        pytest.skip(f"LLVM here compiles for {jit.host_target().name} only")
    assert re.search(instruction, jit.assembly(ByteTableSpec(way, 1).emit(target)))
