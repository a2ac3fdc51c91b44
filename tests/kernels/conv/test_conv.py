"""Every native way to compute a convolution against the float64 reference, on every target the host can
run.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pytest

from cenote.codegen import jit
from cenote.core.conv_geometry import ConvShape
from cenote.core.target import Target
from cenote.core.types import Layout, TensorType
from cenote.kernels.base import View, buffer_elements, dense_strides, halo_offset
from cenote.kernels.conv.depthwise import suits
from cenote.kernels.elementwise.activations import Activation
from cenote.ops.base import Sample
from cenote.ops.conv.conv import Conv
from cenote.ops.conv.conv_transpose import ConvTranspose
from cenote.ops.linear.gemm import Gemm
from cenote.ops.linear.matmul import MatMul
from cenote.ops.reorder import Reorder
from cenote.ops.values import seeded, wide
from cenote.runtime.steps import Slot, SlotKind
from tests.harness import Buffer, launch, lowerings_of, pack, run_lowering, unpack
from tests.targets import TARGETS, over_targets, target_name

SAMPLES = [
    (op.name, sample) for op in (Conv, ConvTranspose, Gemm, MatMul, Reorder) for sample in op.samples()
]


def error(got: np.ndarray, wanted: np.ndarray) -> float:
    """Largest error relative to the largest output."""
    if not wanted.size:
        return 0.0
    scale = max(float(np.abs(wanted).max()), 1e-30)
    return float(np.abs(got.astype(np.float64) - wanted.astype(np.float64)).max()) / scale


def words(value: object) -> str:
    """The name of a target or of a sample in ids of tests."""
    return target_name(value) or str(value).replace(" ", "_")


@pytest.mark.parametrize(("name", "sample", "target"), over_targets(SAMPLES), ids=words)
def test_lowerings_match_the_reference(name: str, sample: Sample, target: Target) -> None:
    fixed = (
        0
        if name == "reorder"
        else 3 - (isinstance(sample.op, Conv) and sample.op.residual and len(sample.inputs) == 3)
    )
    names = check(sample, target, range(1, fixed))
    empty = any(x is not None and not x.size for x in sample.inputs)
    assert names or empty or sample.inputs[0].dtype != np.float32


@pytest.mark.parametrize(
    ("sample", "target"),
    over_targets([(sample,) for op in (Gemm, MatMul) for sample in op.samples()]),
    ids=words,
)
def test_matrices_known_only_when_running(sample: Sample, target: Target) -> None:
    check(sample, target, ())


WINDOWED = [
    sample for op in (Conv, ConvTranspose) for sample in op.samples() if not getattr(sample.op, "pool", False)
]


@pytest.mark.parametrize("fixed", [(), (1,), (2,)], ids=["none known", "weights known", "bias known"])
@pytest.mark.parametrize("sample", WINDOWED, ids=words)
def test_weights_known_only_when_running(sample: Sample, fixed: tuple[int, ...]) -> None:
    if fixed and (len(sample.inputs) < 3 or sample.inputs[2] is None):
        return
    names = check(sample, jit.host_target(), fixed)
    assert (
        names
        or any(not x.size for x in sample.inputs if x is not None)
        or sample.inputs[0].dtype != np.float32
    )


def check(sample: Sample, target: Target, fixed: Collection[int]) -> list[str]:
    """Run all lowerings with the `fixed` inputs known; every splitting of the work must give the same bits."""
    op, arrays = sample.op, list(sample.inputs)
    (wanted,) = op.reference(*(None if x is None else wide(x) for x in arrays))
    types = [
        None if x is None else TensorType.known(x) if index in fixed else TensorType.of(x.dtype, x.shape)
        for index, x in enumerate(arrays)
    ]
    names = []
    for lowering in op.lowerings(types, target):
        results = set()
        for chunk, junk in ((0, 0x5A), (1, 0xFF), (3, 0xFF)):
            (got,) = run_lowering(op, lowering, arrays, target, constants=bool(fixed), chunk=chunk, junk=junk)
            assert got.shape == wanted.shape
            assert error(got, wanted) <= lowering.tolerance, lowering.name
            results.add(got.tobytes())
        assert len(results) == 1, f"{lowering.name}: the result depends on how the work is split"
        names.append(lowering.name)
    return names


@pytest.mark.parametrize("size", [(14, 14), (7, 9)])
@pytest.mark.parametrize("channels", [24, 136])
def test_the_output_may_take_the_residual_s_memory(channels: int, size: tuple[int, int]) -> None:
    target = jit.host_target()
    op = Conv(pads=((1, 1), (1, 1)), residual=True, activation=Activation("relu"))
    random = np.random.default_rng(channels)
    shapes = [(1, channels, *size), (40, channels, 3, 3), (40,), (1, 40, *size)]
    arrays = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    (wanted,) = op.reference(*(wide(x) for x in arrays))
    types = [
        TensorType.known(x) if i in (1, 2) else TensorType.of(x.dtype, x.shape) for i, x in enumerate(arrays)
    ]
    for lowering in op.lowerings(types, target):
        if 3 not in lowering.in_place:
            continue
        buffers: list[Buffer] = []
        views = [buffer_view(types[i], lowering.inputs[i], buffers) for i in (0, 3)]
        for index, buffer in zip((0, 3), buffers, strict=True):
            pack(arrays[index], lowering.inputs[index] or Layout(), buffer)
        spare = [buffer_view(kind, Layout(), buffers) for kind in lowering.temporaries]
        weights = [View(types[i], Layout(), (), Slot(SlotKind.CONSTANT, i)) for i in (1, 2)]
        for call in lowering.bind([views[0], *weights, views[1]], [views[1], *spare]):
            launch(call, buffers, target, chunk=1)
        got = unpack(buffers[1], types[3], lowering.outputs[0])
        assert error(got, wanted) <= lowering.tolerance, lowering.name


def buffer_view(kind: TensorType, layout: Layout | None, buffers: list[Buffer]) -> View:
    """A view of a new buffer."""
    layout = layout or Layout()
    buffers.append(Buffer(buffer_elements(kind.shape, layout) * 4))
    slot = Slot(SlotKind.ARENA, len(buffers) - 1, halo_offset(kind.shape, layout) * 4)
    return View(kind, layout, dense_strides(kind.shape, layout), slot)


def test_groups_that_divide_a_vector_are_shuffled() -> None:
    """Of 8 channels on 16 lanes too where groups must stay apart; elsewhere joined groups may be quicker."""
    pads = ((1, 1), (1, 1))
    shapes = {
        g: ConvShape(1, 64, 64, 64 // g, (9, 9), (9, 9), (3, 3), (1, 1), pads, (1, 1)) for g in (2, 4, 8)
    }
    found = {lanes: [g for g, shape in shapes.items() if suits(shape, lanes)] for lanes in (4, 8, 16)}
    assert found == {4: [2], 8: [2, 4], 16: [2, 4, 8]}


def test_which_filters_of_a_channel_are_shuffled() -> None:
    """All up to 8 of them, and more where few patterns repeat; they are never joined, whatever the precision."""
    for lanes in (4, 8, 16):
        found = [f for f in range(1, 18) if suits(depth_multiplied(f), lanes)]
        assert {*range(1, 9), 12, 16} <= set(found) <= {*range(1, 17)} - {11, 13}
    for target in TARGETS:
        for filters in range(2, 9):
            arrays = (seeded((1, 6, 4, 4), 1), seeded((6 * filters, 1, 3, 3), 2), None)
            for exact in (False, True):
                names = [
                    each.name for each in lowerings_of(Conv(groups=6, exact=exact), arrays, target, True)
                ]
                assert names == ["depthwise"]


def depth_multiplied(filters: int) -> ConvShape:
    """A convolution with so many filters a channel."""
    return ConvShape(1, 6, 6 * filters, 6, (4, 4), (2, 2), (3, 3), (1, 1), ((0, 0), (0, 0)), (1, 1))


GROUPS = (
    (8, 8, 8), (4, 4, 4), (16, 32, 8), (6, 6, 2), (16, 16, 2), (24, 40, 4), (40, 24, 2), (32, 32, 2), (9, 18, 9),
    (34, 2, 2), (6, 18, 6), (5, 40, 5), (10, 40, 5),
)  # fmt: skip


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize(("channels", "filters", "groups", "target"), over_targets(GROUPS), ids=target_name)
def test_groups_do_not_reach_their_neighbours(
    channels: int, filters: int, groups: int, target: Target, bad: float, transposed: bool
) -> None:
    """One bad pixel of a group: all channels of the others are finite and right, whatever fills a vector here."""
    shape = (channels, filters // groups) if transposed else (filters, channels // groups)
    x, w = seeded((2, channels, 5, 6), 1), seeded((*shape, 3, 3), 2)
    op: Any = ConvTranspose((2, 2), groups=groups) if transposed else Conv(groups=groups, exact=True)
    each, hit = filters // groups, groups // 2
    wanted = op.reference(x, w, None)[0]
    x[0, hit * (channels // groups), 2, 3] = bad
    wanted[0, hit * each : (hit + 1) * each] = op.reference(x, w, None)[0][0, hit * each : (hit + 1) * each]
    for constants in (True, False):
        found = lowerings_of(op, (x, w, None), target, constants)
        assert found
        for lowering in found:
            (y,) = run_lowering(op, lowering, (x, w, None), target, constants=constants)
            np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-5, err_msg=lowering.name)


def test_a_residual_of_groups_apart() -> None:
    """It goes into blocks as the input does."""
    arrays = (seeded((2, 24, 5, 6), 1), seeded((40, 6, 3, 3), 2), seeded((40,), 3), seeded((2, 40, 3, 4), 4))
    op = Conv(groups=4, exact=True, residual=True, activation=Activation("relu"))
    found = lowerings_of(op, arrays, TARGETS[0], True)
    for lowering in found:
        (y,) = run_lowering(op, lowering, arrays, TARGETS[0])
        np.testing.assert_allclose(y, op.reference(*arrays)[0], rtol=1e-4, atol=1e-5, err_msg=lowering.name)
    assert "direct_apart" in [lowering.name for lowering in found]
