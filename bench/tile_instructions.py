"""Instructions of the innermost loops of kernels on tile registers (AMX), counted in what LLVM makes of them, and the
roofs that follow: nothing was timed.

    python -m bench.tile_instructions

A column each: products of tiles and loads of tiles in a pass of the loop; vector instructions, which would be spills;
all others; multiply-adds of the layer that a pass makes, and instructions for a thousand of them; bytes loaded for a
thousand; multiply-adds a cycle where products alone count (16 cycles each); billions of multiply-adds a second by the
cost model's times of a product and of a load from the level 2 cache, and which of both is the slower.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cenote.codegen import jit
from cenote.core.target import LEVELS, Target, choose_target
from cenote.kernels.base import KernelSpec
from cenote.kernels.bfloat.tiles import TilesBfloatSpec
from cenote.kernels.cost_model import TILE_DOT, TILE_LOADS
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.parts.product import ConvPartsSpec
from cenote.kernels.quantized.product_tiles import ProductQuantizedTilesSpec
from cenote.kernels.quantized.tiles import ConvQuantizedTilesSpec

CYCLES = 16  # of a product of tiles
TILE_BYTES = 1024
# Multiply-adds of one product of tiles, 16 rows by 16 columns: of 64 bytes, or of 32 numbers of 16 bits.
OF_BYTES, OF_HALVES = 16 * 16 * 64, 16 * 16 * 32


@dataclass(frozen=True)
class Loop:
    """A pass of an innermost loop. `macs`: multiply-adds of the layer, of which float16's parts take three products."""

    name: str
    products: int
    loads: int
    vectors: int
    others: int
    macs: int

    @property
    def instructions(self) -> int:
        return self.products + self.loads + self.vectors + self.others

    @property
    def seconds(self) -> tuple[float, float]:
        """Of the products, and of the loads from the level 2 cache."""
        return self.products * TILE_DOT, self.loads * TILE_LOADS[0]


def loops() -> Iterator[Loop]:
    """Yield the innermost loop of each kernel, compiled for AVX-512 with AMX on whatever x86-64 this is."""
    target = choose_target(LEVELS["x86-64-v4"], "x86_64-unknown-linux-gnu", "avx512").of_level()
    relu, u8 = Activation("relu"), np.dtype(np.uint8)
    bfloat = TilesBfloatSpec(
        tiles="amx-bf16", narrow=False, ragged=False, part=False, clip=False, rows=False, residual=False,
        activation=relu, ahead=0, kept=("x", "y"), way="",
    )  # fmt: skip
    convolution = ConvQuantizedTilesSpec("amx-int8", False, 64, u8, False)
    product = ProductQuantizedTilesSpec("amx-int8", False, False, u8, 1, False)
    parts = ConvPartsSpec(target.lanes(), False, relu, "amx-fp16")
    yield _loop("convolutions of bytes", convolution, target, OF_BYTES)
    yield _loop("products of bytes", product, target, OF_BYTES)
    yield _loop("bfloat16", bfloat, target, OF_HALVES)
    yield _loop("float32 by float16 parts", parts, target, OF_HALVES, 3)


def _loop(name: str, spec: KernelSpec, target: Target, macs: int, products_each: int = 1) -> Loop:
    """Count the lines of the longest block without a jump in which tiles are multiplied."""
    text = jit.assembly(spec.emit(target))
    blocks = [
        [line.split("#")[0] for line in block.splitlines() if re.match(r"\t[a-z]", line)]
        for block in re.split(r"^\.L\w+:.*$", text, flags=re.MULTILINE)
    ]
    lines = max(blocks, key=lambda block: sum("\ttdp" in line for line in block))
    products, loads = (sum(f"\t{kind}" in line for line in lines) for kind in ("tdp", "tileload"))
    vectors = sum(bool(re.search(r"[xyz]mm\d", line)) and "%tmm" not in line for line in lines)
    others = len(lines) - products - loads - vectors
    return Loop(name, products, loads, vectors, others, products * macs // products_each)


def main() -> None:
    print(
        "| innermost loop | products | loads | vectors | others | multiply-adds | instructions per 1,000 "
        "| bytes per 1,000 | a cycle, by products | 10^9/s, by the cost model | bound by |"
    )
    print("|" + "---|" * 11)
    for loop in loops():
        by_products, by_loads = loop.seconds
        bound = "loads" if by_loads > by_products else "products"
        counts = f"{loop.products} | {loop.loads} | {loop.vectors} | {loop.others} | {loop.macs:,}"
        shares = (
            f"{1e3 * loop.instructions / loop.macs:.2f} | {1e3 * loop.loads * TILE_BYTES / loop.macs:.0f}"
        )
        peak = f"{loop.macs / (CYCLES * loop.products):.0f} | {loop.macs / max(loop.seconds) * 1e-9:,.0f}"
        print(f"| {loop.name} | {counts} | {shares} | {peak} | {bound} |")


if __name__ == "__main__":
    main()
