"""Cases of bench.operators: named once, and what counts as a right answer."""

import numpy as np
import pytest

from bench.operator_cases import cases_of, families
from bench.operators import error
from bench.verdict import TOLERANCE


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
