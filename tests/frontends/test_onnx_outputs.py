"""The types of outputs that a model leaves open: ONNX infers them, and never ends the process on a wrong model."""

from __future__ import annotations

import contextlib

import numpy as np
import onnx
import pytest
from numpy.typing import ArrayLike
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto
from onnx.helper import make_function, make_graph, make_model, make_node, make_opsetid, make_tensor_value_info
from onnx.numpy_helper import from_array

import cenote
from cenote.frontends.onnx_inference import inferred

FLOAT = TensorProto.FLOAT
CROP: dict[str, ArrayLike] = {"starts": [0], "ends": [1], "axes": [2]}


def model_of(nodes: list[NodeProto], shape: tuple[int | str, ...], **arrays: ArrayLike) -> ModelProto:
    """A model of input x and output y, of which nothing is declared."""
    constants = [
        from_array(np.asarray(a, np.float32 if np.asarray(a).dtype.kind == "f" else np.int64), n)
        for n, a in arrays.items()
    ]
    x = make_tensor_value_info("x", FLOAT, shape)
    graph = make_graph(nodes, "g", [x], [ValueInfoProto(name="y")], constants)
    return make_model(graph, opset_imports=[make_opsetid("", 18)], ir_version=10)


def crop(name: str = "z", made: str = "y") -> NodeProto:
    return make_node("Slice", [name, "starts", "ends", "axes"], [made])


# Each leaves a negative extent to a Slice: ONNX's inference aborts the process on these.
NEGATIVE: dict[str, tuple[list[NodeProto], dict[str, ArrayLike]]] = {
    "padding": ([make_node("Pad", ["x", "pads"], ["z"])], {"pads": [0, 0, -2, 0, 0, -2]}),
    "pool": ([make_node("MaxPool", ["x"], ["z"], kernel_shape=[9])], {}),
    "average": ([make_node("AveragePool", ["x"], ["z"], kernel_shape=[9], strides=[2])], {}),
    "convolution": ([make_node("Conv", ["x", "w"], ["z"])], {"w": np.ones((3, 3, 9))}),
    "transposed": ([make_node("ConvTranspose", ["x", "w"], ["z"], pads=[9, 9])], {"w": np.ones((3, 3, 2))}),
    "after a slice": (
        [
            crop("x", "s"),
            make_node("MaxPool", ["s"], ["p"], kernel_shape=[9]),
            make_node("Relu", ["p"], ["z"]),
        ],
        {},
    ),
    "beside a slice": (
        [
            crop("x", "s"),
            make_node("Relu", ["s"], ["r"]),
            make_node("MaxPool", ["x"], ["p"], kernel_shape=[9]),
            make_node("Concat", ["r", "p"], ["z"], axis=2),
        ],
        {},
    ),
}


@pytest.mark.parametrize("batch", [1, "n"])
@pytest.mark.parametrize("case", NEGATIVE)
def test_a_negative_extent_before_a_slice_is_refused(case: str, batch: int | str) -> None:
    nodes, arrays = NEGATIVE[case]
    model = model_of([*nodes, crop()], (batch, 3, 2), **(CROP | arrays))
    with pytest.raises(cenote.CenoteError):
        cenote.load(model)(np.zeros((1, 3, 2), np.float32))


def test_slices_in_functions_are_not_shown_to_onnx() -> None:
    nodes = [make_node("MaxPool", ["a"], ["p"], kernel_shape=[9]), crop("p", "b")]
    opset = [make_opsetid("", 18)]
    parameters = ["a", "starts", "ends", "axes"]
    model = model_of(
        [make_node("F", ["x", "starts", "ends", "axes"], ["y"], domain="own")], (1, 3, 2), **CROP
    )
    model.functions.append(make_function("own", "F", parameters, ["b"], nodes, opset))
    model.opset_import.append(make_opsetid("own", 1))
    with pytest.raises(cenote.CenoteError):
        cenote.load(model)(np.zeros((1, 3, 2), np.float32))


def test_slices_in_bodies_are_not_shown_to_onnx() -> None:
    pool = make_node("MaxPool", ["x"], ["p"], kernel_shape=[9])
    body = make_graph([pool, crop("p", "b")], "body", [], [ValueInfoProto(name="b")])
    same = make_graph([make_node("Identity", ["x"], ["c"])], "same", [], [ValueInfoProto(name="c")])
    choose = make_node("If", ["choice"], ["y"], then_branch=same, else_branch=body)
    model = model_of([choose], (1, 3, 2), **CROP)
    model.graph.initializer.append(from_array(np.array(True), "choice"))
    x = np.ones((1, 3, 2), np.float32)
    assert np.array_equal(cenote.load(model)(x), x)


def test_a_declared_negative_extent_is_an_unknown_one() -> None:
    model = model_of([crop("x")], (-1, 3, -1), **CROP)
    loaded = cenote.load(model)
    assert loaded(np.ones((2, 3, 4), np.float32)).shape == (2, 3, 1)


def test_sizes_behind_slices_are_inferred() -> None:
    nodes = [
        crop("x", "s"),  # the first round
        make_node("MaxPool", ["s"], ["p"], kernel_shape=[1]),
        crop("p", "t"),  # the second
        make_node("Conv", ["t", "w"], ["u"]),
        crop("u", "y"),  # the third
    ]
    model = model_of(nodes, ("n", 3, 8), **(CROP | {"w": np.ones((5, 3, 1)), "ends": [4]}))
    (y,) = cenote.load(model).declared_outputs
    assert y.shape == ("n", 5, 4)


def test_slices_of_shapes_are_shown() -> None:
    nodes = [
        make_node("MaxPool", ["x"], ["p"], kernel_shape=[1]),
        make_node("Shape", ["p"], ["s"]),
        make_node("Slice", ["s", "starts", "ends"], ["t"]),
        make_node("Concat", ["t", "rest"], ["u"], axis=0),
        make_node("Reshape", ["p", "u"], ["y"]),
    ]
    (y,) = cenote.load(model_of(nodes, (2, 3, 8), starts=[0], ends=[1], rest=[4, 6])).declared_outputs
    assert y.shape == (2, 4, 6)


@pytest.mark.parametrize("value", [-100, 100, (1 << 31) + 1, -(1 << 31) - 5, (1 << 63) - 1, -(1 << 63)])
def test_no_number_of_any_operator_ends_the_process(value: int) -> None:
    """onnx 1.23 read beyond its dimensions for two of these: an axis of LayerNormalization, batch_dims of GatherND."""
    for schema in onnx.defs.get_all_schemas_with_history():
        names = [f"x{i}" for i in range(max(schema.min_input, min(schema.max_input, 3)))]
        for attribute in schema.attributes.values():
            if schema.domain or attribute.type.name not in ("INT", "INTS"):
                continue
            given = {attribute.name: value if attribute.type.name == "INT" else [value]}
            node = make_node(schema.name, names, ["y", "m"][: schema.max_output], **given)
            inputs = [make_tensor_value_info(name, FLOAT, (2, 3, 4, 8)) for name in names]
            graph = make_graph([node], "g", inputs, [ValueInfoProto(name="y")])
            model = make_model(graph, opset_imports=[make_opsetid("", schema.since_version)])
            with contextlib.suppress(onnx.shape_inference.InferenceError):
                inferred(model, lambda made: False)


@pytest.mark.parametrize("opset", [9, 17])
def test_results_that_an_operator_does_not_have_are_refused(opset: int) -> None:
    """SequenceConstruct is of opset 11; exporters write operators of later opsets into older ones."""
    x, y, z = (make_tensor_value_info(name, FLOAT, (2,)) for name in "xyz")
    graph = make_graph([make_node("SequenceConstruct", ["x"], ["y", "z"])], "g", [x], [y, z])
    model = make_model(graph, opset_imports=[make_opsetid("", opset)])
    with pytest.raises(cenote.ModelError, match="has 2 outputs, but takes 1"):
        cenote.load(model)
