"""What the kind `quantized` makes, and that it sees what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.fuzz.case import Finding, generator
from tests.fuzz.quantized import kind
from tests.fuzz.quantized.kind import roundings, unlike
from tests.fuzz.quantized.maker import Maker


def test_graphs_hold_many_operators_types_and_what_is_odd() -> None:
    operators, types, odd, broken = set(), set(), 0, 0
    for seed in range(0, 250 * kind.FAMILY, kind.FAMILY):
        m = kind.random_graph(seed)
        operators |= {node.op_type for node in m.nodes}
        types |= {each.dtype.name for each in m.values}
        odd, broken = odd + m.odd, broken + m.broken
    assert len(operators) >= 36
    assert {"uint8", "int8", "uint16", "int16", "float32", "int32"} <= types
    assert odd >= 10
    assert broken >= 5


def test_a_seed_is_a_graph() -> None:
    first, second = (kind.random_graph(3) for _ in range(2))
    assert first.nodes == second.nodes
    assert all(np.array_equal(first.constants[name], second.constants[name]) for name in first.constants)


def test_a_family_differs_in_numbers_alone() -> None:
    """So that its graphs share kernels."""
    first, second = (kind.random_graph(3 * kind.FAMILY + place) for place in range(2))
    assert first.nodes == second.nodes
    assert [each.shape for each in first.values] == [each.shape for each in second.values]
    assert any(not np.array_equal(first.constants[name], second.constants[name]) for name in first.constants)


def test_a_value_is_judged_by_those_before_it() -> None:
    m = Maker(generator("quantized", 1), generator("quantized", 1), 21)
    x = m.input((1, 4))
    y = m.quantised(m.dequantised(x), x.shape)
    z = m.quantised(m.node("Relu", m.dequantised(y)), x.shape)
    assert roundings(m, [z.name])[0][z.name] == 2
    assert roundings(m, [y.name, z.name])[0][z.name] == 1
    assert {each.name for each in m.cut([y.name, z.name]).graph.input} >= {y.name}


@pytest.mark.parametrize(("share", "wrong"), [(0.0, 1), (0.02, 30), (0.02, -1), (None, 60)])
def test_what_is_unlike(share: float | None, wrong: int) -> None:
    """Exact bits, too many that are a step off, one that is two steps off, and what is far off."""
    x = np.full(100, 100, np.uint8)
    y = x.copy()
    y[: abs(wrong)] += 2 if wrong < 0 else 1 if share is not None else 60
    assert unlike(y, x, share)
    assert not unlike(x, x, share)


def test_few_may_stray() -> None:
    wanted = np.full(100, 100, np.uint8)
    y = wanted.copy()
    y[:2] = 0
    assert not unlike(y, wanted, 0.02, 0.02)
    assert unlike(y, wanted, 0.02, 0.01)


@pytest.mark.parametrize("saturates", [False, True])  # then the references judge
def test_a_wrong_answer_is_found(monkeypatch: Any, saturates: bool) -> None:
    rng = generator("quantized", 1)
    m = Maker(rng, rng, 21)
    x = m.input((3, 40))
    y = m.quantised(m.dequantised(x), x.shape, share=0)
    quantized = kind.Quantized()
    try:
        assert quantized.compare(m, [y.name], saturates) == f"as {('onnxruntime', 'references')[saturates]}"
        answer = kind.answer
        monkeypatch.setattr(
            kind, "answer", lambda *given: {name: y ^ y.dtype.type(1) for name, y in answer(*given).items()}
        )
        with pytest.raises(Finding, match=y.name):
            quantized.compare(m, [y.name], saturates)
    finally:
        quantized.close()
