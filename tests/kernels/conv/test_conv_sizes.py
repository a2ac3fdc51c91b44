"""The kernels of a layer are the same for nearly all sizes of the data; docs/kernel_sizes.md says what is left."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from cenote.core.types import TensorType
from cenote.kernels.base import KernelSpec
from cenote.kernels.conv.direct import ConvDirectSpec
from cenote.kernels.conv.tile_widths import cut, widest, widest_by_lane
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.winograd.calls import WinogradTiling
from cenote.kernels.winograd.kernel import WinogradSpec
from cenote.kernels.winograd.products import widths
from cenote.ops.conv.conv import Conv
from cenote.ops.linear.gemm import Gemm
from tests.golden.kernel_text import TARGETS, bound_calls

ONE = ((1, 1), (1, 1))
SIZES = [(1, 7, 7), (1, 8, 8), (1, 14, 14), (1, 21, 30), (2, 33, 47), (3, 64, 29), (16, 20, 20)]


def specs_of(op: Conv | Gemm, x: tuple[int, ...], w: np.ndarray, target: str) -> dict[str, set[KernelSpec]]:
    """The kernels of each lowering."""
    types = [TensorType.of(np.float32, x), TensorType.known(w)]
    return {
        lowering.name: {call.spec for call in bound_calls(lowering, types, op.infer(*types), TARGETS[target])}
        for lowering in op.lowerings(types, TARGETS[target])
    }


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("channels", "filters", "pool"), [(16, 16, False), (40, 72, False), (64, 64, True)])
def test_winograd_has_one_kernel_per_phase(target: str, channels: int, filters: int, pool: bool) -> None:
    op = Conv(pads=ONE, activation=Activation("relu"), pool=pool)
    w = np.ones((filters, channels, 3, 3), np.float32)
    found: dict[str, set[KernelSpec]] = {}
    for n, height, width in SIZES:
        for name, specs in specs_of(op, (n, channels, height, width), w, target).items():
            found.setdefault(name, set()).update(s for s in specs if isinstance(s, WinogradSpec))
    assert any(found.values())
    for name, specs in found.items():
        phases = [spec.phase for spec in specs if isinstance(spec, WinogradSpec)]
        assert len(phases) == len(set(phases)), name
        assert (
            {"fused"} <= set(phases) <= {"fused", "input", "product"} if phases else name.startswith("direct")
        )


@pytest.mark.parametrize("target", TARGETS)
def test_direct_kernels_have_one_width_from_42_pixels_on(target: str) -> None:
    w = np.ones((64, 32, 1, 1), np.float32)
    sizes = [(n, 32, height, width) for n, height, width in SIZES]
    found = [
        specs_of(Conv(strides=(2, 2)), size, w, target)["direct"] for size in sizes if min(size[2:]) > 13
    ]
    assert all(isinstance(spec, ConvDirectSpec) for specs in found for spec in specs)
    assert all(specs == found[0] for specs in found)


@pytest.mark.parametrize("target", TARGETS)
def test_products_of_rows_have_one_width_from_42_rows_on(target: str) -> None:
    w = np.ones((32, 48), np.float32)
    found = [specs_of(Gemm(), (rows, 32), w, target)["panels"] for rows in (42, 43, 48, 49, 100, 1000)]
    assert all(specs == found[0] for specs in found)


def test_tiles_cover_pixels_exactly_with_the_fewest_tiles() -> None:
    for most in range(1, 9):
        for pixels in range(1, 200):
            width, tiles, wide = cut(pixels, most)
            assert width * wide + (width - 1) * (tiles - wide) == pixels
            assert 0 <= wide <= tiles
            assert tiles == -(-pixels // most)
            assert 1 <= width <= most
            assert width == most or pixels < (most - 1) * (most - 2)


@pytest.mark.parametrize("target", TARGETS)
def test_memory_of_a_block_has_room_for_the_shortest_run(target: str) -> None:
    """One tile by few filters: its run is longer, and ends within V and M."""
    shape = Conv(pads=ONE).shape(*(TensorType.of(np.float32, s) for s in ((1, 16, 3, 3), (16, 16, 3, 3))))
    plan = WinogradTiling(shape, 4, 4, TARGETS[target])
    assert plan.tiles == 1
    shortest = widths(plan.group_blocks, plan.target)[0]
    numbers = plan.numbers("fused")
    last_tile = (plan.products - 1) * numbers["v_xi"] + (plan.channel_blocks - 1) * numbers["v_block"]
    assert last_tile + shortest * plan.lanes <= numbers["v_bytes"] // 4
    last_row = (plan.products - 1) * numbers["m_xi"]
    assert last_row + shortest * plan.group_blocks * plan.lanes <= numbers["m_group"]


def test_every_run_has_as_many_sums_as_hide_the_latency() -> None:
    for registers in (16, 32):
        for blocks in (1, 2, 3, 4):
            for by_lane in (False, True):
                target = dataclasses.replace(TARGETS["generic"], registers=registers, by_lane=by_lane)
                found = widths(blocks, target)
                assert found[-1] == (widest_by_lane if by_lane else widest)(blocks, registers)
                assert found[0] * blocks >= 8 or found[0] == found[-1]


def test_a_spec_has_no_field_of_a_size() -> None:
    fields = {field.name for field in dataclasses.fields(WinogradSpec)}
    others = {"blocks", "ragged", "residual", "activation", "pool", "strides", "dilated", "spread"}
    assert fields == {"phase", "mv", "rv", "mh", "rh", *others}
