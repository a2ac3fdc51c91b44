"""The trained model and the pictures that ship with the package are what their README says."""

from pathlib import Path

import numpy as np
import onnx
import pytest

ROOT = Path(__file__).resolve().parents[1]
EMBEDDED = ROOT / "src" / "cenote" / "data"
SLICE = ROOT / "tests" / "data" / "fashion_slice.npz"
LARGEST_MODEL_BYTES = 1_000_000
CLASSES = 10


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return onnx.load(EMBEDDED / "fashion.onnx")


def load_pictures(path: Path) -> tuple[np.ndarray, np.ndarray]:
    with np.load(path, allow_pickle=False) as content:
        return content["pictures"], content["labels"]


def dimensions(value: onnx.ValueInfoProto) -> list[int | str]:
    return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]


def test_model_is_valid_and_small(model: onnx.ModelProto) -> None:
    onnx.checker.check_model(model, full_check=True)
    assert (EMBEDDED / "fashion.onnx").stat().st_size <= LARGEST_MODEL_BYTES


def test_model_uses_only_vgg_operators(model: onnx.ModelProto) -> None:
    assert {node.op_type for node in model.graph.node} == {"Conv", "Relu", "MaxPool", "Flatten", "Gemm"}
    assert {node.domain for node in model.graph.node} == {""}


def test_model_interface(model: onnx.ModelProto) -> None:
    (picture,), (logits,) = model.graph.input, model.graph.output
    assert (picture.name, dimensions(picture)) == ("picture", ["batch", 1, 28, 28])
    assert (logits.name, dimensions(logits)) == ("logits", ["batch", CLASSES])
    assert picture.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    assert model.ir_version == 8
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", 17)]


def test_model_names_its_classes(model: onnx.ModelProto) -> None:
    labels = {entry.key: entry.value for entry in model.metadata_props}["labels"].split(",")
    assert len(labels) == len(set(labels)) == CLASSES
    assert all(labels)


def test_weights_are_trained_numbers(model: onnx.ModelProto) -> None:
    # A placeholder file, all zero or all equal, would let a broken engine pass every later test.
    for initializer in model.graph.initializer:
        weights = onnx.numpy_helper.to_array(initializer)
        assert weights.dtype == np.float32
        assert np.isfinite(weights).all()
        assert weights.std() > 0


def test_slice_is_the_first_thousand_test_pictures() -> None:
    pictures, labels = load_pictures(SLICE)
    assert (pictures.shape, pictures.dtype) == ((1000, 28, 28), np.uint8)
    assert (labels.shape, labels.dtype) == ((1000,), np.uint8)
    assert set(labels.tolist()) == set(range(CLASSES))


def test_bundled_pictures_follow_the_stated_rule() -> None:
    """The first of each class, then the first two left in the test set's order: no model had a say."""
    pictures, labels = load_pictures(EMBEDDED / "pictures.npz")
    slice_pictures, slice_labels = load_pictures(SLICE)
    chosen = [int(np.flatnonzero(slice_labels == label)[0]) for label in range(CLASSES)]
    chosen += [index for index in range(CLASSES + 2) if index not in chosen][:2]
    np.testing.assert_array_equal(pictures, slice_pictures[chosen])
    np.testing.assert_array_equal(labels, slice_labels[chosen])


def test_licence_travels_with_the_data() -> None:
    licence = (EMBEDDED / "LICENSE-fashion-mnist.txt").read_text(encoding="utf-8")
    assert "Zalando" in licence
    assert "Permission is hereby granted, free of charge" in licence
