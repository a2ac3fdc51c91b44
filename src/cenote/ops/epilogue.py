"""Epilogues: operations that passes fold into an operator, applied to its values before they are stored."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from cenote.core.deferred import dataclass
from cenote.kernels.elementwise.activations import Activation
from cenote.ops.base import Op


class Fusible(Op):
    """Base of operators that other operators can be folded into: y = pool(activation(value + residual)).

    Subclasses have `activation` as a field, and `residual` (a tensor of the output's shape is the last operand) and
    `pool` (2x2 maxima, two apart) where they know them.
    """

    activation: Activation
    residual: bool = False
    pool: bool = False

    @property
    def is_bare(self) -> bool:
        """Whether nothing is folded in."""
        return self.activation.is_identity and not self.residual and not self.pool

    def activated(self, activation: Activation) -> Self:
        """The operator with this activation."""
        return replace(self, activation=activation)  # type: ignore[type-var]  # every operator is a dataclass


@dataclass(frozen=True)
class Epilogue:
    """Epilogue of a lowering: inputs that are bias and residual, the activation, a 2x2 pool. `exact`: the sums before
    are of shorter chains."""

    bias: int | None
    residual: int | None
    activation: Activation
    pool: bool = False
    exact: bool = False
