"""The list of convolution algorithms: the contract suite runs all, plans name rivals and their estimates."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import cenote
from cenote.codegen import jit
from cenote.core.target import Target
from cenote.core.types import TensorType
from cenote.kernels.elementwise.activations import Activation
from cenote.ops.base import Lowering
from cenote.ops.conv.algorithms import PROBLEMS
from cenote.ops.conv.conv import Conv
from cenote.ops.conv.conv_transpose import ConvTranspose
from tests.contract.samples import compiled
from tests.harness import lowerings_of, run_lowering
from tests.targets import LARGE, SMALL, TARGETS, anywhere

EVERY = {each.name: each for algorithms in PROBLEMS.values() for each in algorithms}


def algorithm_of(lowering: Lowering) -> str:
    """The algorithm that a lowering is of: Winograd's have tiles behind the name."""
    (name,) = {lowering.name, lowering.name.split("_f")[0]} & {*EVERY}
    return name


def test_names_are_unique() -> None:
    assert len(EVERY) == sum(map(len, PROBLEMS.values()))
    assert len({each.offer for each in EVERY.values()}) == len(EVERY)


def test_the_contract_suite_runs_every_algorithm() -> None:
    """On every sample that it serves: each gives lowerings of its own."""
    seen = {
        algorithm_of(lowering)
        for op in (Conv, ConvTranspose)
        for sample in compiled(op)
        for constants in (True, False)
        for lowering in lowerings_of(sample.op, sample.inputs, TARGETS[0], constants)
    }
    assert seen == {*EVERY}


def weights() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((64, 64, 3, 3)).astype(np.float32)


def test_a_plan_shows_the_estimates_of_the_rivals() -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv", pads=[1] * 4)
    value = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64, 56, 56])]
    result = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    constant = helper.make_tensor("w", TensorProto.FLOAT, (64, 64, 3, 3), weights().ravel())
    graph = helper.make_graph([node], "conv", value, result, [constant])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    text = str(cenote.load(model.SerializeToString(), tune="off").plan)
    (line,) = (line for line in text.splitlines() if "conv: " in line and "against" in line)
    types = (TensorType.of(np.float32, (1, 64, 56, 56)), TensorType.known(weights()))
    found = sorted(
        Conv(pads=((1, 1), (1, 1))).lowerings(types, jit.host_target()), key=lambda each: each.seconds
    )
    assert f"conv: {found[0].name}, cost model: " in line
    assert all(f" {each.name}" in line for each in found[1:4])
    assert len(found) >= 4


@pytest.mark.parametrize(
    ("op", "weights", "wanted"),
    [
        (Conv(groups=32), (32, 1, 3, 3), ["depthwise"]),
        (Conv(groups=16), (32, 2, 3, 3), ["grouped"]),
        (Conv((2, 2)), (48, 32, 3, 3), ["direct", "winograd", "winograd", "winograd"]),
        (Conv((2, 2), exact=True), (48, 32, 3, 3), ["direct"]),
        (Conv(pads=((1, 1), (1, 1)), pool=True), (32, 32, 3, 3), ["winograd", "winograd"]),
        (Conv(pads=((1, 1), (1, 1)), exact=True), (32, 32, 3, 3), ["direct"]),
        (ConvTranspose((2, 2)), (32, 16, 2, 2), ["phases"]),
    ],
)
def test_only_what_serves_a_problem_is_offered(
    op: Conv | ConvTranspose, weights: tuple[int, ...], wanted: list[str]
) -> None:
    types = (TensorType.of(np.float32, (1, 32, 28, 28)), TensorType.known(np.ones(weights, np.float32)))
    op.infer(*types)
    assert [algorithm_of(each) for each in op.lowerings(types, TARGETS[0])] == wanted


@pytest.mark.parametrize(("stride", "depends"), [(1, True), (2, False)])
def test_sizes_are_asked_about_where_much_depends_on_them(stride: int, depends: bool) -> None:
    """Layers that move by two had one plan for all sizes while they were plain sums, and still have."""
    types = (
        TensorType.of(np.float32, (1, 64, 56, 56)),
        TensorType.known(np.ones((64, 64, 3, 3), np.float32)),
    )
    op = Conv((stride, stride), pads=((1, 1), (1, 1)))
    found = list(op.lowerings(types, TARGETS[0]))
    assert len(found) == 4
    assert {each.by_size for each in found} == {depends}


@pytest.mark.parametrize("target", [LARGE, anywhere("avx2"), SMALL], ids=lambda target: target.name)
@pytest.mark.parametrize("channels", [3, 5, 6, 8, 12, 20, 24])
@pytest.mark.parametrize("groups", [13, 55, 65])
def test_groups_whose_number_has_no_fitting_divisor_are_not_all_joined(
    groups: int, channels: int, target: Target
) -> None:
    """All of 55 groups were joined on 16 lanes, 55 times the products, where 56 groups joined in pairs."""

    def least(groups: int) -> float:
        weights = np.ones((groups * channels, channels, 3, 3), np.float32)
        types = (TensorType.of(np.float32, (1, groups * channels, 14, 14)), TensorType.known(weights))
        op = Conv(pads=((1, 1), (1, 1)), groups=groups)
        op.infer(*types)
        return min(float(each.seconds) for each in op.lowerings(types, target))

    assert least(groups) < 2 * least(-(-groups // 16) * 16)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize(("groups", "channels"), [(3, 8), (5, 12), (5, 6)])
def test_groups_in_a_last_vector_that_is_not_full(groups: int, channels: int, target: Target) -> None:
    rng = np.random.default_rng(groups)
    arrays = [
        rng.standard_normal(shape, np.float32)
        for shape in ((2, groups * channels, 9, 7), (groups * channels, channels, 3, 3), (groups * channels,))
    ]
    op = Conv(pads=((1, 1), (1, 1)), groups=groups, activation=Activation("sigmoid"))
    (wanted,) = op.reference(*arrays)
    found = lowerings_of(op, arrays, target, True)
    for lowering in found:
        (y,) = run_lowering(op, lowering, arrays, target)
        np.testing.assert_allclose(y, wanted, atol=2e-6, err_msg=lowering.name)


@pytest.mark.parametrize("weight", [np.inf, -np.inf, np.nan, 2e38])
def test_a_weight_that_a_transform_would_spread_leaves_other_outputs_alone(weight: float) -> None:
    weights = np.ones((32, 32, 3, 3), np.float32)
    weights[5, 0, 0, 0] = weight
    x, op = np.ones((1, 32, 28, 28), np.float32), Conv(pads=((1, 1), (1, 1)))
    with np.errstate(invalid="ignore"):
        (wanted,) = op.reference(x, weights)
    for lowering in lowerings_of(op, (x, weights), jit.host_target(), True):
        (found,) = run_lowering(op, lowering, (x, weights), jit.host_target())
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
