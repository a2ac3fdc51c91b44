"""Native ways to compute matrix products."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from cenote.core.target import Target
from cenote.core.types import TensorType
from cenote.ops.base import Lowering

if TYPE_CHECKING:
    from cenote.ops.gemm import Gemm


def gemm_lowerings(
    op: Gemm, sizes: tuple[int, int, int], inputs: Sequence[TensorType | None], target: Target
) -> Iterator[Lowering]:
    """Candidates for alpha A' B' + beta C in float32; `sizes` are M, N, K."""
    return iter(())


def matmul_lowerings(
    inputs: Sequence[TensorType | None], y: TensorType, target: Target
) -> Iterator[Lowering]:
    """Candidates for a batched product in float32."""
    return iter(())
