"""Halos and padding, byte for byte."""

from __future__ import annotations

import numpy as np
import pytest

from cenote.codegen import jit
from cenote.core.types import Layout, TensorType
from cenote.kernels.base import View, buffer_elements, dense_strides, halo_offset
from cenote.kernels.layout.reorder import pad_call, zero_halo_call
from cenote.runtime.steps import Slot, SlotKind
from tests.harness import Buffer, interior, launch

TARGET = jit.host_target()

HALOS = [
    ((1, 7, 5), ((1, 2),)),
    ((2, 9, 4, 3), ((1, 1), (2, 0))),
    ((1, 16, 1, 6), ((0, 0), (1, 1))),
    ((2, 5, 3, 2, 4), ((0, 1), (1, 1), (3, 2))),
]


@pytest.mark.parametrize(("shape", "halo"), HALOS)
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float64])
def test_halo_is_zeroed_and_nothing_else(
    shape: tuple[int, ...], halo: tuple[tuple[int, int], ...], dtype: type
) -> None:
    layout = Layout(TARGET.lanes(dtype), halo)
    type_ = TensorType.of(dtype, shape)
    buffer = Buffer(buffer_elements(shape, layout) * type_.dtype.itemsize, junk=0x5A)
    view = View(
        type_,
        layout,
        dense_strides(shape, layout),
        Slot(SlotKind.ARENA, 0, halo_offset(shape, layout) * type_.dtype.itemsize),
    )
    call = zero_halo_call(view)
    assert call.items > 0
    launch(call, [buffer], TARGET, chunk=1)
    buffer.check("halo")
    bytes_ = buffer.data.copy()
    inside = interior(bytes_.view(dtype), shape, layout)
    assert (np.ascontiguousarray(inside).view(np.uint8) == 0x5A).all()
    inside[:] = 0
    assert not bytes_.any()


def test_no_halo_no_work() -> None:
    layout = Layout(8, ((0, 0), (0, 0)))
    view = View(
        TensorType.of(np.float32, (1, 8, 3, 3)),
        layout,
        dense_strides((1, 8, 3, 3), layout),
        Slot(SlotKind.ARENA, 0),
    )
    assert zero_halo_call(view).items == 0


@pytest.mark.parametrize(
    ("shape", "pads"),
    [((2, 3, 5, 9), ((1, 2), (3, 0))), ((1, 1, 4), ((2, 2),)), ((1, 2, 2, 3, 17), ((1, 0), (0, 1), (1, 1)))],
)
def test_padding_copies_and_zeroes(shape: tuple[int, ...], pads: tuple[tuple[int, int], ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    wanted = np.pad(x, ((0, 0), (0, 0), *pads))
    buffers = [Buffer(x.nbytes), Buffer(wanted.nbytes)]
    buffers[0].data[:] = x.view(np.uint8).ravel()
    views = [
        View(TensorType.of(a.dtype, a.shape), Layout(), dense_strides(a.shape), Slot(SlotKind.ARENA, index))
        for index, a in enumerate((x, wanted))
    ]
    launch(pad_call(views[0], views[1], [begin for begin, _ in pads]), buffers, TARGET, chunk=2)
    buffers[1].check("padding")
    np.testing.assert_array_equal(buffers[1].data.view(np.float32).reshape(wanted.shape), wanted)
