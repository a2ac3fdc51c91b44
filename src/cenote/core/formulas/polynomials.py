"""Polynomials with whole coefficients over numbered unknowns u0, u1 …, in a form in which equal ones are equal."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Protocol

_REMEMBERED = 4096  # cached results: a model multiplies the same few extents again and again
Monomial = tuple[int, ...]  # numbers of unknowns, rising; () for the constant
Terms = tuple[tuple[Monomial, int], ...]


@lru_cache(_REMEMBERED)
def shown(terms: Terms) -> str:
    """Return the Python expression of a polynomial, in parentheses unless it is one name or number."""
    text = "+".join(_term(monomial, factor) for monomial, factor in terms).replace("+-", "-") or "0"
    return text if text.isalnum() else f"({text})"


def _term(monomial: Monomial, factor: int) -> str:
    names = "*".join(f"u{unknown}" for unknown in monomial)
    if not names:
        return str(factor)
    return {1: names, -1: f"-{names}"}.get(factor, f"{factor}*{names}")


class Values(Protocol):
    """Protocol of the values of unknowns, by their numbers."""

    def __getitem__(self, unknown: int, /) -> int: ...


def valued(terms: Terms, unknowns: Values) -> int:
    """Evaluate the polynomial for these values of the unknowns."""
    return sum(factor * math.prod(unknowns[unknown] for unknown in monomial) for monomial, factor in terms)


@lru_cache(_REMEMBERED)
def plus(a: Terms, b: Terms, sign: int) -> Terms:
    total = dict(a)
    for monomial, factor in b:
        total[monomial] = total.get(monomial, 0) + sign * factor
    return tuple(sorted((m, c) for m, c in total.items() if c))


@lru_cache(_REMEMBERED)
def times(a: Terms, b: Terms) -> Terms:
    total: dict[Monomial, int] = {}
    for left, c in a:
        for right, d in b:
            monomial = tuple(sorted(left + right))
            total[monomial] = total.get(monomial, 0) + c * d
    return tuple(sorted((m, c) for m, c in total.items() if c))


def exact(a: Terms, b: Terms) -> Terms | None:
    """Divide a by b; None unless b is one term that divides every term of a."""
    if len(b) != 1:
        return None
    (divisor, by), quotient = b[0], []
    for monomial, factor in a:
        left = list(monomial)
        for unknown in divisor:
            if unknown not in left:
                return None
            left.remove(unknown)
        if factor % by:
            return None
        quotient.append((tuple(left), factor // by))
    return tuple(sorted(quotient))
