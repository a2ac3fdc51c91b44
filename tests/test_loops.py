"""Loops, scans, branches, sequences and optionals in whole models, against ONNX Runtime and NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import cenote
from cenote.codegen import jit
from cenote.core.errors import ArgumentError, DTypeError, InputError, ModelError, ShapeError, UnsupportedError
from tests.loop_models import BOOL, FLOAT, GOES, GOING, INT64, ITER, body, both, model, node, tensor

RNG = np.random.default_rng(5)
X = RNG.standard_normal((1, 4, 9, 7)).astype(np.float32)
W = (RNG.standard_normal((4, 4, 3, 3)) / 6).astype(np.float32)


def convolving(trips: Any) -> onnx.ModelProto:
    """A value goes through a convolution with outer weights while its mean is small; each mean is a scan output."""
    inner = body(
        [
            node("Conv", ["v", "w"], ["c"], pads=[1, 1, 1, 1]),
            node("Relu", ["c"], ["next"]),
            node("ReduceMean", ["next"], ["mean"], keepdims=0),
            node("Less", ["mean", "limit"], ["going"]),
        ],
        [ITER, GOES, tensor("v", FLOAT, None)],
        [GOING, tensor("next", FLOAT, None), tensor("mean", FLOAT, [])],
        limit=np.float32(1e3),
    )
    loop = node("Loop", ["trips", "", "x"], ["y", "means"], body=inner, name="loop")
    outputs = [tensor("y", FLOAT, None), tensor("means", FLOAT, None)]
    return model([loop], [tensor("x", FLOAT, [1, 4, "h", "w"])], outputs, w=W, trips=np.int64(trips))


@pytest.mark.parametrize("trips", [5, 1, 0, -3])
def test_a_loop_with_a_convolution_and_a_scan_output(trips: int) -> None:
    y = both(convolving(trips), {"x": X})
    assert y["means"].shape == (max(trips, 0),)


def test_scan_outputs_of_no_iteration_have_the_extents_of_the_first() -> None:
    """They follow from what the body reads of outside, which decides extents of other values in it too."""
    inner = body(
        [
            node("Identity", ["go"], ["going"]),
            node("Slice", ["v", "start", "end"], ["next"]),
            node("Mul", ["start", "end"], ["part"]),
        ],
        [ITER, GOES, tensor("v", FLOAT, [None])],
        [GOING, tensor("next", FLOAT, [None]), tensor("part", INT64, [None])],
    )
    loop = node("Loop", ["trips", "", "x"], ["y", "parts"], body=inner)
    inputs = [tensor("x", FLOAT, [5]), tensor("start", INT64, [1]), tensor("end", INT64, [1])]
    outputs = [tensor("y", FLOAT, None), tensor("parts", INT64, None)]
    feed = {"x": np.ones(5, np.float32), "start": np.array([1]), "end": np.array([3])}
    y = both(model([loop], inputs, outputs, trips=np.int64(0)), feed)
    assert y["parts"].shape == (0, 1)


def growing() -> onnx.ModelProto:
    """A value that gets a row more in each iteration, and runs through a layer."""
    inner = body(
        [
            node("Identity", ["go"], ["going"]),
            node("MatMul", ["v", "w"], ["m"]),
            node("Tanh", ["m"], ["t"]),
            node("Concat", ["t", "row"], ["next"], axis=0),
        ],
        [ITER, GOES, tensor("v", FLOAT, ["n", 8])],
        [GOING, tensor("next", FLOAT, ["m", 8])],
        row=np.ones((1, 8), np.float32),
    )
    loop = node("Loop", ["trips", "", "x"], ["y"], body=inner, name="loop")
    ends = [tensor("x", FLOAT, ["n", 8])], [tensor("y", FLOAT, None)]
    return model([loop], [*ends[0], tensor("trips", INT64, [])], ends[1], w=np.eye(8, dtype=np.float32) / 2)


def test_sizes_that_change_in_a_loop_compile_nothing_anew() -> None:
    loaded = cenote.load(growing(), threads=1)
    x = RNG.standard_normal((3, 8)).astype(np.float32)
    loaded(x, np.array(4))
    made: list[int] = []
    with jit.watching(lambda done, total: made.append(done)):
        y = loaded(x, np.array(30))
    assert y.shape == (33, 8)
    assert not made
    both(growing(), {"x": x, "trips": np.array(9)})


def test_a_loop_in_a_loop_in_a_branch() -> None:
    inner = body(
        [node("Add", ["u", "x"], ["u2"]), node("Identity", ["go"], ["going"])],
        [ITER, GOES, tensor("u", FLOAT, None)],
        [GOING, tensor("u2", FLOAT, None)],
    )
    outer = body(
        [
            node("Loop", ["j", "", "v"], ["next"], body=inner),
            node("Identity", ["outer_go"], ["outer_going"]),
        ],
        [tensor("j", INT64, []), tensor("outer_go", BOOL, []), tensor("v", FLOAT, None)],
        [tensor("outer_going", BOOL, []), tensor("next", FLOAT, None)],
    )
    branches = {
        "then_branch": body(
            [node("Loop", ["n", "", "x"], ["r"], body=outer)], [], [tensor("r", FLOAT, None)]
        ),
        "else_branch": body([node("Neg", ["x"], ["q"])], [], [tensor("q", FLOAT, None)]),
    }
    inputs = [tensor("x", FLOAT, [2, 3]), tensor("n", INT64, []), tensor("c", BOOL, [])]
    proto = model([node("If", ["c"], ["y"], **branches)], inputs, [tensor("y", FLOAT, [2, 3])])
    x = RNG.standard_normal((2, 3)).astype(np.float32)
    y = both(proto, {"x": x, "n": np.array(4), "c": np.array(True)})["y"]
    np.testing.assert_allclose(y, 7 * x, rtol=1e-5)  # 0 + 1 + 2 + 3 additions
    np.testing.assert_array_equal(both(proto, {"x": x, "n": np.array(4), "c": np.array(False)})["y"], -x)


@pytest.mark.parametrize("backward", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scans_walk_any_axis_in_either_direction(axis: int, backward: int) -> None:
    inner = body(
        [node("Add", ["s", "e"], ["s2"]), node("Mul", ["s2", "w"], ["out"])],
        [tensor("s", FLOAT, None), tensor("e", FLOAT, None)],
        [tensor("s2", FLOAT, None), tensor("out", FLOAT, None)],
    )
    scan = node(
        "Scan", ["start", "x"], ["last", "y"], body=inner, num_scan_inputs=1, scan_input_axes=[axis],
        scan_input_directions=[backward], scan_output_axes=[axis], scan_output_directions=[backward],
    )  # fmt: skip
    x = RNG.standard_normal((3, 4, 5)).astype(np.float32)
    start = np.zeros(np.delete(x.shape, axis), np.float32)
    outputs = [tensor("last", FLOAT, None), tensor("y", FLOAT, None)]
    inputs = [tensor("start", FLOAT, [*start.shape]), tensor("x", FLOAT, [3, 4, 5])]
    both(model([scan], inputs, outputs, w=np.float32(2)), {"start": start, "x": x})


def test_scan_of_opset_8_takes_lengths() -> None:
    inner = body(
        [node("Add", ["s", "e"], ["s2"]), node("Identity", ["s2"], ["out"])],
        [tensor("s", FLOAT, [2]), tensor("e", FLOAT, [2])],
        [tensor("s2", FLOAT, [2]), tensor("out", FLOAT, [2])],
    )
    scan = node("Scan", ["n", "start", "x"], ["last", "y"], body=inner, num_scan_inputs=1, directions=[1])
    inputs = [tensor("n", INT64, [2]), tensor("start", FLOAT, [2, 2]), tensor("x", FLOAT, [2, 3, 2])]
    outputs = [tensor("last", FLOAT, None), tensor("y", FLOAT, None)]
    x = RNG.standard_normal((2, 3, 2)).astype(np.float32)
    feed = {"n": np.array([2, 3]), "start": np.zeros((2, 2), np.float32), "x": x}
    ours = cenote.load(model([scan], inputs, outputs, opset=8), threads=1).run(feed)
    np.testing.assert_allclose(ours["last"], [x[0, :2].sum(0), x[1].sum(0)], rtol=1e-5)
    np.testing.assert_allclose(ours["y"][0], [x[0, 1], x[0, 1] + x[0, 0], [0, 0]], rtol=1e-5)


def branching(condition: bool | None) -> onnx.ModelProto:
    """A branch that Cenote cannot run beside one that it can; with a condition that the file settles, or an input."""
    strings = body(
        [node("StringNormalizer", ["t"], ["u"]), node("Shape", ["u"], ["n"]),
         node("Cast", ["n"], ["q"], to=FLOAT)], [], [tensor("q", FLOAT, None)], t=np.array(["a"], object),
    )  # fmt: skip
    fine = body([node("Neg", ["x"], ["r"])], [], [tensor("r", FLOAT, None)])
    choice = node("If", ["c"], ["y"], then_branch=fine, else_branch=strings, name="choice")
    inputs = [tensor("x", FLOAT, [3])] + ([tensor("c", BOOL, [])] if condition is None else [])
    weights = {} if condition is None else {"c": np.array(condition)}
    return model([choice], inputs, [tensor("y", FLOAT, None)], **weights)


def test_a_branch_that_cannot_be_run_matters_when_it_is_taken() -> None:
    x = np.ones(3, np.float32)
    np.testing.assert_array_equal(cenote.load(branching(True), threads=1)(x), -x)
    with pytest.raises(UnsupportedError, match="StringNormalizer"):
        cenote.load(branching(False), threads=1)
    loaded = cenote.load(branching(None), threads=1)
    np.testing.assert_array_equal(loaded(x, np.array(True)), -x)
    with pytest.raises(UnsupportedError, match=r"this branch was taken, but.*StringNormalizer"):
        loaded(x, np.array(False))
    np.testing.assert_array_equal(loaded(x, np.array(True)), -x)


def sequence(name: str) -> Any:
    return helper.make_tensor_sequence_value_info(name, FLOAT, None)


def test_sequences_go_in_and_out_as_lists() -> None:
    nodes = [
        node("SequenceInsert", ["s", "x", "zero"], ["t"]),
        node("SequenceErase", ["t", "two"], ["u"]),
        node("ConcatFromSequence", ["u"], ["y"], axis=0),
        node("SequenceLength", ["u"], ["n"]),
    ]
    outputs = [sequence("u"), tensor("y", FLOAT, None), tensor("n", INT64, [])]
    proto = model(
        nodes, [sequence("s"), tensor("x", FLOAT, [None, 2])], outputs, zero=np.int64(0), two=np.int64(2)
    )
    loaded = cenote.load(proto, threads=1)
    a, b, x = (RNG.standard_normal((n, 2)).astype(np.float32) for n in (1, 3, 2))
    u, y, n = loaded([a, b], x)
    assert isinstance(u, list)
    np.testing.assert_array_equal(u[0], x)
    assert not np.shares_memory(u[0], x)
    np.testing.assert_array_equal(y, np.concatenate([x, a]))
    assert n == 2
    with pytest.raises(InputError, match="float64"):
        loaded([a.astype(np.float64)], x)
    with pytest.raises(InputError, match="takes a list of arrays"):
        loaded(a, x)
    with pytest.raises(InputError, match="position 2 is outside of a sequence of 2"):
        loaded([a], x)


def test_optionals_are_none_or_an_array() -> None:
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    given = helper.make_value_info("o", kind)
    nodes = [node("OptionalHasElement", ["o"], ["has"]), node("OptionalGetElement", ["o"], ["y"])]
    whole = model(nodes, [given], [tensor("has", BOOL, []), tensor("y", FLOAT, None)])
    has, y = cenote.load(whole, threads=1)(X)
    assert has
    np.testing.assert_array_equal(y, X)
    asks = cenote.load(model(nodes[:1], [given], [tensor("has", BOOL, [])]), threads=1)
    assert not asks(None)
    with pytest.raises(InputError, match="holds nothing"):
        cenote.load(whole, threads=1)(None)


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    loaded = cenote.load(convolving(2), threads=1)
    loaded(X)
    with pytest.raises(UnsupportedError, match="holds no loops"):
        loaded.save(tmp_path / "loop.plan")
    wrong = body(
        [node("Cast", ["v"], ["next"], to=INT64), node("Identity", ["go"], ["going"])],
        [ITER, GOES, tensor("v", FLOAT, None)],
        [GOING, tensor("next", INT64, None)],
    )
    proto = model([node("Loop", ["n", "", "x"], ["y"], body=wrong, name="turns")],
                  [tensor("x", FLOAT, [3])], [tensor("y", INT64, None)], n=np.int64(2))  # fmt: skip
    with pytest.raises(DTypeError, match=r"'turns'.*was float32 and becomes int64"):
        cenote.load(proto, threads=1)(np.ones(3, np.float32))
    proto.graph.node[0].input[0] = "x"
    with pytest.raises(ArgumentError, match=r"'turns' \(loop\).*one integer"):
        cenote.load(proto, threads=1)(np.ones(3, np.float32))


def test_slices_of_different_shapes_cannot_be_stacked() -> None:
    proto = growing()
    loop = proto.graph.node[0]
    loop.attribute[0].g.output.append(tensor("t", FLOAT, None))
    loop.output.append("rows")
    proto.graph.output.append(tensor("rows", FLOAT, None))
    with pytest.raises((ModelError, ShapeError), match=r"cannot be stacked"):
        cenote.load(proto, threads=1)(np.ones((2, 8), np.float32), np.array(3))
