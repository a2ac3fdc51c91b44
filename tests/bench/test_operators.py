"""Cases of bench.operators: named once, and what counts as a right answer."""

import importlib

import numpy as np
import pytest

from bench.engines.base import Engine
from bench.engines.registry import OPERATOR_ENGINES
from bench.operator_cases import cases_of, families
from bench.operators import error, measure
from bench.rounds import Plan
from bench.verdict import TOLERANCE


@pytest.mark.parametrize("spec", OPERATOR_ENGINES.values(), ids=lambda spec: spec.name)
def test_engines_have_all_that_a_worker_asks(spec):
    assert issubclass(getattr(importlib.import_module(spec.module), spec.class_name), Engine)


def test_a_case_is_measured():
    smallest = next(case for case in cases_of("products") if "numpy" in case.engines)
    specs = [OPERATOR_ENGINES[name] for name in ("cenote", "numpy")]
    [row] = measure("products", smallest, specs, [Plan(1, 0.0, 1)])
    assert [(outcome.engine, outcome.failure, outcome.error) for outcome in row.outcomes] == [
        ("cenote", "", 0.0),
        ("numpy", "", 0.0),
    ]


@pytest.mark.parametrize("family", families())
def test_cases_have_names_of_their_own(family: str):
    names = [case.name for case in cases_of(family)]
    assert names
    assert len(set(names)) == len(names)
    assert all("cenote" in case.engines and len(case.engines) > 1 for case in cases_of(family))


def test_a_difference_counts_unless_the_case_allows_it():
    right = (np.array([1.0, 2.0, np.inf]),)
    assert error(right, right, 0.0) == 0.0
    assert error((np.array([1.0, 2.0 + 1e-9, np.inf]),), right, 0.0) > TOLERANCE
    assert error((np.array([1.0, 2.0 + 1e-9, np.inf]),), right, 1e-6) == 0.0
    assert error((np.array([1.0, 2.0, np.nan]),), right, 1.0) == np.inf
    assert error((np.array([1.0, 2.0]),), right, 1.0) == np.inf
