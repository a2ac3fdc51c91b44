"""Pools of rows whose length is not known: one class of sizes for rows of any length, also shorter than a vector."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cenote
from cenote.core.formulas.checks import Evaluation
from cenote.core.trace import Trace
from cenote.kernels.row_lanes import RowLanes, fitting
from tests.onnx_texts import parsed

torch = pytest.importorskip("torch")

LENGTHS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33)
WIDTHS = (33, 3, 5, 8, 15, 16)  # the first makes the plan


@pytest.mark.parametrize("widest", [1, 4, 8, 16])
def test_no_vector_is_longer_than_its_row(widest: int) -> None:
    trace = Trace()
    row, out_row = trace.dimension(40), trace.dimension(40)
    apart, same = RowLanes.of(widest, row, out_row), RowLanes.of(widest, row, row)
    assert not trace.guards
    for lengths in product(LENGTHS, repeat=2):
        evaluation = Evaluation(trace, lengths)
        lanes, out_lanes = apart.pairs[evaluation.value(apart.chosen)]
        assert lanes <= lengths[0]
        assert out_lanes <= min(lengths)
        alike = same.pairs[evaluation.value(same.chosen)]
        assert alike == (
            wanted := next(each for each in (widest, 4, 1) if each <= min(widest, lengths[0])),
            wanted,
        )


@given(st.sampled_from([4, 8, 16]), st.integers(1, 64))
def test_halved_rows_have_as_many_lanes_as_they_hold(widest: int, length: int) -> None:
    trace = Trace()
    row = trace.dimension(100)
    out_row = (row + 1) // 2
    chosen = RowLanes.of(widest, row, out_row)
    evaluation = Evaluation(trace, (length,))
    exact = trace.dimension(length), trace.dimension((length + 1) // 2)
    assert chosen.pairs[evaluation.value(chosen.chosen)] == tuple(fitting(widest, each) for each in exact)


def test_known_rows_have_one_pair() -> None:
    row = Trace().dimension(9)
    assert RowLanes.of(16, 9, 5) == RowLanes(((8, 4),))
    assert RowLanes.of(16, 16 * row, 16 * row) == RowLanes(((16, 16),))


@pytest.mark.parametrize(
    ("rows", "stride", "dilation"), [(3, 1, 1), (3, 2, 1), (3, 1, 2), (29, 1, 1)],
    ids=["one apart", "two apart", "dilated", "generic"],
)  # fmt: skip
def test_one_plan_serves_short_and_long_rows(rows: int, stride: int, dilation: int) -> None:
    attributes = (
        f"kernel_shape = [{rows}, 3], strides = [{stride}, {stride}], dilations = [{dilation}, {dilation}], "
        "pads = [1, 1, 1, 1]"
    )
    text = f"g (float[1,2,H,W] x) => (float[1,2,P,Q] y) {{ y = MaxPool<{attributes}>(x) }}"
    model = cenote.load(parsed(text).SerializeToString(), threads=1)
    for width in WIDTHS:
        x = np.random.default_rng(width).standard_normal((1, 2, 30, width), np.float32)
        wanted = torch.nn.functional.max_pool2d(torch.from_numpy(x), (rows, 3), stride, 1, dilation)
        np.testing.assert_array_equal(model(x), wanted.numpy())
    assert len(model._classes.plans) == 1
