"""Operators in Python, declared as onnxruntime-extensions declares them.

Answers and refusals are those of onnxruntime 1.32 with onnxruntime-extensions 0.15.2; where that ends the process, an
error is expected here.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto as T

import cenote
import cenote.ort
from cenote.ort import extensions, python_operators
from cenote.ort.capi.onnxruntime_pybind11_state import Fail, NotImplemented
from cenote.ort.extensions import PyCustomOpDef, get_library_path, onnx_op
from tests.ort.behaviours import model, node, value

FLOATS = [value("x", T.FLOAT, ["a", "b"])]
X = np.arange(-2, 4, dtype=np.float32).reshape(2, 3)
DOMAINS = {"ai.onnx.contrib": 1}


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operators of a test are forgotten after it."""
    monkeypatch.setattr(python_operators, "_declared", {})


def options() -> cenote.ort.SessionOptions:
    made = cenote.ort.SessionOptions()
    made.register_custom_ops_library(get_library_path())
    return made


def one(
    kind: str, outputs: Any = None, inputs: Any = None, domain: str = "ai.onnx.contrib", **more: Any
) -> bytes:
    """A model of one node."""
    inputs, outputs = inputs or FLOATS, outputs or [value("y", T.FLOAT, None)]
    names = [each.name for each in inputs], [each.name for each in outputs]
    return model(inputs, outputs, [node(kind, *names, domain=domain, **more)], domains={**DOMAINS, domain: 1})


def run(content: bytes, *arrays: Any) -> list[Any]:
    session = cenote.ort.InferenceSession(content, options())
    return session.run(None, dict(zip([each.name for each in session.get_inputs()], arrays, strict=True)))


def test_types_and_attributes_are_as_declared() -> None:
    @onnx_op(
        op_type="Mix",
        inputs=[PyCustomOpDef.dt_float, PyCustomOpDef.dt_int64],
        outputs=[PyCustomOpDef.dt_float, PyCustomOpDef.dt_int64],
        attrs={"k": PyCustomOpDef.dt_int64, "f": PyCustomOpDef.dt_float, "s": PyCustomOpDef.dt_string},
    )
    def mix(x: Any, n: Any, k: int, f: float, s: str) -> Any:
        x[x < 0] = 0  # the array is the function's own
        return np.tanh(x.astype(np.float64) * f) + len(s) * k, np.array(n[int(x.sum() > 3) :], np.int32)

    inputs = [*FLOATS, value("n", T.INT64, [None])]
    outputs = [value("y", T.FLOAT, ["a", "b"]), value("m", T.INT64, [None])]
    given = X.copy()
    y, m = run(one("Mix", outputs, inputs, k=3, f=1.5, s="hey", more=3), given, np.array([4, 5]))
    assert (y.dtype, m.dtype, m.tolist()) == (np.float32, np.int64, [5])
    np.testing.assert_array_equal(
        y, (np.tanh(np.maximum(X, 0).astype(np.float64) * 1.5) + 9).astype(np.float32)
    )
    np.testing.assert_array_equal(given, X)


def test_shapes_may_depend_on_content_and_the_model_goes_on_behind() -> None:
    @onnx_op(op_type="Pick")
    def pick(x: Any) -> Any:
        return x[x > 1]

    nodes = [node("Relu", ["x"], ["r"]), node("Pick", ["r"], ["p"], domain="ai.onnx.contrib")]
    content = model(
        FLOATS, [value("y", T.FLOAT, None)], [*nodes, node("Add", ["p", "p"], ["y"])], domains=DOMAINS
    )
    assert run(content, X)[0].tolist() == [4, 6]
    assert run(content, -X)[0].tolist() == [4]


@pytest.mark.parametrize(
    ("element", "onnx_type", "x"),
    [
        (PyCustomOpDef.dt_string, T.STRING, np.array(["ab", "c"], object)),
        (PyCustomOpDef.dt_bool, T.BOOL, np.array([True, False])),
        (PyCustomOpDef.dt_double, T.DOUBLE, np.array([0.1, 2])),
        (PyCustomOpDef.dt_float16, T.FLOAT16, np.array([0.5, 2], np.float16)),
        (PyCustomOpDef.dt_uint8, T.UINT8, np.array([1, 255], np.uint8)),
    ],
)
def test_elements_of_each_type_pass(element: int, onnx_type: int, x: Any) -> None:
    @onnx_op(op_type="Turned", inputs=[element], outputs=[element])
    def turned(x: Any) -> Any:
        return x[::-1]

    (y,) = run(one("Turned", [value("y", onnx_type, None)], [value("x", onnx_type, ["n"])]), x)
    assert (y.dtype, y.tolist()) == (x.dtype, x[::-1].tolist())


def test_an_operator_has_its_functions_name_or_a_domain() -> None:
    @onnx_op()
    def bare(x: Any) -> Any:
        return x + 1

    @onnx_op(op_type="shop::Sum")
    def total(x: Any) -> Any:
        return x.sum()

    assert (bare.op_type, bare(2), extensions.default_opset_domain()) == ("bare", 3, "ai.onnx.contrib")
    np.testing.assert_array_equal(run(one("bare"), X)[0], X + 1)
    assert run(one("Sum", domain="shop"), X)[0].tolist() == 3


def test_it_runs_once_for_each_run_and_node() -> None:
    calls = []

    @onnx_op(op_type="Seen")
    def seen(x: Any) -> Any:
        calls.append(x.shape)
        return x

    nodes = [node("Seen", ["x"], [name], domain="ai.onnx.contrib") for name in "yz"]
    content = model(FLOATS, [value(name, T.FLOAT, None) for name in "yz"], nodes, domains=DOMAINS)
    session = cenote.ort.InferenceSession(content, options())
    assert not calls
    for _ in range(2):
        session.run(None, {"x": X})
    assert calls == [(2, 3)] * 4


FAULTS: dict[str, tuple[Any, str]] = {
    "an exception": (lambda x: x.nothing, "raised AttributeError"),
    "lists": (lambda x: [1.0, 2.0], "not an array"),
    "floats for whole numbers": (lambda x: x, "returned float, which int8"),
    "numbers that do not fit": (lambda x: np.array([300]), "returned int64, which int8"),
    "two outputs": (lambda x: (x, x), "returned 2 outputs, and 1 are declared"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_result_that_is_not_as_declared_is_refused(fault: str) -> None:
    function, text = FAULTS[fault]
    onnx_op(op_type="Faulty", outputs=[PyCustomOpDef.dt_int8])(function)
    with pytest.raises(Fail, match=text) as caught:
        run(one("Faulty", [value("y", T.INT8, None)]), X)
    assert "ai.onnx.contrib.Faulty" in str(caught.value)


def test_a_node_that_is_not_as_declared_is_refused() -> None:
    @onnx_op(op_type="Scaled", attrs={"by": PyCustomOpDef.dt_float})
    def scaled(x: Any, by: float) -> Any:
        return x * by

    with pytest.raises(NotImplemented, match="missing a required argument: 'by'"):
        run(one("Scaled"), X)
    with pytest.raises(NotImplemented, match="too many positional arguments"):
        run(one("Scaled", inputs=[*FLOATS, value("z", T.FLOAT, [1])], by=1.0), X, X)
    with pytest.raises(Fail, match="attribute 'by' is 2, and declared as float"):
        run(one("Scaled", by=2), X)
    with pytest.raises(Fail, match="input 0 is of double, and declared as float"):
        run(one("Scaled", inputs=[value("x", T.DOUBLE, [None])], by=2.0), np.ones(2))
    assert run(one("Scaled", by=2.0), X)[0][0, 0] == -4


def test_declarations_that_cannot_be_are_refused() -> None:
    with pytest.raises(cenote.ArgumentError, match="99 is no element type"):
        onnx_op(op_type="A", inputs=[99])(abs)
    with pytest.raises(cenote.ArgumentError, match="'k' is declared with type 6"):
        onnx_op(op_type="A", attrs={"k": PyCustomOpDef.dt_int32})(abs)
    with pytest.raises(cenote.ArgumentError, match="is no name"):
        onnx_op(op_type="not a name")(abs)
    with pytest.raises(RuntimeError, match="takes arguments"):
        onnx_op(abs)
    onnx_op(op_type="Taken")(lambda x: x)
    with pytest.raises(cenote.ArgumentError, match="Taken is declared twice"):
        onnx_op(op_type="Taken")(one)
    with pytest.raises(AttributeError, match="has no gen_processing_models"):
        _ = extensions.gen_processing_models


def test_operators_can_be_switched_off() -> None:
    onnx_op(op_type="Off")(lambda x: x)
    assert extensions.enable_py_op(False)
    try:
        assert not options().operators
    finally:
        assert not extensions.enable_py_op(True)
    assert [*options().operators] == ["ai.onnx.contrib.Off"]


def test_a_library_in_c_is_refused_with_the_ways() -> None:
    with pytest.raises(
        Fail, match=r"InferenceSession\(…, operators=.* or @onnx_op of onnxruntime_extensions"
    ):
        cenote.ort.SessionOptions().register_custom_ops_library("/nowhere.so")


def test_a_session_takes_functions() -> None:
    session = cenote.ort.InferenceSession(
        one("Frobnicate", domain="shop"), operators={"shop.Frobnicate": lambda x: x + 1}
    )
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], X + 1)


def test_operators_of_the_installed_package_are_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A package in the form of onnxruntime-extensions 0.15.2: operators in a dictionary of its class."""
    definition = SimpleNamespace(input_types=[1], output_types=[1], attrs={})
    made = SimpleNamespace(op_type="Third", body=lambda x: x / 3, _nativedef=definition)
    library = str(tmp_path / "_extensions_pydll.so")
    package = SimpleNamespace(
        Opdef=SimpleNamespace(_odlist={1: made}), get_library_path=lambda: library, __version__="0.15.2"
    )
    monkeypatch.setitem(sys.modules, "onnxruntime_extensions", package)  # type: ignore[arg-type]
    of_package = cenote.ort.SessionOptions()
    of_package.register_custom_ops_library(library)
    session = cenote.ort.InferenceSession(one("Third"), of_package)
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], X / 3)
    package.Opdef = SimpleNamespace()
    with pytest.raises(Fail, match=r"onnxruntime_extensions 0\.15\.2: .*_odlist"):
        cenote.ort.SessionOptions().register_custom_ops_library(library)


PROGRAM = """
import numpy as np
import onnxruntime
from onnxruntime_extensions import PyCustomOpDef, get_library_path, onnx_op

@onnx_op(op_type="Root", inputs=[PyCustomOpDef.dt_float], attrs={"of": PyCustomOpDef.dt_int64})
def root(x, of):
    return np.abs(x) ** (1 / of)

options = onnxruntime.SessionOptions()
options.register_custom_ops_library(get_library_path())
session = onnxruntime.InferenceSession("root.onnx", options)
print(session.run(None, {"x": np.array([[4, 9]], np.float32)})[0].tolist(), onnxruntime.__spec__.loader)
"""


def test_a_program_for_onnxruntime_and_its_extensions_runs_unchanged(tmp_path: Path) -> None:
    (tmp_path / "root.onnx").write_bytes(one("Root", of=2))
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "cenote.ort", "program.py"],
        cwd=tmp_path, env={**os.environ}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "[[2.0, 3.0]] None\n", done.stderr  # None: the stand-in
    if importlib.util.find_spec("onnxruntime_extensions") is not None:
        real = subprocess.run(
            [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert real.stdout.startswith("[[2.0, 3.0]] ")
