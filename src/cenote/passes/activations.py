"""Activations in the pieces that exporters write: GELU by erf or tanh, and x times a sigmoid of a multiple of x.

Whatever the order of the factors and sums, the pieces compute a polynomial in x and t, where t is the Erf, Tanh or
Sigmoid; x is some value that t's argument is made of:

    GELU             t = erf(0.7071 x)                      0.5 x + 0.5 x t
    GELU by tanh     t = tanh(0.7979 x + 0.03568 x^3)       0.5 x + 0.5 x t
    Swish            t = sigmoid(a x)                       x t

The pieces stay in the graph where other nodes read them, and are dead otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from cenote.core.types import is_float
from cenote.graph.graph import Graph, Node
from cenote.ops.base import Op
from cenote.ops.elementwise.activation import Gelu, Sigmoid, Swish, Tanh
from cenote.ops.elementwise.binary import Add, Div, Mul, Pow, Sub
from cenote.ops.elementwise.unary import Erf

Polynomial = dict[tuple[int, int], float]  # factors of x^i t^j
_MOST_TERMS = 8
_MOST_DEGREE = 4
_DEEPEST = 8  # steps from x to the argument, and from t to the result
_CLOSE = 2e-3  # relative: exporters write constants with few digits
_ROOT = math.sqrt(2 / math.pi)
_ARGUMENTS: dict[type[Op], tuple[tuple[Polynomial, Op], ...]] = {
    Erf: (({(1, 0): math.sqrt(0.5)}, Gelu()),),
    Tanh: (({(1, 0): _ROOT, (3, 0): _ROOT * 0.044715}, Gelu("tanh")),),
}
_HALVES: Polynomial = {(1, 0): 0.5, (1, 1): 0.5}
_PRODUCT: Polynomial = {(1, 1): 1.0}


def recognize_activations(graph: Graph) -> Graph:
    """Put the activation in the place of the last node of its pieces."""
    search, replacements = _Search(graph), dict[int, Node]()
    for node in graph.nodes:
        if not isinstance(node.op, Erf | Tanh | Sigmoid) or not _is_float(graph, node.outputs[0]):
            continue
        for position, activation in search.activations(node):
            replacements[position] = activation
    if not replacements:
        return graph
    return graph.replace(nodes=tuple(replacements.get(index, node) for index, node in enumerate(graph.nodes)))


def _is_float(graph: Graph, name: str) -> bool:
    kind = graph.type_of(name)
    return kind is not None and is_float(kind.dtype)


class _Search:
    def __init__(self, graph: Graph) -> None:
        self.graph, self.producers, self.users = graph, graph.producers(), graph.users()
        self.position = {
            name: index for index, node in enumerate(graph.nodes) for name in node.outputs if name
        }

    def activations(self, bounded: Node) -> Iterator[tuple[int, Node]]:
        """Yield the place of the result of each activation whose Erf, Tanh or Sigmoid this is, and the activation."""
        for x in self._below(bounded.inputs[0]):
            argument = self._polynomial(bounded.inputs[0], {x: (1, 0)}, _DEEPEST)
            op = self._activation(bounded.op, argument)
            if op is None:
                continue
            wanted = _PRODUCT if isinstance(bounded.op, Sigmoid) else _HALVES
            for last in self._above(bounded.outputs[0], 4):
                if self.graph.type_of(last.outputs[0]) != self.graph.type_of(x):  # a constant of more axes
                    continue
                if _alike(
                    self._polynomial(last.outputs[0], {x: (1, 0), bounded.outputs[0]: (0, 1)}, 4), wanted
                ):
                    yield self.position[last.outputs[0]], replace(last, op=op, inputs=(x,))
                    return

    def _activation(self, op: Op, argument: Polynomial | None) -> Op | None:
        if argument is None:
            return None
        if isinstance(op, Sigmoid):
            return Swish(argument[1, 0]) if set(argument) == {(1, 0)} else None
        return next(
            (activation for wanted, activation in _ARGUMENTS[type(op)] if _alike(argument, wanted)), None
        )

    def _below(self, name: str) -> Iterator[str]:
        """Yield values that a value may be a polynomial of, the nearest first."""
        seen, level = {name}, [name]
        for _ in range(_DEEPEST):
            yield from level
            following: list[str] = []
            for current in level:
                node = self.producers.get(current)
                if node is not None and isinstance(node.op, Add | Sub | Mul | Div | Pow):
                    following += [x for x in node.inputs if x not in seen and x not in self.graph.constants]
                    seen.update(node.inputs)
            level = following

    def _above(self, name: str, steps: int) -> Iterator[Node]:
        """Yield products and sums that a value goes into."""
        for user in self.users.get(name, ()):
            if isinstance(user.op, Add | Mul | Div) and steps:
                yield user
                yield from self._above(user.outputs[0], steps - 1)

    def _polynomial(self, name: str, atoms: Mapping[str, tuple[int, int]], depth: int) -> Polynomial | None:
        """Return the value as a polynomial of the atoms; None where it is none, or a long one."""
        if name in atoms:
            return {atoms[name]: 1.0}
        value = self.graph.constants.get(name)
        if value is not None:
            number = float(np.asarray(value, np.float64).reshape(())) if value.size == 1 else math.nan
            return {(0, 0): number} if math.isfinite(number) else None
        node = self.producers.get(name)
        if node is None or not depth or len(node.inputs) != 2:
            return None
        if not isinstance(node.op, Add | Sub | Mul | Div | Pow):
            return None
        a, b = (self._polynomial(x, atoms, depth - 1) for x in node.inputs)
        return None if a is None or b is None else _combined(node.op, a, b)


def _combined(op: Op, a: Polynomial, b: Polynomial) -> Polynomial | None:
    number = b.get((0, 0)) if set(b) == {(0, 0)} else None
    if isinstance(op, Add | Sub):
        sign = 1 if isinstance(op, Add) else -1
        return {term: a.get(term, 0.0) + sign * b.get(term, 0.0) for term in {*a, *b}}
    if isinstance(op, Div):
        return {term: factor / number for term, factor in a.items()} if number else None
    if isinstance(op, Pow):
        if number not in (2, 3):
            return None
        square = _product(a, a)
        return square if number == 2 or square is None else _product(square, a)
    return _product(a, b)


def _product(a: Polynomial, b: Polynomial) -> Polynomial | None:
    result: Polynomial = {}
    for (i, j), factor in a.items():
        for (m, n), other in b.items():
            result[i + m, j + n] = result.get((i + m, j + n), 0.0) + factor * other
    degree = max((i + j for i, j in result), default=0)
    return result if len(result) <= _MOST_TERMS and degree <= _MOST_DEGREE else None


def _alike(found: Polynomial | None, wanted: Polynomial) -> bool:
    """Whether two polynomials are the same except for the last digits of their factors."""
    if found is None:
        return False
    terms = {term for term, factor in found.items() if factor} | set(wanted)
    return all(
        abs(found.get(term, 0.0) - wanted.get(term, 0.0)) <= _CLOSE * abs(wanted.get(term, 0.0))
        for term in terms
    )
