"""Native ways to compute a convolution, best first in no particular order: the chooser compares their
`seconds`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cenote.core.target import Target
from cenote.core.types import TensorType
from cenote.kernels.conv_shape import ConvShape
from cenote.kernels.epilogue import Activation
from cenote.ops.base import Lowering


@dataclass(frozen=True)
class Fused:
    """What is computed with the convolution: which inputs are the bias and the residual, and the
    activation.
    """

    bias: int | None
    residual: int | None
    activation: Activation


def conv_lowerings(
    shape: ConvShape,
    inputs: Sequence[TensorType | None],
    fused: Fused,
    target: Target,
    *,
    exact: bool = False,
) -> Iterator[Lowering]:
    """Candidates for float32."""
    return iter(())


def transpose_lowerings(
    shape: ConvShape, inputs: Sequence[TensorType | None], fused: Fused, target: Target
) -> Iterator[Lowering]:
    """Candidates for a transposed convolution in float32."""
    return iter(())
