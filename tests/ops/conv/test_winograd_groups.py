"""Groups of channels that are whole vectors are Winograd's convolutions one after the other."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from cenote.core.target import Target
from cenote.core.types import Array, Layout, TensorType
from cenote.kernels.elementwise.activations import Activation
from cenote.ops.base import Lowering
from cenote.ops.conv.conv import Conv
from tests.harness import run_lowering
from tests.targets import TARGETS, over_targets, target_name

ONE = ((1, 1), (1, 1))


def arrays_of(n: int, channels: int, filters: int, groups: int, size: tuple[int, ...]) -> list[Array]:
    random = np.random.default_rng(channels + filters)
    each = channels // groups
    window = (3,) * len(size)
    w = random.standard_normal((filters, each, *window)) * np.sqrt(2 / (each * 3 ** len(size)))
    x, bias = random.standard_normal((n, channels, *size)), random.standard_normal(filters)
    return [np.asarray(array, np.float32) for array in (np.maximum(x, 0), w, bias)]


def lowerings(op: Conv, arrays: list[Array], target: Target) -> dict[str, Lowering]:
    types = [TensorType.of(np.float32, arrays[0].shape), *map(TensorType.known, arrays[1:3])]
    types += [TensorType.of(np.float32, each.shape) for each in arrays[3:]]
    return {each.name: each for each in op.lowerings(types, target)}


# Images, channels, filters, groups, size, stride: fewer filters than tiles, and more, in two calls; rows; windows that
# move by two.
CASES = [
    (1, 64, 32, 2, (9, 14), 1),
    (2, 96, 480, 3, (5, 6), 1),
    (1, 64, 64, 4, (13, 10), 2),
    (2, 64, 96, 2, (15,), 2),
]  # fmt: skip


@pytest.mark.parametrize(
    ("n", "channels", "filters", "groups", "size", "stride", "target"),
    over_targets(CASES, 3),
    ids=target_name,
)
def test_groups_of_any_size(
    n: int, channels: int, filters: int, groups: int, size: tuple[int, ...], stride: int, target: Target
) -> None:
    rank = len(size)
    op = Conv((stride,) * rank, pads=ONE[:rank], groups=groups, activation=Activation("relu"))
    arrays = arrays_of(n, channels, filters, groups, size)
    (made,) = op.reference(*arrays)
    op = dataclasses.replace(op, residual=True)
    arrays.append(np.random.default_rng(5).standard_normal(made.shape).astype(np.float32))
    wanted = op.reference(*(x.astype(np.float64) for x in arrays))[0]
    found = {name: each for name, each in lowerings(op, arrays, target).items() if "winograd" in name}
    assert found
    for name, lowering in found.items():
        wider = dataclasses.replace(
            lowering,
            inputs=(Layout(target.lanes(), ((2, 1), (1, 3))[:rank]), *lowering.inputs[1:]),
            outputs=(Layout(target.lanes(), ((1, 0), (0, 2))[:rank]),),
        )
        for variant in (lowering, wider):
            results = [run_lowering(op, variant, arrays, target, chunk=chunk)[0] for chunk in (0, 1, 3)]
            assert all(np.array_equal(results[0], other) for other in results[1:]), name
            assert np.abs(results[0] - wanted).max() <= lowering.tolerance * np.abs(wanted).max(), name


def test_an_infinity_stays_in_its_group() -> None:
    op, arrays = Conv(pads=ONE, groups=2), arrays_of(1, 64, 64, 2, (12, 12))
    arrays[0][0, 3, 4, 4] = np.inf
    target = TARGETS[0]
    y = run_lowering(op, lowerings(op, arrays, target)["winograd_f4"], arrays, target)[0]
    assert not np.isfinite(y[0, :32]).all()
    assert np.isfinite(y[0, 32:]).all()


@pytest.mark.parametrize("groups", [4, 32])
def test_groups_that_fill_no_vectors_have_none(groups: int) -> None:
    channels = 32 if groups == 32 else 48
    op, arrays = Conv(pads=ONE, groups=groups), arrays_of(1, channels, channels, groups, (12, 12))
    assert not any("winograd" in name for name in lowerings(op, arrays, TARGETS[0]))
