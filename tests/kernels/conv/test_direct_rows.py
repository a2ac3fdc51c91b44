"""Long rows are cut into pieces, with the bits of a whole one."""

from __future__ import annotations

import numpy as np
import pytest

from cenote.core.target import Target
from cenote.core.types import TensorType
from cenote.ops.conv.conv import Conv
from cenote.ops.values import seeded
from tests.harness import run_lowering
from tests.targets import over_targets, target_name

WIDTHS = [(width, residual) for width in (1, 47, 383, 384, 385, 1999, 3200) for residual in (False, True)]


@pytest.mark.parametrize(("width", "residual", "target"), over_targets(WIDTHS, step=5), ids=target_name)
def test_rows_of_any_length(width: int, residual: bool, target: Target) -> None:
    op = Conv(pads=((1, 1),), residual=residual)
    arrays = [seeded((2, 3, width), 1), seeded((10, 3, 3), 2), seeded((10,), 3)]
    arrays += [seeded((2, 10, width), 4)] * residual
    types = [TensorType.of(np.float32, each.shape) for each in arrays]
    (lowering,) = (each for each in op.lowerings(types, target) if each.name == "direct_rows")
    (wanted,) = op.compute(*(each.astype(np.float64) for each in arrays), *[None] * (not residual))
    results = [run_lowering(op, lowering, arrays, target, chunk=chunk)[0] for chunk in (0, 1, 2)]
    assert all(np.array_equal(results[0], other) for other in results[1:])
    np.testing.assert_allclose(results[0], wanted, atol=1e-5)
    # A row alone has the bits that it has within a longer one.
    part = [
        each[..., : width // 2 + 1] if each.ndim == 3 and each.shape[-1] == width else each for each in arrays
    ]
    types = [TensorType.of(np.float32, each.shape) for each in part]
    (lowering,) = (each for each in op.lowerings(types, target) if each.name == "direct_rows")
    (short,) = run_lowering(op, lowering, part, target)
    np.testing.assert_array_equal(short[..., : width // 2], results[0][..., : width // 2])
