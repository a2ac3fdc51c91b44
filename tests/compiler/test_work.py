"""What steps do, as their descriptions say it: operations, those that are executed, bytes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import cenote
from cenote.codegen.jit import host_target
from cenote.compiler.report import PlanDescription, StepDescription

LANES = host_target().lanes()


def conv(
    channels: int, filters: int, size: int, kernel: int = 3, groups: int = 1, batch: object = 1
) -> onnx.ModelProto:
    weights = (
        np.random.default_rng(0)
        .standard_normal((filters, channels // groups, kernel, kernel))
        .astype(np.float32)
    )
    pad = kernel // 2
    node = helper.make_node("Conv", ["x", "w"], ["y"], "conv", pads=[pad] * 4, group=groups)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, channels, size, size])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, filters, size, size])
    graph = helper.make_graph([node], "g", [x], [y], [numpy_helper.from_array(weights, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def described(model: onnx.ModelProto, precision: str = "fast", **shapes: tuple[int, ...]) -> PlanDescription:
    loaded = cenote.load(model.SerializeToString(), threads=1, precision=precision, tune="off")
    plan = loaded.plan_for(shapes) if shapes else loaded.plan
    return plan.describe()  # type: ignore[union-attr]


def of_node(plan: PlanDescription) -> list[StepDescription]:
    return [step for step in plan.steps if step.node == "conv"]


def test_a_direct_convolution_executes_its_operations_and_the_padding_lanes() -> None:
    (step,) = of_node(described(conv(32, 3 * LANES, 12), "exact"))
    assert step.operations == step.executed_operations == 2 * 144 * 32 * 9 * 3 * LANES
    assert step.written_bytes == 4 * 144 * 3 * LANES
    assert step.read_bytes >= 4 * (144 * 32 + 32 * 9 * 3 * LANES)
    steps = of_node(described(conv(32, 2 * LANES + 1, 12), "exact"))
    executed, plain = (sum(getattr(s, name) for s in steps) for name in ("executed_operations", "operations"))
    assert executed == pytest.approx(plain * 3 * LANES / (2 * LANES + 1), rel=1e-3)


def test_winograd_executes_less_than_the_operator_says() -> None:
    steps = of_node(described(conv(64, 64, 28)))
    assert any("winograd" in step.algorithm for step in steps)
    plain, executed = sum(s.operations for s in steps), sum(s.executed_operations for s in steps)
    assert plain == pytest.approx(2 * 784 * 64 * 9 * 64, rel=1e-3)
    assert 0.2 * plain < executed < 0.75 * plain


def test_groups_that_fill_no_vector_execute_more() -> None:
    steps = of_node(described(conv(3 * LANES, 3 * LANES, 12, groups=LANES)))
    plain, executed = sum(s.operations for s in steps), sum(s.executed_operations for s in steps)
    assert executed > 1.5 * plain


def test_a_plan_of_any_size_gives_those_of_the_size_at_hand() -> None:
    whole = described(conv(16, 32, 12, batch="n"), x=(3, 16, 12, 12))
    fixed = described(conv(16, 32, 12, batch=3))
    for name in ("operations", "read_bytes", "written_bytes"):
        found, wanted = (sum(getattr(s, name) for s in of_node(plan)) for plan in (whole, fixed))
        assert found == pytest.approx(wanted, rel=0.3 if name == "read_bytes" else 1e-9)
    assert whole.memory.blocks
    assert max(block.offset + block.nbytes for block in whole.memory.blocks) <= whole.memory.arena
    assert all(0 <= block.first <= block.last < len(whole.steps) for block in whole.memory.blocks)


def test_the_arena_map_is_that_of_the_plan() -> None:
    plan = described(conv(16, 32, 12))
    for one in plan.memory.blocks:
        assert one.offset + one.nbytes <= plan.memory.arena
        for other in plan.memory.blocks:
            if one is not other and one.first <= other.last and other.first <= one.last:
                assert one.offset + one.nbytes <= other.offset or other.offset + other.nbytes <= one.offset


def test_a_description_survives_json() -> None:
    plan = described(conv(64, 64, 28))
    assert PlanDescription.from_dict(plan.as_dict()) == plan
    assert any(step.rivals for step in plan.steps)
    assert any(step.seconds > 0 for step in plan.steps)


def test_calls_that_do_not_say_share_operations_as_they_share_bytes() -> None:
    node = helper.make_node("ReduceMean", ["x"], ["y"], "mean", keepdims=1)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1 << 20])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1])
    model = helper.make_model(
        helper.make_graph([node], "g", [x], [y]), opset_imports=[helper.make_opsetid("", 17)]
    )
    loaded = cenote.load(model.SerializeToString(), threads=2, tune="off")
    first, second = loaded.plan.describe().steps  # type: ignore[union-attr]
    assert first.operations > 1000 * second.operations, "the second only adds the sums of the parts"


def test_what_selects_reads_no_more_than_it_writes() -> None:
    nodes = [
        helper.make_node("Slice", ["x", "start", "end", "axis"], ["part"], "slice"),
        helper.make_node("Relu", ["part"], ["y"], "relu"),
        helper.make_node("Gather", ["table", "i"], ["z"], "gather"),
    ]
    given = [("x", TensorProto.FLOAT, [4, 64, 32]), ("i", TensorProto.INT64, [5])]
    constants = {"start": np.array([8]), "end": np.array([24]), "axis": np.array([1])}
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(*each) for each in given],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "yz"],
        [numpy_helper.from_array(np.zeros((1000, 8), np.float32), "table")]
        + [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )  # fmt: skip
    loaded = cenote.load(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString(), threads=1
    )
    loaded.run({"x": np.zeros((4, 64, 32), np.float32), "i": np.zeros(5, np.int64)})
    steps = [step for step in loaded.plan.describe().steps if step.node == "gather"]  # type: ignore[union-attr]
    assert sum(step.read_bytes for step in steps) < 1000, "of a table of 32000"
    assert all(step.read_bytes <= step.written_bytes for step in steps)


def test_a_plan_of_any_size_shares_operations_too() -> None:
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["y"], "mean", keepdims=1),
        helper.make_node("Slice", ["x", "start", "end", "axis"], ["z"], "slice"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "length"])
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "yz"]
    constants = {"start": np.array([8]), "end": np.array([1 << 15]), "axis": np.array([1])}
    arrays = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x], ends, arrays), opset_imports=[helper.make_opsetid("", 17)]
    )
    loaded = cenote.load(model.SerializeToString(), threads=2, tune="off")
    plan = loaded.plan_for({"x": (3, 1 << 16)}).describe()
    assert sum(step.operations for step in plan.steps if step.node == "mean") > 0
    assert all(step.read_bytes <= step.written_bytes for step in plan.steps if step.node == "slice")
