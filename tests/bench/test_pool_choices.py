"""The benchmark of pooling algorithms: its operators are those of the cases, its figures are what it says."""

from __future__ import annotations

from bench.cases import POOL_CASES, max_case
from bench.pool_choices import Choice, choice, grid, operator
from cenote.core.types import TensorType


def test_operators_are_those_of_the_cases() -> None:
    for case in (*POOL_CASES, *grid()):
        outputs = operator(case).infer(TensorType.of("float32", case.shape))
        assert outputs[0].shape == case.output_shape, case.name
        assert len(outputs) == 1 + case.indices


def test_the_loss_is_over_the_fastest() -> None:
    found = Choice("case", (("first", 1e-3, 2e-3), ("second", 2e-3, 1e-3)))
    assert found.loss == 2
    assert str(found).startswith("! case")


def test_every_algorithm_of_a_case_is_measured() -> None:
    found = choice(max_case((1, 4, 20, 20), 9, 1, 4))
    names = [name for name, _, _ in found.algorithms]
    assert {"separable", "van_herk", "small_map", "generic"} <= set(names)
    estimates = [estimate for _, estimate, _ in found.algorithms]
    assert estimates == sorted(estimates)
    assert all(seconds > 0 for _, _, seconds in found.algorithms)
