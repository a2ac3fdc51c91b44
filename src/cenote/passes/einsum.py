"""Einstein sums written out as products and sums, which kernels and later passes support.

    %y = einsum(bnd,dhk->bhnk) %x, %w    ->    %p = matmul %x, %w~reshaped            [b, n, hk]
                                               %q = reshape %p                        [b, n, h, k]
                                               %y = transpose(order=(0,2,1,3)) %q

Operands are taken from left to right. Letters that are not needed any more are summed, or are the depth of a product;
those that both operands have and that are needed are its batch axes. Where nothing is summed, factors are broadcast.
Diagonals (a letter twice in a term) and types without products stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size
from cenote.core.types import Array, TensorType, is_float
from cenote.graph.graph import Graph, Node
from cenote.ops.base import Op
from cenote.ops.checks import int64s
from cenote.ops.elementwise.binary import Mul
from cenote.ops.linear.einsum import ELLIPSIS, Einsum
from cenote.ops.linear.matmul import INTEGERS, MatMul
from cenote.ops.movement.reshape import Identity, Reshape, Squeeze, Unsqueeze
from cenote.ops.movement.transpose import Transpose
from cenote.ops.reduction.reduce import ReduceSum
from cenote.passes.cleanup import unused

_REST = "0123456789"  # letters of the axes that "..." stands for, the last axis first


def write_out_einsums(graph: Graph) -> Graph:
    """Replace every Einsum that can be written by other operators."""
    if not any(isinstance(node.op, Einsum) for node in graph.nodes):
        return graph
    writer = _Writer(graph)
    for node in graph.nodes:
        terms = _terms(graph, node, node.op) if isinstance(node.op, Einsum) else None
        if terms is None:
            writer.nodes.append(node)
        else:
            writer.write(node, *terms)
    return writer.result()


@dataclass(frozen=True)
class _Term:
    """A value and the letters of its axes."""

    value: str
    letters: str


def _terms(graph: Graph, node: Node, op: Einsum) -> tuple[list[_Term], str] | None:
    """Return the operands and the result's letters, "..." written out; None for an einsum that stays as it is."""
    kinds = [graph.type_of(name) for name in node.inputs]
    first = kinds[0]
    if first is None or not (is_float(first.dtype) or first.dtype.name in INTEGERS):
        return None
    terms, result = op.terms()
    spelt, most = [], 0
    for term, name, kind in zip(terms, node.inputs, kinds, strict=True):
        assert kind is not None
        free = kind.rank - len(term.replace(ELLIPSIS, ""))
        most = max(most, free)
        letters = term.replace(ELLIPSIS, _REST[:free][::-1])
        if free > len(_REST) or len(set(letters)) < len(letters):
            return None
        spelt.append(_Term(name, letters))
    return spelt, result.replace(ELLIPSIS, _REST[:most][::-1])


class _Writer:
    def __init__(self, graph: Graph) -> None:
        self.graph, self.nodes = graph, list[Node]()
        self.constants: dict[str, Array] = dict(graph.constants)
        self.types = dict(graph.types)
        self.stem, self.label, self.count = "", "", 0
        self.taken = set(graph.values())
        self.made: set[str] = set()

    def result(self) -> Graph:
        values = self.graph.replace(nodes=tuple(self.nodes), constants=self.constants)
        return values.replace(types={name: self.type(name) for name in values.values()})

    def type(self, name: str) -> TensorType:
        return TensorType.known(self.constants[name]) if name in self.constants else self.types[name]

    def add(self, op: Op, *inputs: str) -> str:
        """Add one more node and return its value; a node of constants alone becomes a constant."""
        name = self.name()
        if all(each in self.constants for each in inputs) and inputs:
            self.constants[name] = op.reference(*(self.constants[each] for each in inputs))[0]
            return name
        self.types[name] = op.infer(*map(self.type, inputs))[0]
        self.nodes.append(Node(op, inputs, (name,), self.label))
        return name

    def name(self) -> str:
        """Return a name for one more value of the einsum at hand."""
        self.count += 1
        name = unused(f"{self.stem}~{self.count}", self.taken)
        self.made.add(name)
        return name

    def numbers(self, values: Sequence[int]) -> str:
        """Return a list of whole numbers as a constant."""
        name = self.name()
        self.constants[name] = int64s(values)
        return name

    def write(self, node: Node, terms: list[_Term], result: str) -> None:
        """Write the nodes that take the place of an einsum."""
        self.stem, self.label = node.outputs[0], node.label
        sizes: dict[str, int] = {}
        for term in terms:
            for letter, extent in zip(term.letters, self.type(term.value).shape, strict=True):
                if not _is_one(sizes.setdefault(letter, extent)):
                    continue
                sizes[letter] = extent
        self.sizes = sizes
        terms = [self._without_ones(term) for term in terms]
        while True:
            needed = [
                set(result).union(*(each.letters for each in terms if each is not term)) for term in terms
            ]
            terms = [self._summed(term, keep) for term, keep in zip(terms, needed, strict=True)]
            if len(terms) == 1:
                break
            later = set(result).union(*(each.letters for each in terms[2:]))
            terms = [self._product(terms[0], terms[1], later, result), *terms[2:]]
        last = self._ordered(terms[0], result)
        if self.nodes and self.nodes[-1].outputs == (last.value,) and last.value in self.made:
            self.types.pop(last.value)
            self.nodes[-1] = replace(self.nodes[-1], outputs=node.outputs)
        else:
            self.nodes.append(Node(Identity(), (last.value,), node.outputs, node.label))

    # ---- one operand ------------------------------------------------------------------------------------------

    def _without_ones(self, term: _Term) -> _Term:
        """Remove broadcast axes of one element."""
        shape = self.type(term.value).shape
        ones = [
            axis
            for axis, letter in enumerate(term.letters)
            if _is_one(shape[axis]) and not _is_one(self.sizes[letter])
        ]
        if not ones:
            return term
        value = self.add(Squeeze(), term.value, self.numbers(ones))
        return _Term(value, "".join(c for axis, c in enumerate(term.letters) if axis not in ones))

    def _summed(self, term: _Term, keep: set[str]) -> _Term:
        """Sum over the letters that are not needed."""
        axes = tuple(axis for axis, letter in enumerate(term.letters) if letter not in keep)
        if not axes:
            return term
        value = self.add(ReduceSum(axes, keepdims=False), term.value)
        return _Term(value, "".join(letter for letter in term.letters if letter in keep))

    def _ordered(self, term: _Term, letters: str) -> _Term:
        """Return the axes in the order of these letters."""
        if term.letters == letters:
            return term
        order = tuple(term.letters.index(letter) for letter in letters)
        return _Term(self.add(Transpose(order), term.value), letters)

    def _grouped(self, term: _Term, *groups: str) -> str:
        """Return the value with its axes in the order of groups, the last two of them joined to one axis each."""
        ordered = self._ordered(term, "".join(groups))
        batch, first, second = groups
        if len(first) == len(second) == 1:
            return ordered.value
        shape = [
            *(self.sizes[c] for c in batch),
            *(math.prod(self.sizes[c] for c in g) for g in (first, second)),
        ]
        return self._shaped(ordered.value, shape)

    def _shaped(self, value: str, shape: Sequence[int]) -> str:
        return self.add(Reshape(allow_zero=True), value, self.numbers(shape))

    # ---- two operands -----------------------------------------------------------------------------------------

    def _product(self, a: _Term, b: _Term, later: set[str], result: str) -> _Term:
        """Return the product, summed over the letters of both that are not needed later."""
        inner = "".join(c for c in a.letters if c in b.letters and c not in later)
        if not inner:
            return self._broadcast(a, b, result)
        batch = "".join(c for c in a.letters if c in b.letters and c in later)
        left = "".join(c for c in a.letters if c not in b.letters)
        right = "".join(c for c in b.letters if c not in a.letters)
        value = self.add(
            MatMul(), self._grouped(a, batch, left, inner), self._grouped(b, batch, inner, right)
        )
        if len(left) != 1 or len(right) != 1:
            value = self._shaped(value, [self.sizes[letter] for letter in batch + left + right])
        return _Term(value, batch + left + right)

    def _broadcast(self, a: _Term, b: _Term, result: str) -> _Term:
        """Return the product of two factors without a sum, with axes in the order of the result; axes that it lacks
        come last."""
        every = "".join(dict.fromkeys(a.letters + b.letters))
        letters = "".join(sorted(every, key=lambda c: result.index(c) if c in result else len(result)))
        factors = []
        for term in (a, b):
            ordered = self._ordered(term, "".join(c for c in letters if c in term.letters))
            missing = [axis for axis, letter in enumerate(letters) if letter not in term.letters]
            value = ordered.value
            factors.append(self.add(Unsqueeze(), value, self.numbers(missing)) if missing else value)
        return _Term(self.add(Mul(), *factors), letters)


def _is_one(extent: int) -> bool:
    """Whether an extent is known to be 1; a Size is not."""
    return not is_size(extent) and extent == 1
