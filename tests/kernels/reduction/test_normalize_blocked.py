"""Blocked maps normalised in one pass for the statistics, in pieces where they are few and large."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cenote
from cenote.core.target import Target
from cenote.core.types import Array, Layout, TensorType
from cenote.kernels.reduction.normalize_blocked import pieces_of_maps
from cenote.ops.base import Lowering, Op
from cenote.ops.normalization.instance_normalization import GroupNormalization, InstanceNormalization
from cenote.ops.values import seeded
from tests.harness import run_lowering
from tests.targets import TARGETS, over_targets, target_name

LARGE = (1, 16, 160, 110)  # one unit of 16 channels: in pieces on all targets


def blocked(op: Op, x: Array, parameters: list[Array], target: Target) -> Lowering:
    types = [TensorType.of(x.dtype, x.shape), *map(TensorType.known, parameters)]
    (found,) = (each for each in op.lowerings(types, target) if each.name == "blocked")
    return found


def check(op: Op, x: Array, target: Target, halo: bool = False) -> None:
    """Compare with the operator's float64 reference, and the bits over divisions of the work."""
    parameters = [seeded(x.shape[1:2], 2).astype(x.dtype), seeded(x.shape[1:2], 3).astype(x.dtype)]
    lowering = blocked(op, x, parameters, target)
    if halo:
        around = tuple((1, 2) for _ in x.shape[2:])
        own = Layout(target.lanes(x.dtype), around)
        lowering = dataclasses.replace(lowering, inputs=(own, *lowering.inputs[1:]), outputs=(own,))
    (wanted,) = op.compute(x.astype(np.float64), *(each.astype(np.float64) for each in parameters))
    results = [run_lowering(op, lowering, [x, *parameters], target, chunk=chunk)[0] for chunk in (0, 1, 3)]
    assert all(np.array_equal(results[0], other) for other in results[1:])
    np.testing.assert_allclose(results[0], wanted, rtol=0, atol=lowering.tolerance * np.abs(wanted).max())


PIECES = [(groups, halo) for halo in (False, True) for groups in (1, 2, 16)]


@pytest.mark.parametrize(("groups", "halo", "target"), over_targets(PIECES), ids=target_name)
def test_pieces(groups: int, halo: bool, target: Target) -> None:
    lanes, channels = target.lanes(), LARGE[1] // groups
    pieces, units = pieces_of_maps(TensorType.of(np.float32, LARGE), channels, lanes)
    assert (pieces > 1) == (units < 8)
    check(GroupNormalization(groups), seeded(LARGE, 1), target, halo)


@settings(max_examples=30)
@given(
    st.sampled_from([1, 2, 4, 8]),
    st.lists(st.integers(1, 70), min_size=1, max_size=3),
    st.sampled_from([0.0, 100.0, -3e4]),
    st.sampled_from(TARGETS),
)
def test_any_maps(groups: int, size: list[int], mean: float, target: Target) -> None:
    shape = (1, 8 * target.lanes(), *(min(extent, 9) for extent in size[1:]), size[0])
    check(GroupNormalization(groups), seeded(shape, 4) + np.float32(mean), target)


@pytest.mark.parametrize(
    ("first", "target"), over_targets([(1e4,), (-1e6,), (1e12,)], step=2), ids=target_name
)
def test_a_first_element_far_from_all_others_costs_no_accuracy(first: float, target: Target) -> None:
    x = seeded(LARGE, 5)
    x[:, :, 0, 0] = first
    check(InstanceNormalization(), x, target)
    check(GroupNormalization(2), x, target)


def test_constant_maps_give_the_bias_and_numbers_that_are_none_stay_in_their_channels() -> None:
    target = TARGETS[0]
    x = seeded(LARGE, 6)
    x[0, 3], x[0, 5, 7, 9] = 3e4, np.nan
    parameters = [seeded((LARGE[1],), 2), seeded((LARGE[1],), 3)]
    lowering = blocked(InstanceNormalization(), x, parameters, target)
    (y,) = run_lowering(InstanceNormalization(), lowering, [x, *parameters], target)
    assert (y[0, 3] == parameters[1][3]).all()
    assert np.isnan(y[0, 5]).all()
    assert np.isfinite(np.delete(y[0], 5, axis=0)).all()


def test_open_sizes_are_those_of_fixed_ones() -> None:
    from onnx import helper, numpy_helper

    weights = [numpy_helper.from_array(seeded((16, 16, 3, 3), 1), "w")]
    weights += [numpy_helper.from_array(seeded((16,), 2 + i), name) for i, name in enumerate("sb")]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4),
        helper.make_node("InstanceNormalization", ["c", "s", "b"], ["y"]),
    ]
    for threads in (1, 2):
        models = []
        for size in (["h", "w"], [90, 64]):
            ends = [helper.make_tensor_value_info(name, 1, [1, 16, *size]) for name in "xy"]
            graph = helper.make_graph(nodes, "norm", ends[:1], ends[1:], weights)
            opsets = [helper.make_opsetid("", 17)]
            models.append(
                cenote.load(helper.make_model(graph, opset_imports=opsets, ir_version=8), threads=threads)
            )
        x = seeded((1, 16, 90, 64), 7)
        models[0](seeded((1, 16, 33, 20), 8))
        np.testing.assert_allclose(models[0](x), models[1](x), atol=1e-5)
