"""Instructions of products of parts for a processor with AMX-FP16, compiled on any."""

from __future__ import annotations

import re

import pytest

from cenote.codegen import jit
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.parts.product import ConvPartsSpec
from tests.targets import anywhere


def test_the_innermost_loop_has_twelve_products_and_eight_loads() -> None:
    """And no vector instruction, as spills would be; what else there is are addresses."""
    if not jit.host_target().triple.startswith("x86"):
        pytest.skip("LLVM here does not compile for x86-64")
    target = anywhere("avx512")
    spec = ConvPartsSpec(target.lanes(), True, Activation("relu"), "amx-fp16")
    text = jit.assembly(spec.emit(target))
    assert [text.count(each) for each in ("\tldtilecfg", "\ttilerelease", "\ttilestored")] == [1, 1, 4]
    loops = [loop for loop in re.split(r"^\.L\w+:.*$", text, flags=re.MULTILINE) if "tdpfp16ps" in loop]
    assert len(loops) == 1
    (loop,) = loops
    assert (loop.count("tdpfp16ps"), loop.count("tileloadd")) == (12, 8)
    assert not re.search(r"[xyz]mm\d", re.sub(r"tmm\d", "", loop))
    assert len(loop.strip().splitlines()) < 45
