"""Einsum: sums of products of tensors, named axis by axis."""

from __future__ import annotations

import math
import string
from collections.abc import Iterable, Sequence

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, ShapeError
from cenote.core.formulas.certain import always_equal
from cenote.core.types import Array, TensorType
from cenote.ops.base import Arrays, Op, Sample, Types
from cenote.ops.checks import broadcast_shapes, read, require_kind, require_same_dtype
from cenote.ops.values import narrow, seeded, wide

ELLIPSIS = "..."


@dataclass(frozen=True)
class Einsum(Op):
    """Einstein's sum, as `numpy.einsum`: "bij,bjk->bik" is a batched matrix product.

    Letters name axes, equal letters run together, those missing on the right are summed; "..." stands for any
    further axes, which broadcast. Without "->" the result has the letters met once, in ASCII order.
    """

    equation: str

    name = "einsum"
    operands = ("inputs*",)
    from_onnx = {"Einsum": lambda node: read(Einsum, node, "equation")}

    def terms(self) -> tuple[list[str], str]:
        """The inputs' terms and the output's, checked for unknown signs."""
        equation = self.equation.replace(" ", "")
        left, arrow, right = equation.partition("->")
        terms = left.split(",")
        for term in (*terms, right):
            letters = term.replace(ELLIPSIS, "", 1)
            if not set(letters) <= set(string.ascii_letters):
                raise ArgumentError(
                    f"einsum: '{self.equation}' has signs other than letters, commas, '...' and '->'"
                )
        if arrow:
            return terms, right
        letters = "".join(terms).replace(ELLIPSIS, "")
        once = "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
        return terms, (ELLIPSIS if ELLIPSIS in left else "") + once

    def extents(self, inputs: Sequence[TensorType]) -> tuple[dict[str, int], tuple[int, ...]]:
        """Extent per letter, and those of the ellipsis."""
        terms, _ = self.terms()
        if len(terms) != len(inputs):
            raise ShapeError(f"einsum: '{self.equation}' names {len(terms)} inputs, got {len(inputs)}")
        sizes: dict[str, int] = {}
        rest: tuple[int, ...] = ()
        for term, x in zip(terms, inputs, strict=True):
            before, dots, after = term.partition(ELLIPSIS)
            free = x.rank - len(before) - len(after)
            if free < 0 or (free and not dots):
                raise ShapeError(f"einsum: term '{term}' of '{self.equation}' does not fit {x}")
            rest = broadcast_shapes(self.name, rest, x.shape[len(before) : len(before) + free])
            named = (*x.shape[: len(before)], *x.shape[len(before) + free :])
            for letter, extent in zip(before + after, named, strict=True):
                known = sizes.setdefault(letter, extent)
                if always_equal(known, 1):
                    sizes[letter] = extent
                # Open extents that are the same are not asked whether they are 1.
                if any(always_equal(*pair) for pair in ((known, 1), (extent, 1), (known, extent))):
                    continue
                if known != extent and 1 not in (known, extent):
                    raise ShapeError(
                        f"einsum: axis '{letter}' of '{self.equation}' is both {known} and {extent}"
                    )
                sizes[letter] = extent if known == 1 else known
        return sizes, rest

    def types(self, *inputs: TensorType) -> Types:
        dtype = require_same_dtype(self.name, *inputs)
        require_kind(self.name, inputs[0], "iuf", "inputs")
        sizes, rest = self.extents(inputs)
        _, result = self.terms()
        before, dots, after = result.partition(ELLIPSIS)
        letters = before + after
        if len(set(letters)) != len(letters) or not set(letters) <= set(sizes) or (rest and not dots):
            raise ArgumentError(
                f"einsum: the output of '{self.equation}' must name axes of the inputs once each"
            )
        shape = (*(sizes[a] for a in before), *(rest if dots else ()), *(sizes[a] for a in after))
        return (TensorType(dtype, shape),)

    def compute(self, *inputs: Array) -> Arrays:
        terms, result = self.terms()
        y = np.einsum(f"{','.join(terms)}->{result}", *map(wide, inputs))
        return (narrow(y, inputs[0].dtype),)

    def operations(self, outputs: Types, *inputs: TensorType) -> int:
        sizes, rest = self.extents(inputs)
        return math.prod([*sizes.values(), *rest]) * max(len(inputs), 1)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(Einsum("bij, bjk -> bik"), (seeded((2, 3, 4), 1), seeded((2, 4, 5), 2)))
        yield Sample(Einsum("ij->ji"), (seeded((3, 4), dtype=np.int32),))
        yield Sample(Einsum("ij->i"), (seeded((3, 4)),))
        yield Sample(Einsum("...ii->...i"), (seeded((2, 3, 3)),), "diagonal")
        yield Sample(Einsum("i,i"), (seeded((5,), 1), seeded((5,), 2)), "inner product")
        yield Sample(Einsum("...ij,...jk"), (seeded((2, 1, 3, 4), 1), seeded((3, 4, 2), 2)), "broadcast")
        yield Sample(Einsum("ab,cB->aBc"), (seeded((2, 3), 1), seeded((4, 5), 2)), "capital letters")
        yield Sample(Einsum("ij,jk->ik"), (seeded((2, 0), 1), seeded((0, 3), 2)), "empty sum")
        yield Sample(Einsum("->"), (seeded(()),), "scalar")
