"""What the kind `quantized` makes, and that it sees what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cenote
from tests.fuzz.case import Finding, generator
from tests.fuzz.quantized import kind
from tests.fuzz.quantized.kind import roundings, unlike
from tests.fuzz.quantized.maker import Maker, Quantised
from tests.fuzz.quantized.sums import residual


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


def test_a_family_differs_in_numbers_and_extents_alone() -> None:
    """So that its graphs share kernels."""
    first, *others = (kind.random_graph(3 * kind.FAMILY + place) for place in range(kind.FAMILY))
    assert len(others) >= 3
    for second in others:
        assert [node.op_type for node in first.nodes] == [node.op_type for node in second.nodes]
        assert [each.shape[:2] for each in first.inputs] == [each.shape[:2] for each in second.inputs]
    assert any(first.inputs[0].shape != each.inputs[0].shape for each in others)
    assert any(not np.array_equal(first.constants[name], second.constants[name]) for name in first.constants)


def test_families_take_several_algorithms() -> None:
    m = Maker(generator("quantized", 1), generator("quantized", 1), 21)
    x = m.input((1, 16, 9, 9))
    w = m.constant(m.noise.integers(-63, 64, (16, 16, 3, 3)), np.int8)
    operands = [
        m.dequantised(x),
        m.node("DequantizeLinear", w, m.constant(np.float32(0.01)), m.constant(np.int8(0))),
    ]
    y = m.quantised(m.node("Conv", *operands, kernel_shape=(3, 3), pads=(1, 1, 1, 1)), x.shape)
    content, found = m.model([y.name], {}).SerializeToString(), set()
    for seed in range(0, 12 * kind.FAMILY, kind.FAMILY):
        with kind.shaken(seed):
            steps = cenote.load(content, tune="off", threads=1).plan.describe().steps
        found |= {step.algorithm for step in steps if step.op.startswith("qlinear_conv")}
    assert len(found) >= 2


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


def judged(m: Maker, outputs: list[str], changed: Any = None) -> str:
    """Compare a graph's answers, changed by a function, with those of the references."""
    quantized, answer = kind.Quantized(), kind.answer
    try:
        with np.errstate(all="ignore"), pytest.MonkeyPatch.context() as patch:
            if changed is not None:
                patch.setattr(
                    kind, "answer", lambda *given: {name: changed(y) for name, y in answer(*given).items()}
                )
            return quantized.compare(m, outputs, saturates=True)
    finally:
        quantized.close()


def layer(x_scale: float, w_scale: float, bias: int, y_scale: float) -> tuple[Maker, str]:
    """A convolution of bytes whose scales are these."""
    m = Maker(generator("quantized", 1), generator("quantized", 1), 21)
    m.odd = True
    x = Quantised(
        "x", np.dtype(np.uint8), (1, 4, 3, 3), m.constant(np.float32(x_scale)), m.constant(np.uint8(128))
    )
    m.inputs.append(x)
    m.values.append(x)
    scale = np.float32(w_scale)
    w = m.constant(m.noise.integers(-127, 128, (8, 4, 1, 1)), np.int8)
    b = m.constant(np.full(8, bias), np.int32)
    operands = [
        m.dequantised(x),
        m.node("DequantizeLinear", w, m.constant(scale), m.constant(np.int8(0))),
        m.node("DequantizeLinear", b, m.constant(np.float32(x_scale) * scale)),
    ]
    y = m.node("Conv", *operands, kernel_shape=(1, 1))
    name = m.node("QuantizeLinear", y, m.constant(np.float32(y_scale)), m.constant(np.uint8(100)))
    m.add(Quantised(name, np.dtype(np.uint8), (1, 8, 3, 3), "", ""))
    return m, name


def far_off(y: np.ndarray) -> np.ndarray:
    return np.asarray(y ^ y.dtype.type(0x40))


def test_sums_that_overflow_are_not_compared_and_others_are() -> None:
    """Whether an infinity or NaN comes of them depends on the order of their terms."""
    with np.errstate(all="ignore"):
        overflowing, usual = layer(1e30, 1e30, 0, 0.05), layer(0.02, 0.01, 0, 0.05)
    assert judged(overflowing[0], [overflowing[1]], far_off) == "as references"
    with pytest.raises(Finding, match=usual[1]):
        judged(usual[0], [usual[1]], far_off)


def test_a_bias_below_the_normal_numbers_is_zero_for_the_judge_too(monkeypatch: Any) -> None:
    """Over a scale of zero it would be an infinity where zero is NaN."""
    m, name = layer(1e-30, 1e-12, 5, 0.0)
    m.constants[m.nodes[0].input[2]][...] = 0  # x is a number of zeros, so that the bias is all of the sum
    x = m.inputs[0]
    monkeypatch.setattr(kind.Quantized, "array", lambda *_: np.zeros(x.shape, np.uint8))
    assert judged(m, [name]) == "as references"


def test_some_residuals_are_added_in_convolutions() -> None:
    found = set()
    for seed in range(12):
        m = Maker(generator("quantized", seed), generator("quantized", seed), 21)
        m.input((1, 16, 5, 5))
        residual(m)
        loaded = cenote.load(m.model([m.values[-1].name], {}).SerializeToString(), tune="off")
        found |= {step.op.partition("(")[0] for step in loaded.plan.describe().steps}
    assert "qlinear_conv_add" in found


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
