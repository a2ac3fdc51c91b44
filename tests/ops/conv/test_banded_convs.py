"""Convolutions in bands of rows: any number of bands has the bits of one, and the answer of the reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cenote.core.errors import ShapeError
from cenote.core.target import Target
from cenote.core.types import TensorType
from cenote.ops.base import Box, Sample
from cenote.ops.conv.banded_convs import BandedConvs, Bands
from cenote.ops.conv.conv import Conv
from tests.harness import run_lowering
from tests.targets import TARGETS

SAMPLES = [*BandedConvs.samples()]


def types_of(sample: Sample) -> list[TensorType | None]:
    return [
        None if x is None else TensorType.known(x) if index else TensorType.of(x.dtype, x.shape)
        for index, x in enumerate(sample.inputs)
    ]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_any_number_of_bands(sample: Sample, target: Target) -> None:
    (wanted,) = sample.op.reference(*sample.inputs)
    types, results, counts = types_of(sample), [], set()
    for cache in (1, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 20):
        small = replace(target, l2_bytes=cache)
        assert isinstance(sample.op, BandedConvs)
        counts.add(len(Bands(sample.op.links(types), small).rows))
        (lowering,) = sample.op.lowerings(types, small)
        (y,) = run_lowering(sample.op, lowering, [*sample.inputs], small, constants=True)
        np.testing.assert_allclose(y, wanted, rtol=0, atol=lowering.tolerance * np.abs(wanted).max())
        results.append(y.tobytes())
    assert len(set(results)) == 1
    assert len(counts) > 1


def test_bands_have_the_rows_that_windows_see() -> None:
    """3x3 with a border: row r sees the rows from r - 1 to r + 1 that there are; bands of two rows are the smallest."""
    links = SAMPLES[0].op.links(types_of(SAMPLES[0]))  # type: ignore[attr-defined]  # a chain's
    bands = Bands(links, replace(TARGETS[0], l2_bytes=1)).rows
    assert [rows[-1] for rows in bands] == [(first, first + 2) for first in range(0, 14, 2)]
    assert [rows[0] for rows in bands][:2] == [(0, 3), (1, 5)]
    assert bands[-1][0] == (11, 14)


def test_other_convolutions_are_refused() -> None:
    x, w = TensorType.of(np.float32, (1, 16, 8, 8)), TensorType.of(np.float32, (16, 16, 3, 3))
    with pytest.raises(ShapeError, match="neither 1x1 nor depthwise"):
        BandedConvs((Conv(), Conv())).infer(x, w, None, w)
    one = TensorType.of(np.float32, (16, 16, 1, 1))
    with pytest.raises(ShapeError, match="only the last convolution may add"):
        BandedConvs((Conv(residual=True), Conv())).infer(x, one, None, one)


def test_rows_of_x_that_a_box_needs() -> None:
    sample = SAMPLES[1]
    box = Box(((0, 1), (0, 24), (3, 5), (0, 11)))
    x, *_, residual = sample.op.region(box, types_of(sample))
    assert x == Box(((0, 1), (0, 24), (2, 6), (0, 11)))
    assert residual == box
