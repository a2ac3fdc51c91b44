"""Standing in for onnxruntime in a process, for programs that are not edited, and handing over what is refused."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper

import cenote
import cenote.ort
from cenote.ort import fallback
from tests.ort.behaviours import FEED, TWO, N, X, model, node, value

REAL = importlib.util.find_spec("onnxruntime") is not None
needs_onnxruntime = pytest.mark.skipif(not REAL, reason="onnxruntime is not installed")
# An operator that Cenote does not have and onnxruntime has: distances of two points each.
REFUSED = model(
    [value("a", T.FLOAT, ["N", 2]), value("b", T.FLOAT, ["M", 2])],
    [value("d", T.FLOAT, ["N", "M"])],
    [node("CDist", ["a", "b"], ["d"], domain="com.microsoft", metric="euclidean")],
    domains={"com.microsoft": 1},
)
POINTS = {"a": np.array([[0, 0]], np.float32), "b": np.array([[3, 4], [0, 1]], np.float32)}


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A Python process that ends well."""
    ended = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    return ended


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "two.onnx").write_bytes(TWO)
    return tmp_path / "two.onnx"


PROGRAM = """
import sys, numpy as np
import onnxruntime as ort
from onnxruntime import InferenceSession, SessionOptions, get_available_providers
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
from onnxruntime.capi import _pybind_state as C
import onnxruntime.capi.onnxruntime_inference_collection as collection
session = InferenceSession(sys.argv[1], SessionOptions(), providers=get_available_providers())
try:
    session.run(None, {"x": np.ones((2, 3, 4)), "n": np.array([1, 2])})
except InvalidArgument as error:
    print("refused", C.InvalidArgument is InvalidArgument, collection.InferenceSession is ort.InferenceSession)
print(type(session).__module__, session.run(["m"], {"x": np.ones((2, 3, 4), np.float32), "n": [1, 2]})[0])
print(sys.argv[1:], __name__)
"""


def check(out: str, arguments: list[str]) -> None:
    assert out.splitlines() == [
        "refused True True", "cenote.ort.session [2 4]", f"{arguments} __main__"
    ]  # fmt: skip


def test_install(path: Path) -> None:
    program = (
        f"import sys; sys.argv[1:] = [{str(path)!r}]\nimport cenote.ort\ncenote.ort.install()\n{PROGRAM}"
    )
    check(python("-c", program).stdout, [str(path)])


def test_a_script_is_run(path: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import beside\n" + PROGRAM)
    (tmp_path / "beside.py").touch()
    check(python("-m", "cenote.ort", str(script), str(path), "-x").stdout, [str(path), "-x"])


def test_a_module_is_run(path: Path, tmp_path: Path) -> None:
    package = tmp_path / "a_program"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(PROGRAM)
    ended = python(
        "-m",
        "cenote.ort",
        "-m",
        "a_program",
        str(path),
        PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}",
    )
    check(ended.stdout, [str(path)])


@pytest.mark.parametrize("way", [["a-command"], ["-m", "a_command_package"]])
def test_an_installed_command_is_run(path: Path, tmp_path: Path, way: list[str]) -> None:
    """By its name, and by that of its package where that does not say how to run it."""
    package, about = tmp_path / "a_command_package", tmp_path / "a_command-1.0.dist-info"
    package.mkdir()
    about.mkdir()
    body = PROGRAM.replace("\n", "\n    ").replace("__name__", "'__main__'")
    (package / "__init__.py").write_text(f"def main():\n    {body}\n    return 0\n")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: a-command\nVersion: 1.0\n")
    commands = "a-command = a_command_package:main\na_command_package = a_command_package:main\n"
    (about / "entry_points.txt").write_text(f"[console_scripts]\n{commands}")
    folders = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    ended = python("-m", "cenote.ort", *way, str(path), PYTHONPATH=folders)
    check(ended.stdout, [str(path)])


def test_a_program_must_be_named() -> None:
    ended = subprocess.run([sys.executable, "-m", "cenote.ort"], capture_output=True, text=True)
    assert ended.returncode == 2
    assert "usage: python -m cenote.ort" in ended.stdout
    ended = subprocess.run(
        [sys.executable, "-m", "cenote.ort", "--fallback", "x"], capture_output=True, text=True
    )
    assert "--fallback: 'x' is not known" in ended.stderr


@pytest.mark.parametrize(
    "way", [["nothing.py"], ["-c", "print(1)"], ["-m", "nothing"], ["-m", "nothing.inside"]]
)
def test_a_program_that_is_not_there(way: list[str]) -> None:
    ended = subprocess.run([sys.executable, "-m", "cenote.ort", *way], capture_output=True, text=True)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert ended.stderr.splitlines()[-1].startswith(f"'{way[-1] if '-m' in way else way[0]}' is not a")


@needs_onnxruntime
def test_what_was_imported_before_is_told() -> None:
    ended = python(
        "-c",
        "import onnxruntime, cenote.ort; cenote.ort.install(); import onnxruntime as o; print(o.install)",
    )
    assert "onnxruntime has been imported before" in ended.stderr
    assert "function install" in ended.stdout


@needs_onnxruntime
def test_subpackages_in_python_stay_at_hand() -> None:
    program = (
        "import cenote.ort; cenote.ort.install(); import onnxruntime.datasets, onnxruntime\n"
        "print(onnxruntime.datasets.__name__, onnxruntime.InferenceSession.__module__)"
    )
    assert python("-c", program).stdout.split() == ["onnxruntime.datasets", "cenote.ort.session"]


@needs_onnxruntime
def test_a_refused_model_is_handed_over_and_told_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fallback, "_told", set())
    with caplog.at_level(logging.WARNING, "cenote.ort"):
        for _ in range(2):
            session = cenote.ort.InferenceSession(REFUSED, fallback="onnxruntime")
            given = {**POINTS, "a": cenote.ort.OrtValue.ortvalue_from_numpy(POINTS["a"])}
            assert session.run(["d"], given, cenote.ort.RunOptions())[0].tolist() == [[5, 1]]
    (record,) = caplog.records
    assert "runs a model that Cenote refuses" in record.message
    assert "CDist" in record.message
    assert [node.shape for node in session.get_outputs()] == [["N", "M"]]
    assert session.get_modelmeta().producer_name == "maker"
    with pytest.raises(cenote.ort.capi.onnxruntime_pybind11_state.InvalidArgument):
        session.run(None, {**POINTS, "a": POINTS["a"].astype(np.float64)})


WITHOUT = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name == "onnxruntime":
            raise ModuleNotFoundError("No module named 'onnxruntime'", name=name)
sys.meta_path.insert(0, Hidden())
import cenote.ort
cenote.ort.install("onnxruntime")
import onnxruntime, importlib
print(onnxruntime.__file__ == cenote.ort.__file__)
for name in ("quantization", "tools.symbolic_shape_infer", "nothing"):
    try:
        importlib.import_module(f"onnxruntime.{name}")
    except ModuleNotFoundError as error:
        print(error)
try:
    from onnxruntime import quantization
except ImportError as error:
    print(error)
try:
    onnxruntime.InferenceSession(sys.argv[1])
except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented as error:
    print(error)
"""


def test_without_onnxruntime_what_is_missing_is_told(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(REFUSED)
    found = python("-c", WITHOUT, str(tmp_path / "m.onnx")).stdout.splitlines()
    told = "is a part of onnxruntime, which is not installed (cenote.ort stands in for the rest of it)"
    assert found[0] == "True"
    assert found[1].startswith(f"onnxruntime.quantization {told}")
    assert found[2].startswith(f"onnxruntime.tools {told}")
    assert found[3] == "No module named 'onnxruntime.nothing'"
    assert found[4] == found[1]
    assert "CDist" in found[5]
    assert "onnxruntime, the fallback, is not installed" in found[5]


@needs_onnxruntime
def test_a_stand_in_hands_over_too(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(REFUSED)
    program = (
        f"import onnxruntime as o, sys\nprint(type(o.InferenceSession({str(tmp_path / 'm.onnx')!r})).__module__)\n"
        "print(sys.modules['onnxruntime'] is o)"
    )
    (tmp_path / "script.py").write_text(program)
    ended = python("-m", "cenote.ort", "--fallback", "onnxruntime", str(tmp_path / "script.py"))
    assert ended.stdout.split() == ["cenote.ort.session", "True"]
    assert "runs a model that Cenote refuses" in ended.stderr


def test_without_a_fallback_the_refusal_stays() -> None:
    with pytest.raises(cenote.ort.errors.NotImplemented, match="CDist"):
        cenote.ort.InferenceSession(REFUSED)
    with pytest.raises(cenote.ArgumentError, match="fallback: 'tensorflow' is not known"):
        cenote.ort.InferenceSession(TWO, fallback="tensorflow")


# ---- sessions -------------------------------------------------------------------------------------------------------


def test_a_plan_file_is_a_model_too(path: Path) -> None:
    loaded = cenote.load(path)
    loaded.plan_for({name: array.shape for name, array in FEED.items()})
    loaded.save(path.with_suffix(".cenote"))
    session = cenote.ort.InferenceSession(path.with_suffix(".cenote"))
    assert [node.shape for node in session.get_outputs()] == [["b", 3, None], [2]]
    assert session.get_modelmeta().graph_name == "the_graph"
    assert np.array_equal(session.run(["m"], FEED)[0], [2, 4])


def test_shapes_and_description_come_out_of_the_cache(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CENOTE_PLAN_CACHE", "100")
    for _ in ("imported", "out of the cache"):
        session = cenote.ort.InferenceSession(path)
        session.run(None, FEED)
        assert [node.shape for node in session.get_outputs()] == [["b", 3, None], [2]]
        assert session.get_modelmeta().description == "of a model"


def test_options_reach_the_model() -> None:
    options = cenote.ort.SessionOptions()
    options.intra_op_num_threads = 2
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    session = cenote.ort.InferenceSession(TWO, options)
    assert (session._model.threads, session._model.denormals) == (2, "flush")
    assert session.get_session_options() is options


def test_a_run_on_another_thread() -> None:
    done, seen = threading.Event(), []

    def callback(*arguments: Any) -> None:
        seen.append(arguments)
        if len(seen) == 2:
            done.set()

    session = cenote.ort.InferenceSession(TWO)
    session.run_async(["m"], FEED, callback, "mine")
    session.run_async(["q"], FEED, callback, "mine")
    assert done.wait(60)
    assert sorted((len(results), data, bool(error)) for results, data, error in seen) == [
        (0, "mine", True), (1, "mine", False),
    ]  # fmt: skip


def test_a_profile_is_written(tmp_path: Path) -> None:
    options = cenote.ort.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "p_")
    session = cenote.ort.InferenceSession(TWO, options)
    session.run(None, FEED)
    events = json.loads(Path(session.end_profiling()).read_text())
    assert [event["name"] for event in events] == ["session_initialization", "model_run"]
    assert session.end_profiling() == ""


def test_the_model_is_written_where_that_is_asked_for(path: Path, tmp_path: Path) -> None:
    options = cenote.ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "written.onnx")
    cenote.ort.InferenceSession(path, options)
    assert np.array_equal(cenote.ort.InferenceSession(tmp_path / "written.onnx").run(["m"], FEED)[0], 2 * N)


def test_dimensions_are_fixed_by_denotation() -> None:
    import onnx

    proto = onnx.ModelProto.FromString(TWO)
    proto.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    options = cenote.ort.SessionOptions()
    options.add_free_dimension_override_by_denotation("DATA_BATCH", 2)
    session = cenote.ort.InferenceSession(proto.SerializeToString(), options)
    assert session.get_inputs()[0].shape == [2, 3, None]
    assert np.array_equal(session.run(["y"], FEED)[0], X)


def test_onnxruntimes_own_format_is_refused_by_name() -> None:
    with pytest.raises(cenote.ort.errors.NotImplemented, match=r"own format \(.ort\)"):
        cenote.ort.InferenceSession(b"\x10\x00\x00\x00ORTM" + bytes(64))


def test_the_module_names_what_there_is() -> None:
    for name in cenote.ort.__all__:
        assert getattr(cenote.ort, name) is not None


@pytest.mark.parametrize("location", ["nowhere.bin", "../outside.bin", "short.bin"])
def test_a_weight_beside_the_model_that_is_not_to_be_had(tmp_path: Path, location: str) -> None:
    """Also where another weight is replaced."""
    weights = [numpy_helper.from_array(np.ones(4, np.float32), name) for name in "wv"]
    weights[1].ClearField("raw_data")
    weights[1].data_location = T.EXTERNAL
    weights[1].external_data.add(key="location", value=location)
    (tmp_path / "short.bin").write_bytes(b"123")
    graph = helper.make_graph(
        [helper.make_node("Sum", ["x", "w", "v"], ["y"])],
        "sum", [value("x", T.FLOAT, [4])], [value("y", T.FLOAT, [4])], weights,
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    options = cenote.ort.SessionOptions()
    options.add_initializer("w", cenote.ort.OrtValue.ortvalue_from_numpy(np.zeros(4, np.float32)))
    with pytest.raises(
        (cenote.ort.errors.InvalidGraph, cenote.ort.errors.Fail), match=r"initializer 'v'|tensor name: v"
    ):
        cenote.ort.InferenceSession(tmp_path / "m.onnx", options)


def test_a_file_that_is_no_model_when_a_weight_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"GIF89a")
    options = cenote.ort.SessionOptions()
    options.add_initializer("w", cenote.ort.OrtValue.ortvalue_from_numpy(np.zeros(4, np.float32)))
    with pytest.raises(cenote.ort.errors.InvalidProtobuf, match="cannot be parsed"):
        cenote.ort.InferenceSession(tmp_path / "m.onnx", options)
    with pytest.raises(cenote.ort.errors.NoSuchFile):
        cenote.ort.InferenceSession(tmp_path / "nothing.onnx", options)


def test_inner_names_of_bindings_and_of_dlpack() -> None:
    state = cenote.ort.capi.onnxruntime_pybind11_state
    session = cenote.ort.InferenceSession(TWO)
    binding = state.SessionIOBinding(session._sess)
    for name, array in FEED.items():
        binding.bind_ortvalue_input(name, state.OrtValue.ortvalue_from_numpy(array))
    binding.bind_output("m", state.OrtDevice.make("cpu", 0))
    session._sess.run_with_iobinding(binding, None)
    assert isinstance(binding.get_outputs(), state.OrtValueVector)
    assert np.array_equal(binding.get_outputs()[0].numpy(), 2 * N)
    for dtype in (np.uint8, np.int8, np.uint16, np.float32):
        capsule = state.OrtValue.ortvalue_from_numpy(np.ones(3, dtype)).to_dlpack()
        assert state.is_dlpack_uint8_tensor(capsule) == (dtype == np.uint8)
        assert state.OrtValue.from_dlpack(capsule).numpy().dtype == dtype
    with pytest.raises(ValueError, match="PyCapsule"):
        state.is_dlpack_uint8_tensor(np.ones(3))
