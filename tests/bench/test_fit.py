"""Fitting the cost model: constants move until the first choice is the fastest; nothing is measured here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.fit.cases import Case, outcome
from bench.fit.fitting import Fit, changed, names, number
from bench.fit.layers import Layer, Operand, drawn
from bench.fit.measurements import read
from bench.fit.pools import fit_pools
from bench.fit.record import missed, summary
from cenote.compiler.tune import label
from cenote.core.types import TensorType
from cenote.kernels.constants import CONSTANTS, DEFAULT, kind_of
from cenote.ops.linear.gemm import Gemm
from cenote.ops.pool.window import MaxPool
from tests.targets import LARGE

KIND = kind_of(LARGE)


def layer(columns: int) -> Layer:
    """One row by a matrix: by rows as it lies, or by panels."""
    op = Gemm(transpose_b=True)
    shapes = ((1, 1024), (columns, 1024))
    operands = tuple(
        Operand(np.dtype("float32"), shape, index == 1, None) for index, shape in enumerate(shapes)
    )
    types = [TensorType.of(np.float32, shapes[0]), TensorType.known(np.ones(shapes[1], np.float32))]
    conversions = {label(each): 0.0 for each in op.lowerings(types, LARGE)}
    return Layer("model", 1, "product", op, operands, conversions)


def test_constants_move_until_the_first_choice_is_the_fastest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CONSTANTS, KIND, CONSTANTS[DEFAULT])
    seconds = {"panels": 1e-4, "rows": 2e-4, "strassen": 3e-4}
    layers = [layer(columns) for columns in (1000, 2000, 4000)]
    cases = [Case.of(each, {name: seconds[name.split()[0]] for name in each.conversions}) for each in layers]
    before = [outcome(case, LARGE) for case in cases]
    assert summary(before) == {"layers": 3, "share": 0.0, "mean_loss": 1.0, "worst_loss": 1.0}
    assert missed(before) == [["rows on plain memory", "panels on plain memory", 3, 1.0]]
    fitted = Fit(cases, LARGE).run()
    assert summary([outcome(case, LARGE) for case in cases])["share"] == 1.0
    others = [name for name in names(fitted) if number(fitted, name) != number(CONSTANTS[KIND], name)]
    assert others == []  # `run` leaves the fitted ones in force
    assert fitted.row_start > 0


def pool(side: int) -> Layer:
    """An overlapping pool that several algorithms serve."""
    op, operand = (
        MaxPool((3, 3)),
        Operand(np.dtype("float32"), (1, 8, side, side), False, None),
    )
    options = op.lowerings([operand.type()], LARGE)
    return Layer("model", 1, "pool", op, (operand,), {label(each): 0.0 for each in options})


def test_pools_are_fitted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CONSTANTS, KIND, CONSTANTS[DEFAULT])
    cases = []
    for side in (40, 60, 90):
        each = pool(side)
        slow = min(each.conversions, key=lambda name: "generic" in name)
        quick = next(name for name in each.conversions if "generic" in name)
        cases.append(Case.of(each, {slow: 3e-5 * side, quick: 1e-5 * side}))
    assert summary([outcome(case, LARGE) for case in cases])["share"] < 1
    before = CONSTANTS[KIND]
    fitted = fit_pools(cases, LARGE)
    assert CONSTANTS[KIND] is before
    CONSTANTS[KIND] = fitted
    assert summary([outcome(case, LARGE) for case in cases])["share"] == 1
    assert fitted.pools["argmax_generic"] == before.pools["argmax_generic"]  # no case has it
    assert fit_pools([], LARGE) is fitted


def test_every_constant_can_be_read_and_changed_by_its_name() -> None:
    for name in names(CONSTANTS[DEFAULT]):
        assert number(changed(CONSTANTS[DEFAULT], name, 0.125), name) == 0.125


def test_a_draw_is_even_over_kinds_and_the_same_each_time() -> None:
    layers = {each.key: each for each in map(layer, range(100, 110))}
    others = {
        f"{key}-": Layer("model", 1, "other", each.op, each.operands, {}) for key, each in layers.items()
    }
    chosen = drawn({**layers, **others}, 10)
    assert [each.kind for each in chosen].count("other") == 5
    assert [each.key for each in chosen] == [each.key for each in drawn({**others, **layers}, 10)]


def test_a_layer_that_was_measured_twice_has_its_least_times(tmp_path: Path) -> None:
    lines = tmp_path / "times.jsonl"
    lines.write_text(
        '{"key": "a", "target": "avx2", "seconds": {"x": 2, "y": 5}}\n'
        '{"key": "a", "target": "avx2", "seconds": {"x": 3, "y": 4}}\n'
        '{"key": "a", "target": "avx512", "seconds": {"x": 1}}\n'
    )
    assert read(lines, "avx2") == {"a": {"x": 2, "y": 4}}
    assert read(tmp_path / "none", "avx2") == {}
