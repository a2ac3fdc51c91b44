"""The generator's self-test: no innermost loop of a hot kernel may keep vectors in stack slots.

One spilled register in the inner loop costs 20-70 % of a kernel's speed and shows nowhere else.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from cenote.codegen import jit
from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.dots import WIDE
from cenote.codegen.values import F32
from cenote.core.target import PAIRS, Target
from cenote.kernels.base import KernelSpec
from cenote.kernels.conv.depthwise import DepthwiseSpec, widest_group, widest_row
from cenote.kernels.conv.direct import ConvDirectSpec
from cenote.kernels.conv.tile_widths import widest
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.product.attention import AttentionSpec, most_queries
from cenote.kernels.product.strassen import StrassenSpec
from cenote.kernels.product.tiles import ProductSpec
from cenote.kernels.quantized.conv import ConvQuantizedSpec
from cenote.kernels.winograd.kernel import WinogradSpec
from cenote.kernels.winograd.quantized import WinogradQuantizedSpec
from tests.targets import anywhere, runnable

pytestmark = pytest.mark.skipif(
    not jit.host_target().triple.startswith("x86_64"), reason="reads x86-64 assembly only"
)

LABEL = re.compile(r"^(\.LBB\w+|[\w\".]+):")
JUMP = re.compile(r"^\s+(j\w+)\s+(\.LBB\w+)")
PRODUCT = re.compile("vfmadd|vpmaddwd|vpdp")
SPILL = re.compile(r"%[xyz]mm\d+.*\(%rsp\)|\(%rsp\).*%[xyz]mm\d+")  # %rbp is an ordinary register here


def blocks_of(text: str) -> tuple[list[list[str]], dict[int, set[int]]]:
    """Basic blocks of the assembly, and which blocks jump or fall into which (predecessors)."""
    blocks: list[list[str]] = [[]]
    names: dict[str, int] = {}
    for line in text.splitlines():
        label = LABEL.match(line)
        if label:
            blocks.append([])
            names[label.group(1)] = len(blocks) - 1
        blocks[-1].append(line)
        if JUMP.match(line) or line.strip().startswith("ret"):
            blocks.append([])
    predecessors: dict[int, set[int]] = {index: set() for index in range(len(blocks))}
    for index, lines in enumerate(blocks):
        last = lines[-1] if lines else ""
        jump = JUMP.match(last)
        if jump:
            predecessors[names[jump.group(2)]].add(index)
        if index + 1 < len(blocks) and not last.strip().startswith(("ret", "jmp")):
            predecessors[index + 1].add(index)
    return blocks, predecessors


def loop_body(head: int, tail: int, predecessors: dict[int, set[int]]) -> frozenset[int]:
    """Blocks from which the jump tail -> head is reached without passing the head."""
    body, pending = {head}, [tail]
    while pending:
        block = pending.pop()
        if block not in body:
            body.add(block)
            pending += predecessors[block]
    return frozenset(body)


def spills(text: str, least: int = 0) -> list[str]:
    """Instructions that move vectors to or from the stack in innermost loops of at least so many multiply-adds."""
    blocks, predecessors = blocks_of(text)
    order: dict[int, set[int]] = dominators(predecessors)
    loops = [
        loop_body(head, tail, predecessors)
        for head, tails in predecessors.items()
        for tail in tails
        if head in order.get(tail, set())
    ]
    innermost = [loop for loop in loops if not any(other < loop for other in loops)]
    bodies = [[line for block in loop for line in blocks[block]] for loop in innermost]
    hot = [body for body in bodies if sum(map(bool, map(PRODUCT.search, body))) >= least]
    assert hot, "no such loop in the assembly"
    return [line for body in hot for line in body if SPILL.search(line)]


def dominators(predecessors: dict[int, set[int]]) -> dict[int, set[int]]:
    """For each block, those on every way to it: blocks nothing leads to are entries."""
    every = set(predecessors)
    found = {block: set(every) if before else {block} for block, before in predecessors.items()}
    changed = True
    while changed:
        changed = False
        for block, before in predecessors.items():
            if before:
                new = set.intersection(*(found[b] for b in before)) | {block}
                changed |= new != found[block]
                found[block] = new
    return found


def hot_specs(target: Target) -> list[KernelSpec]:
    relu, clip = Activation("relu"), Activation("clip", 0.0, 6.0)
    tiles = [
        (blocks, widest(blocks, target.registers))
        for blocks in ((2, 3, 4) if target.registers > 16 else (1, 2, 3))
    ]
    tiles += [(blocks, widest(blocks, target.registers)) for blocks in (4, 8)]  # of few pixels
    lanes = target.lanes()
    specs: list[KernelSpec] = [
        ConvDirectSpec(
            blocks,
            width,
            unroll,
            ragged=unroll == lanes,
            flat_x=flat,
            flat_y=flat,
            residual=flat,
            activation=relu,
        )
        for blocks, width in tiles
        for unroll, flat in ((lanes, False), (lanes, True), (7, False))
    ]
    specs += [
        DepthwiseSpec(widest_row(taps, target.registers), taps, stride, False, clip)
        for taps in (1, 3, 5, 7)
        for stride in (1, 2)
    ]
    specs.append(DepthwiseSpec(widest_row(7, target.registers), 7, 1, False, clip, long=True))
    specs += [
        DepthwiseSpec(widest_group(target.registers, group), 1, stride, False, clip, group, group)
        for group in (2, 4, 8)
        if group < lanes
        for stride in (1, 2)
    ]
    specs += [
        DepthwiseSpec(
            widest_row(taps, target.registers, filters), taps, stride, False, clip, 1, filters, filters // 3
        )
        for taps in (1, 3, 5, 7)
        for stride in (1, 2)
        for filters in (2, 3)
    ]
    specs.append(DepthwiseSpec(widest_group(target.registers, 2), 1, 1, False, clip, 2, 6, 1))
    for sizes in ((4, 3, 4, 3), (2, 3, 2, 3), (2, 5, 2, 5), (1, 1, 2, 7)):
        specs.append(WinogradSpec("fused", *sizes, 2, False, False, relu))
    for m in (4, 2):
        specs.append(WinogradSpec("fused", m, 3, m, 3, 2, False, False, relu, pool=True))
    specs.append(WinogradSpec("product", 4, 3, 4, 3, 3, False, True, relu))
    most = 4 if target.registers > 16 else 2
    width = widest(most, target.registers)
    specs += [
        ProductSpec(most, True, width, 1, a, in_place, b, 1, True, False, relu)
        for a, in_place, b in (("rows", True, "rows"), ("columns", True, "direct"), ("rows", False, "packed"))
    ]
    specs += [
        StrassenSpec(blocks, widest(blocks, target.registers), flat, flat, True, relu)
        for blocks in ((2, 3, 4) if target.registers > 16 else (2,))
        for flat in (False, True)
    ]
    specs += [
        AttentionSpec(
            most,
            True,
            most,
            True,
            most_queries(most, clip, target.registers),
            1,
            mask,
            True,
            False,
            True,
            cleared,
            clip,
        )
        for mask, cleared, clip in (("", False, False), ("f32", False, True), ("f32", True, True))
    ]
    return specs


def fused_targets() -> list[Target]:
    """Those with fused multiply-add (without, a product needs a register of its own), whether or not they run here."""
    return [runnable(name) or anywhere(name) for name in ("avx512", "avx2")]


@pytest.mark.parametrize(
    ("target", "spec"),
    [pytest.param(t, spec, id=f"{t.name}-{spec.symbol}") for t in fused_targets() for spec in hot_specs(t)],
)
def test_inner_loops_keep_vectors_in_registers(target: Target, spec: KernelSpec) -> None:
    # Winograd's and Strassen's sums, and the transpositions and powers of attention, may spill: they are a few percent.
    least = 40 if isinstance(spec, WinogradSpec | StrassenSpec | AttentionSpec) else 0
    text = jit.assembly(spec.emit(target))
    found = spills(text, least)
    assert not found, f"{len(found)} vector spills, first: {found[0].strip()}"
    products = [line for line in text.splitlines() if "vfmadd" in line]
    narrow = [line for line in products if {512: "%zmm", 256: "%ymm"}[8 * target.vector_bytes] not in line]
    assert not narrow, (
        f"{len(narrow)} of {len(products)} products in narrower vectors, first: {narrow[0].strip()}"
    )


@pytest.mark.parametrize(
    ("name", "dots", "most"), [("avx2", PAIRS, 8), ("avx512", PAIRS, 0), ("avx512", "avx512vnni", 0)]
)
def test_sums_of_bytes_are_chains(name: str, dots: str, most: int) -> None:
    """Trees of them would spill 72 vectors on AVX2."""
    target = runnable(name) or anywhere(name)
    spec = WinogradQuantizedSpec("fused", 4, 3, 4, 3, 2, False, False, Activation(), dots=dots)
    text = jit.assembly(spec.emit(target))
    used = {word for word in ("vpmaddwd", "vpdpwssd") if word in text}
    assert used == {"vpmaddwd" if dots == PAIRS else "vpdpwssd"}
    assert len(spills(text, 30)) <= most


def test_sums_of_16_bit_numbers_stay_in_registers() -> None:
    target = runnable("avx2") or anywhere("avx2")
    for blocks in (1, 2):
        width = widest(blocks, target.registers)
        spec = ConvQuantizedSpec(WIDE, False, np.dtype(np.uint8), blocks, width, 2, True, True)
        assert not spills(jit.assembly(spec.emit(target)), 4)


def test_spills_are_found() -> None:
    host = jit.host_target()
    kernel = Kernel("spilling", host, [Parameter("x", F32, pointer=True)])
    x, lanes = kernel.pointer("x"), host.lanes()
    sums = [kernel.variable(x.load(i * lanes, lanes)) for i in range(host.registers + 8)]
    for i in kernel.range(kernel.begin, kernel.end):
        for total in sums:
            total.value = total.value * total.value + x.broadcast(i, lanes)
    for i, total in enumerate(sums):
        x.store(total.value, i * lanes)
    assert spills(jit.assembly(kernel))
