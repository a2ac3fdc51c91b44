"""Sums of products of bytes in every way: what this machine cannot run is compiled and looked at."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest

from cenote.codegen import jit
from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.dots import Dots, arranged, weight_type
from cenote.codegen.values import I32, U8
from cenote.core.target import PAIRS, Target
from tests.targets import TARGETS


class OneDot:
    """Source of a kernel that adds four products in each lane."""

    def __init__(self, way: str, flipped: bool) -> None:
        self.way, self.flipped = way, flipped
        self.symbol = f"test_dots_{way}_{flipped}"

    def emit(self, target: Target) -> Kernel:
        lanes = target.lanes()
        pointers = (("x", U8), ("w", weight_type(self.way)), ("y", I32))
        k = Kernel(f"{self.symbol}", target, [Parameter(name, kind, pointer=True) for name, kind in pointers])
        dots = Dots(k, self.way, lanes)
        x, w, y = (k.pointer(name) for name, _ in pointers)
        y.store(dots.added(y.load(0, lanes), dots.spread(x, self.flipped), dots.weights(w)))
        return k


@pytest.mark.parametrize("flipped", [False, True])
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_sums_are_exact(target: Target, flipped: bool) -> None:
    random, lanes = np.random.default_rng(4), target.lanes()
    for way in dict.fromkeys((target.dots, PAIRS)):
        source = OneDot(way, flipped)
        address = jit.addresses([source], target)[source.symbol]
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(
            address
        )
        for round_ in range(50):
            x = random.integers(0, 256, 4).astype(np.uint8)
            w = random.integers(-128, 128, (lanes, 4)).astype(np.int8)
            if round_ == 0:
                x[:], w[:] = 255, -128
            y = random.integers(-(2**20), 2**20, lanes).astype(np.int32)
            numbers = (x ^ 128 if flipped else x).astype(np.int64)
            want = y + w.astype(np.int64) @ numbers
            stored = arranged(w, way)
            words = (ctypes.c_int64 * 3)(x.ctypes.data, stored.ctypes.data, y.ctypes.data)
            function(ctypes.addressof(words), 0, 1, None)
            np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize(
    ("name", "way", "instruction"),
    [("avx512", "avx512vnni", "vpdpbusd"), ("avx2", "avxvnni", "{vex}"), ("avx2", PAIRS, "vpmaddwd")],
)
def test_extensions_become_their_instruction(name: str, way: str, instruction: str) -> None:
    target = next((each for each in TARGETS if each.name == name), None)
    if target is None:
        pytest.skip(f"LLVM here compiles for {jit.host_target().name} only")
    text = jit.assembly(OneDot(way, False).emit(replace(target, dots=way)))
    assert instruction in text, text
