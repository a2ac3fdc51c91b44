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


@lru_cache(_REMEMBERED)
def exact(a: Terms, b: Terms) -> Terms | None:
    """Divide a by b as polynomials; None where that leaves a remainder."""
    left, quotient = dict(a), list[tuple[Monomial, int]]()
    first, by = max(b, key=_order)
    while left:
        monomial, factor = max(left.items(), key=_order)
        part = _without(monomial, first)
        if part is None or factor % by:
            return None
        quotient.append((part, factor // by))
        for other, multiple in b:
            product = tuple(sorted(part + other))
            left[product] = left.get(product, 0) - multiple * (factor // by)
            if not left[product]:
                del left[product]
    return tuple(sorted(quotient))


def _order(term: tuple[Monomial, int]) -> tuple[int, Monomial]:
    """Return a key that orders terms alike when all are multiplied by the same monomial."""
    return len(term[0]), term[0]


def _without(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    """Divide a monomial by another; None where it does not divide it."""
    left = list(monomial)
    for unknown in divisor:
        if unknown not in left:
            return None
        left.remove(unknown)
    return tuple(left)
