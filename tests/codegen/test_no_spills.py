"""The generator's self-test: no innermost loop of a hot kernel may keep vectors in stack slots.

One spilled register in the inner loop costs 20-70 % of a kernel's speed and shows nowhere else.
"""

from __future__ import annotations

import re

import pytest

from cenote.codegen import jit
from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32
from cenote.core.target import Target
from cenote.kernels.base import KernelSpec
from cenote.kernels.conv_direct import ConvDirectSpec, widest
from cenote.kernels.depthwise import DepthwiseSpec, widest_row
from cenote.kernels.epilogue import Activation

LABEL = re.compile(r"^(\.LBB\w+):")
JUMP = re.compile(r"^\s+j\w+\s+(\.LBB\w+)")
SPILL = re.compile(r"%[xyz]mm\d+.*\(%r[sb]p\)|\(%r[sb]p\).*%[xyz]mm\d+")


def spills(text: str) -> list[str]:
    """Instructions of innermost loops that move vectors to or from the stack."""
    lines = text.splitlines()
    labels = {match.group(1): index for index, line in enumerate(lines) if (match := LABEL.match(line))}
    ends: dict[int, int] = {}  # of a loop, by its first line: all jumps back to one label are one loop
    for index, line in enumerate(lines):
        jump = JUMP.match(line)
        if jump and labels.get(jump.group(1), index + 1) <= index:
            ends[labels[jump.group(1)]] = index
    loops = set(ends.items())
    innermost = [a for a in loops if not any(a != b and a[0] <= b[0] and b[1] <= a[1] for b in loops)]
    assert innermost, "no loop found in the assembly"
    return [lines[i] for begin, end in innermost for i in range(begin, end + 1) if SPILL.search(lines[i])]


def hot_specs(target: Target) -> list[KernelSpec]:
    relu, clip = Activation("relu"), Activation("clip", 0.0, 6.0)
    tiles = [
        (blocks, widest(blocks, target.registers))
        for blocks in ((2, 3, 4) if target.registers > 16 else (1, 2, 3))
    ]
    tiles += [(8, 1), (4, 2)]
    lanes = target.lanes()
    specs: list[KernelSpec] = [
        ConvDirectSpec(
            blocks, width, unroll, ragged=unroll == lanes, flat=flat, residual=flat, activation=relu
        )
        for blocks, width in tiles
        for unroll, flat in ((lanes, False), (lanes, True), (7, False))
    ]
    specs += [
        DepthwiseSpec(widest_row(taps, target.registers), taps, stride, False, clip)
        for taps in (1, 3, 5, 7)
        for stride in (1, 2)
    ]
    return specs


AVX = jit.host_target()


@pytest.mark.skipif(
    not AVX.has_fma, reason="without fused multiply-add a product needs a register of its own"
)
@pytest.mark.parametrize("spec", hot_specs(AVX), ids=lambda spec: spec.symbol)
def test_inner_loops_keep_vectors_in_registers(spec: KernelSpec) -> None:
    found = spills(jit.assembly(spec.emit(AVX)))
    assert not found, f"{len(found)} vector spills, first: {found[0].strip()}"


@pytest.mark.skipif(AVX.triple.split("-")[0] != "x86_64", reason="reads x86 assembly")
def test_spills_are_found() -> None:
    kernel = Kernel("spilling", AVX, [Parameter("x", F32, pointer=True)])
    x, lanes = kernel.pointer("x"), AVX.lanes()
    sums = [kernel.variable(x.load(i * lanes, lanes)) for i in range(AVX.registers + 8)]
    for i in kernel.range(kernel.begin, kernel.end):
        for total in sums:
            total.value = total.value * total.value + x.broadcast(i, lanes)
    for i, total in enumerate(sums):
        x.store(total.value, i * lanes)
    assert spills(jit.assembly(kernel))
