"""Pooling whose windows have many rows: the block scheme of van Herk (1992) and Gil & Werman (1993), down the rows.

The rows of the (padded) input are cut into blocks as high as the window. A window then is the end of one block and
the beginning of the next: a suffix joined to a prefix, three combinations per row however high the window is. With
sums in place of maxima the same scheme gives averages without a running sum: nothing is ever subtracted.

    for item in items:                              # a strip of columns of one block of one plane
        for row in the block, upwards:              # suffixes, into scratch rows
            suffix[row] = combine(x[row], suffix[row + 1])
        for row in the next block, downwards:       # prefix, in one scratch row
            prefix = combine(prefix, x[row])
            at every stride-th row: scratch = combine(suffix[row + 1], prefix); across: `pool_across`

With dilated rows, or with more planes than one, `x[row]` is … see `_source`.
"""

from __future__ import annotations

from dataclasses import dataclass

from cenote.codegen.builder import Kernel
from cenote.core.target import Target
from cenote.kernels import pool_across
from cenote.kernels.pool_base import Piece, PoolSpec, new_kernel


@dataclass(frozen=True)
class PoolBlocks(PoolSpec):
    planes: int

    def emit(self, target: Target) -> Kernel:
        raise NotImplementedError

    @property
    def scratch_rows(self) -> int:
        return pool_across.FIRST_ROW + pool_across.scratch_rows(self) + 1
