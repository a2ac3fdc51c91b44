"""What a new user tries first in Python: lists, wrong names, missing files, looking around, a notebook."""

from __future__ import annotations

import copy
import errno
import inspect
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import cenote
import cenote.functional as F
from cenote.core.errors import MissingFileError


def typed_model(kind: int, shape: list[int | str] | None) -> cenote.Model:
    """y = x."""
    x = helper.make_tensor_value_info("x", kind, shape)
    y = helper.make_tensor_value_info("y", kind, None)
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "small", [x], [y])
    return cenote.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


@pytest.fixture
def double() -> onnx.ModelProto:
    """picture -> doubled, of any batch."""
    x = helper.make_tensor_value_info("picture", TensorProto.FLOAT, ["batch", 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])
    graph = helper.make_graph([helper.make_node("Add", ["picture"] * 2, ["y"])], "<double>", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


# ---- inputs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "shape", "value", "expected"),
    [
        (TensorProto.FLOAT, ["n", 2], [[1, 2.5], (3, 4)], np.array([[1, 2.5], [3, 4]], np.float32)),
        (TensorProto.FLOAT, [], 1.5, np.float32(1.5)),
        (TensorProto.FLOAT, [1], [float("inf")], np.array([np.inf], np.float32)),
        (TensorProto.INT64, [], 16000, np.int64(16000)),
        (TensorProto.UINT8, [2], [0, 255], np.array([0, 255], np.uint8)),
        (TensorProto.BOOL, [2], [True, False], np.array([True, False])),
        (
            TensorProto.FLOAT,
            [2, 1],
            [np.ones(1, np.float32), np.zeros(1, np.float32)],
            np.array([[1], [0]], "f4"),
        ),
        (TensorProto.FLOAT, [0, 2], np.zeros((0, 2), np.float32), np.zeros((0, 2), np.float32)),
    ],
)
def test_numbers_and_nested_lists_are_inputs(
    kind: int, shape: list[int | str], value: Any, expected: Any
) -> None:
    model = typed_model(kind, shape)
    for y in (model(value), model(x=value), model.run({"x": value})["y"]):
        assert y.dtype == expected.dtype
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        (TensorProto.INT64, [1, 2.5], r"holds 2\.5 \(float\), which is no int64"),
        (TensorProto.INT64, [True, False], r"holds True \(bool\), which is no int64"),
        (TensorProto.BOOL, [1, 0], r"holds 1 \(int\), which is no bool"),
        (TensorProto.UINT8, [1, 256], "holds 256, which does not fit uint8"),
        (TensorProto.UINT8, [1, -1], "holds -1, which does not fit uint8"),
        (TensorProto.FLOAT, [1.0, 1e39], "holds numbers that do not fit float32"),
        (TensorProto.FLOAT16, [1.0, 70000], "holds numbers that do not fit float16"),
        (TensorProto.FLOAT, [1, 10**400], "cannot be made an array of float32"),
        (TensorProto.FLOAT, [[1], [1, 2]], "cannot be made an array of float32"),
        (TensorProto.FLOAT, [1, None], r"holds None \(NoneType\)"),
        (TensorProto.FLOAT, [1, "2"], r"holds '2' \(str\)"),
        (TensorProto.FLOAT, [np.ones(1), np.ones(1)], r"holds float64, not float32; convert it with"),
    ],
)
def test_values_of_another_kind_are_refused(kind: int, value: Any, reason: str) -> None:
    with pytest.raises(cenote.InputError, match=rf"input 'x': {reason}"):
        typed_model(kind, [2])(value)


def test_a_list_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(cenote.InputError, match="nested more than"):
        typed_model(TensorProto.FLOAT, [1])(endless)


def test_a_list_beside_a_tensor_leaves_the_answer_a_tensor() -> None:
    torch = pytest.importorskip("torch")
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "ab"]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    graph = helper.make_graph([helper.make_node("Add", ["a", "b"], ["y"])], "sum", inputs, [y])
    model = cenote.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    assert torch.equal(model(torch.ones(2), [1, 2]), torch.tensor([2.0, 3.0]))


def test_a_name_that_is_no_input_is_named(double: onnx.ModelProto) -> None:
    model, x = cenote.load(double), np.zeros((1, 3), np.float32)
    for call in (lambda: model(pic=x), lambda: model.run({"pic": x}), lambda: next(model.map([{"pic": x}]))):
        with pytest.raises(
            cenote.InputError, match="'pic' is no input of the model; its inputs: picture: float32"
        ):
            call()


# ---- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["none.onnx", "none.cenote"])
def test_a_missing_file_is_a_file_not_found(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileNotFoundError, match=f"{name}: there is no such file") as caught:
        cenote.load(tmp_path / name)
    assert isinstance(caught.value, cenote.ModelError)
    assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, str(tmp_path / name))


def test_missing_weights_are_a_file_not_found(double: onnx.ModelProto, tmp_path: Path) -> None:
    weights = helper.make_tensor("w", TensorProto.FLOAT, [3], [0.0] * 3)
    weights.ClearField("float_data")
    weights.data_location = TensorProto.EXTERNAL
    weights.external_data.add(key="location", value="weights.bin")
    double.graph.initializer.append(weights)
    double.graph.node[0].input[1] = "w"
    (tmp_path / "m.onnx").write_bytes(double.SerializeToString())
    with pytest.raises(FileNotFoundError, match=r"external data 'weights\.bin' is missing"):
        cenote.load(tmp_path / "m.onnx")


def test_the_error_of_a_missing_file_keeps_what_it_knows() -> None:
    error = MissingFileError("there is no such file", "a.onnx").located("here")
    for same in (error, copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(same) is MissingFileError
        assert (str(same), same.filename, same.errno) == (
            "here: there is no such file",
            "a.onnx",
            errno.ENOENT,
        )


# ---- looking around --------------------------------------------------------------------------------------------------


def test_every_attribute_of_a_model_can_be_read(double: onnx.ModelProto) -> None:
    """Inspectors (help, a debugger, a notebook's completion) read them all, before the first run too."""
    model = cenote.load(double)
    for name in dir(model):
        getattr(model, name)
    inspect.getmembers(model)
    assert not model.plan
    assert "run it once, or call plan_for(shapes)" in str(model.plan)
    assert model.plans == ()
    with pytest.raises(cenote.InputError, match="plan_for"):
        model.plan.describe()
    model(np.zeros((1, 3), np.float32))
    assert model.plan
    assert model.plans == (model.plan,)


def test_a_notebook_shows_models_and_plans(double: onnx.ModelProto, tmp_path: Path) -> None:
    model = cenote.load(double)
    assert "picture" in model._repr_html_()
    assert "float32[batch,3]" in model._repr_html_()
    model(np.zeros((1, 3), np.float32))
    model.save(tmp_path / "double.cenote")
    stored = cenote.load(tmp_path / "double.cenote")
    for shown in (model, model.plan, model.plan.describe(), stored, stored.plan):
        text = shown._repr_html_()
        assert "&lt;double&gt;" in text
        assert "<double>" not in text, "names of the file are text, not HTML"
        assert model.plan.describe().kernels[0][0] in text
        for tag in ("table", "tr", "td", "th", "details", "pre", "p"):
            assert text.count(f"<{tag}>") + text.count(f"<{tag} ") == text.count(f"</{tag}>"), tag


def test_dir_lists_what_is_public() -> None:
    assert dir(F) == sorted(F.__all__)
    assert dir(cenote) == sorted(cenote.__all__)


def test_functional_needs_no_import_of_its_own() -> None:
    program = "import cenote, sys; assert 'cenote.functional' not in sys.modules; print(cenote.functional.max_pool2d)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "max_pool2d" in done.stdout, done.stderr
