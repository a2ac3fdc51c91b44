"""What is kept by numbers is kept by their exact values: 0.0 is not -0.0, and 1 is neither 1.0 nor True."""

from __future__ import annotations

import inspect
import itertools
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from cenote.compiler.compile import Compilation, compile_graph
from cenote.core.errors import CenoteError
from cenote.core.exact import Exact, exact_key
from cenote.core.load_options import LoadOptions
from cenote.core.types import Array, Declared, TensorType
from cenote.functional import callers
from cenote.graph.graph import Graph, Node
from cenote.kernels.base import KernelSpec
from cenote.ops.base import Op, Sample, ShapeFromData, ValueNeeded
from cenote.ops.table import operators
from cenote.passes.cleanup import eliminate_common
from tests.contract.samples import listed

ZEROS = 0.0, -0.0
NUMBERS = (
    0.0,
    -0.0,
    0,
    False,
    1,
    1.0,
    True,
    np.float32(0),
    np.float32(-0.0),
    np.float64(0),
    np.nan,
    (0.0,),
    (-0.0,),
)


@dataclass(frozen=True)
class _Inner:
    value: Any


@dataclass(frozen=True)
class _Outer(Exact):
    value: Any


def test_equal_only_where_the_same() -> None:
    for a, b in itertools.product(range(len(NUMBERS)), repeat=2):
        for wrap in (lambda x: x, lambda x: (x, "text"), _Inner, lambda x: (_Inner((x,)),)):
            one, other = _Outer(wrap(NUMBERS[a])), _Outer(wrap(NUMBERS[b]))
            assert (one == other) == (a == b), (one, other)
            assert len({one, other}) == 1 + (a != b)
            assert (exact_key(one) == exact_key(other)) == (a == b)
    assert _Outer(1.0) != _Inner(1.0)
    assert pickle.loads(pickle.dumps(_Outer(-0.0))) == _Outer(-0.0)


def test_what_has_no_hash_has_none() -> None:
    with pytest.raises(TypeError):
        hash(_Outer(np.zeros(3)))
    with pytest.raises(TypeError):
        hash(_Outer(([1],)))


def _every(kind: type) -> Iterator[type]:
    for each in kind.__subclasses__():
        yield each
        yield from _every(each)


def test_all_operators_and_specs_compare_so() -> None:
    found = [*operators(), *_every(KernelSpec), *_every(Op)]
    assert len(found) > 300
    for kind in found:
        if is_dataclass(kind):
            assert kind.__eq__ is Exact.__eq__, kind
            assert kind.__hash__ is Exact.__hash__, kind


# ---- operators ------------------------------------------------------------------------------------------------------


def _variants(op: type[Op]) -> Iterator[tuple[Sample, list[Op]]]:
    """For each attribute of an operator that is a float: a sample in which it may be zero, and the operator with it 0.0
    and -0.0."""
    left = {item.name for item in fields(op)}  # type: ignore[arg-type]  # operators are dataclasses
    for sample in listed(op):
        for name in sorted(left):
            if type(getattr(sample.op, name)) is not float:
                continue
            try:
                both = [replace(sample.op, **{name: zero}) for zero in ZEROS]  # type: ignore[type-var]
                for each in both:
                    each.infer(*_types(sample))
            except (CenoteError, ShapeFromData, ValueNeeded):
                continue
            left.remove(name)
            yield sample, both


def _types(sample: Sample) -> list[TensorType | None]:
    return [None if x is None else TensorType(x.dtype, x.shape) for x in sample.inputs]


def _graph(sample: Sample, ops: list[Op]) -> Graph:
    """These operators side by side on a sample's inputs."""
    names = tuple("" if x is None else f"x{i}" for i, x in enumerate(sample.inputs))
    kinds = {name: kind for name, kind in zip(names, _types(sample), strict=True) if kind is not None}
    nodes, types = [], dict(kinds)
    for number, op in enumerate(ops):
        made = {f"y{number}.{i}": kind for i, kind in enumerate(op.infer(*_types(sample)))}
        nodes.append(Node(op, names, tuple(made)))
        types |= made
    outputs = tuple(name for node in nodes for name in node.outputs)
    inputs = tuple(Declared(name, kind.dtype, kind.shape) for name, kind in kinds.items())
    return Graph(inputs, outputs, tuple(nodes), {}, types)


def _bits(sample: Sample, ops: list[Op]) -> list[bytes]:
    plan = compile_graph(_graph(sample, ops), Compilation(LoadOptions(threads=1)))
    given = [x for x in sample.inputs if x is not None]
    return [y.tobytes() for y in plan.program.run([np.ascontiguousarray(x) for x in given])]


WITH_FLOATS = [op for op in operators() if next(_variants(op), None) is not None]


def test_most_operators_with_floats_take_zeros() -> None:
    assert len(WITH_FLOATS) >= 25, [op.name for op in WITH_FLOATS]


@pytest.mark.parametrize("op", WITH_FLOATS, ids=lambda op: op.name)
def test_operators_side_by_side_keep_their_zeros(op: type[Op]) -> None:
    """A graph with both gives each the bits that it has alone, in either order."""
    for sample, both in _variants(op):
        assert both[0] != both[1], both
        assert len(eliminate_common(_graph(sample, both)).nodes) == 2
        if not op.pure:
            continue
        alone = [_bits(sample, [each]) for each in both]
        assert _bits(sample, both) == alone[0] + alone[1], f"{op.name}: {sample}"
        if alone[0] != alone[1]:
            assert _bits(sample, both[::-1]) == alone[1] + alone[0], f"{op.name}: {sample}"


# ---- functions ------------------------------------------------------------------------------------------------------


def _float_parameters() -> Iterator[tuple[str, str]]:
    for name in F.__all__:
        function = getattr(F, name)
        if not inspect.isfunction(function):
            continue
        given = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
        for parameter in inspect.signature(function).parameters.values():
            if len(given) == 1 and type(parameter.default) is float:
                yield name, parameter.name


FUNCTIONS = list(_float_parameters())


def _called(name: str, parameter: str, value: float) -> Array | None:
    x = np.array([-2, -0.0, 0.0, 1, np.nan, 3, -0.5, 2], np.float32).reshape(1, 1, 2, 4)
    try:
        y = getattr(F, name)(x, **{parameter: value})
    except CenoteError:  # not with a value of zero, or not of pictures
        return None
    return y if isinstance(y, np.ndarray) else y[0]


@pytest.mark.parametrize(("name", "parameter"), FUNCTIONS, ids=[".".join(each) for each in FUNCTIONS])
def test_functions_keep_their_zeros_whichever_came_first(name: str, parameter: str) -> None:
    found = []
    for order in (ZEROS, ZEROS[::-1]):
        callers.forget()
        made = {str(value): _called(name, parameter, value) for value in (*order, *order)}
        found.append({key: None if y is None else y.tobytes() for key, y in made.items()})
    assert found[0] == found[1]


def test_numbers_of_recorded_functions() -> None:
    x = np.array([-1, 1], np.float32)
    y = F.fused(lambda v: F.where(v < 0, 0.0, -0.0))(x)
    np.testing.assert_array_equal(np.signbit(y), [False, True])
