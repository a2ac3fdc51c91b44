"""A model that leaves its sizes open answers at every size what a model with that size declared answers, bit for bit
(but for Winograd, which is off here, and means: see below).

ANY_SHAPE_CASES sets how many random networks are tried (by default a few, in seconds; 300 for a thorough run). Each
runs at several sizes in a row, so that what was prepared for one size meets another.
"""

from __future__ import annotations

import os

import onnx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.any_shape_graphs import open_networks
from tests.any_shape_runs import check

CASES = int(os.environ.get("ANY_SHAPE_CASES", "10"))
SIZES = st.tuples(st.integers(1, 5), st.integers(9, 40), st.integers(9, 40))  # batch, height, width


@settings(
    max_examples=CASES, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
@given(open_networks(), st.lists(SIZES, min_size=2, max_size=3), st.integers(1, 2))
def test_any_size_is_as_a_fixed_one(
    model: onnx.ModelProto, sizes: list[tuple[int, int, int]], threads: int
) -> None:
    onnx.checker.check_model(model)
    check(model, sizes, threads)
