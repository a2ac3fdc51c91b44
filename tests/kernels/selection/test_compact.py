"""Elements under a mask, of every width on every target: nothing outside of the result is touched."""

from __future__ import annotations

import numpy as np
import pytest

from cenote.core.target import Target
from cenote.core.types import PLAIN, TensorType
from cenote.kernels.base import View
from cenote.kernels.selection.compact import BLOCK, blocks_of, compact_call
from cenote.verification.contract.harness import (
    GuardedBuffer,
    launch,
    native_call,
    new_view,
    pack,
    unpack,
)
from tests.targets import TARGETS


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.float64])
def test_every_pattern_of_a_mask(target: Target, dtype: type) -> None:
    """Eight places of the mask take all 256 values, before and after the end of a block."""
    patterns = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(bool).ravel()
    for mask in (patterns, np.resize(patterns, BLOCK + 1003), np.ones(77, bool), np.zeros(9, bool)):
        x = np.arange(1, mask.size + 1).astype(dtype)
        wanted = x[mask]
        counts = [part.sum() for part in np.split(mask, range(BLOCK, mask.size, BLOCK))]
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        assert offsets.size == blocks_of(mask.size) + 1
        buffers: list[GuardedBuffer] = []
        views: list[View] = []
        for array in (x, mask, offsets):
            views.append(new_view(TensorType.of(array.dtype, array.shape), PLAIN, buffers, 0x5A))
            pack(array, PLAIN, buffers[-1])
        y = new_view(TensorType.of(x.dtype, wanted.shape), PLAIN, buffers, 0x5A)
        launch(compact_call(*views, y), buffers, target, 1, native_call)
        for buffer in buffers:
            buffer.check(target.name)
        assert np.array_equal(unpack(buffers[-1], y.type, PLAIN), wanted)
