"""Parameters as files: what `cenote.extract` writes, `cenote.load` runs bit for bit; errors name the line."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

import cenote
from cenote.core.types import dtype_named
from cenote.frontends.formats import import_model
from cenote.frontends.parameters.attributes import decoded_op, encoded_op
from cenote.frontends.parameters.lines import parse
from cenote.graph.graph import Graph
from cenote.graph.interpreter import evaluate
from cenote.ops.base import Op
from cenote.ops.table import operators
from tests.frontends import records
from tests.frontends.fuzzing import share, small_inputs
from tests.verification.networks import NETWORKS

X = np.random.default_rng(7).standard_normal((1, 16, 16, 16)).astype(np.float32)


@pytest.mark.parametrize("values", ["safetensors", "npy"])
@pytest.mark.parametrize("network", NETWORKS)
def test_bit_for_bit(tmp_path: Path, network: str, values: Any) -> None:
    path = NETWORKS[network](tmp_path / "network.onnx")
    written = cenote.extract(path, tmp_path / "files", values=values)
    assert written == tmp_path / "files" / "layers.json"
    model, again = cenote.load(path), cenote.load(tmp_path / "files")
    assert (again.inputs, again.output_names) == (model.inputs, model.output_names)
    np.testing.assert_array_equal(model(X), again(X))
    assert same(import_model(path).graph, import_model(written).graph)


def same(a: Graph, b: Graph) -> bool:
    assert a.constants.keys() == b.constants.keys()
    assert all(
        x.dtype == b.constants[name].dtype and x.tobytes() == b.constants[name].tobytes()
        for name, x in a.constants.items()
    )
    return (a.nodes, a.inputs, a.outputs, a.name) == (b.nodes, b.inputs, b.outputs, b.name)


def test_the_files_are_readable(tmp_path: Path) -> None:
    path = NETWORKS["plain"](tmp_path / "network.onnx")
    cenote.extract(path, tmp_path / "a")
    cenote.extract(path, tmp_path / "b", values="npy")
    text = (tmp_path / "a" / "layers.json").read_text()
    root = json.loads(text)
    assert (root["format"], root["version"]) == ("cenote-layers", 1)
    norm = next(layer for layer in root["layers"] if layer["name"] == "norm")
    assert norm["operator"] == "batch_normalization"
    assert norm["configuration"]["epsilon"] == pytest.approx(1e-3)
    assert len([line for line in text.splitlines() if '"operator"' in line]) == len(root["layers"])
    wanted = {each.name for each in onnx.load(path).graph.initializer}
    assert {entry["name"] for entry in root["values"]} == wanted
    content = (tmp_path / "a" / "values.safetensors").read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert set(header) == wanted
    entry = next(
        each
        for each in json.loads((tmp_path / "b" / "layers.json").read_text())["values"]
        if each["name"] == "conv_w"
    )
    array = np.load(tmp_path / "b" / entry["file"])
    np.testing.assert_array_equal(array, import_model(path).graph.constants["conv_w"])
    begin, end = header["conv_w"]["data_offsets"]
    length = int.from_bytes(content[:8], "little")
    assert content[8 + length + begin : 8 + length + end] == array.tobytes()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int4", "bool", "uint64", "float64", "object"])
@pytest.mark.parametrize("values", ["safetensors", "npy"])
def test_types(tmp_path: Path, dtype: str, values: Any) -> None:
    kind = {"bfloat16": 16, "float16": 10, "int4": 22, "bool": 9, "uint64": 13, "float64": 11, "object": 8}[
        dtype
    ]
    content: Any = [b"a", b"\xc3\xa4", b""] if dtype == "object" else [0, 1, 1]
    node = helper.make_node("Identity", ["c"], ["y"], "same")
    graph = helper.make_graph(
        [node],
        "g",
        [],
        [helper.make_tensor_value_info("y", kind, [3])],
        [helper.make_tensor("c", kind, [3], content)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    cenote.extract(model, tmp_path, values=values)
    again = import_model(tmp_path / "layers.json").graph.constants["c"]
    wanted = import_model(model).graph.constants["c"]
    assert again.dtype == wanted.dtype
    assert again.tolist() == wanted.tolist()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # samples hold infinities
def test_every_operator_comes_back() -> None:
    """Each operator's samples: the same fields, bit for bit."""
    for kind in operators():
        if kind.name == "chain":
            continue  # only passes make it
        for sample in list(kind.samples())[:6]:
            arrays: dict[str, Any] = {}

            def keep(array: Any, arrays: dict[str, Any] = arrays) -> str:
                arrays[f"{len(arrays)}"] = array
                return f"{len(arrays) - 1}"

            text = json.dumps(encoded_op(sample.op, keep), allow_nan=False)
            again: Op = decoded_op(parse(text), arrays.__getitem__)
            assert repr(again) == repr(sample.op)


def change(old: str, new: str) -> Callable[[str], str]:
    def changed(text: str) -> str:
        assert old in text
        return text.replace(old, new, 1)

    return changed


RELU, STRIDES, FILE = '"operator": "relu"', '"strides": [1, 1]', '"values.safetensors"'
SHAPE, TYPE = '"shape": [16, 16, 3, 3]', '"dtype": "float32", "shape": [16, 16'
OUTSIDE, VALUES = r"line \d+: .* is not in the model's folder", r"line \d+: values 'conv_w'"
DEEP = '"metadata": ' + "[" * 100_000 + "]" * 100_000
DAMAGE: dict[str, tuple[Callable[[str], str], str]] = {
    "no JSON": (lambda text: text[:-20], r"no JSON"),
    "another version": (change('"version": 1', '"version": 2'), r"line 1: version 2"),
    "an unknown operator": (change(RELU, '"operator": "system"'), r"line \d+: there is no operator 'system'"),
    "a dotted operator": (change(RELU, '"operator": "os.system"'), r"line \d+: there is no operator"),
    "an unknown field": (change('"epsilon"', '"epsilom"'), r"line \d+: unknown key 'epsilom'"),
    "an unknown key": (change(RELU, f'{RELU}, "run": 1'), r"line \d+: unknown key 'run'"),
    "a key twice": (change(RELU, f"{RELU}, {RELU}"), r"line \d+: 'operator' is given twice"),
    "a text for a number": (change(STRIDES, '"strides": ["1", 1]'), r"line \d+: 'strides' cannot be"),
    "a fraction": (change(STRIDES, '"strides": [1.5, 1]'), r"line \d+: 'strides' cannot be"),
    "a value that nothing makes": (change('"inputs": ["relu"', '"inputs": ["nothing"'), r"nothing"),
    "a file outside": (change(FILE, '"../values.safetensors"'), OUTSIDE),
    "a file whose name holds a zero": (change(FILE, r'"a\u0000b.npy"'), r"line \d+: .*there is no file"),
    "an absolute file": (change(FILE, '"/etc/hostname"'), OUTSIDE),
    "a shape too large": (change(SHAPE, '"shape": [16, 16, 3, 4]'), VALUES),
    "a negative shape": (change(SHAPE, '"shape": [-16, -16, 3, 3]'), VALUES),
    "an unknown type": (change(TYPE, TYPE.replace("float32", "f99")), r"line \d+: .*f99"),
    "deep": (change('"metadata": {}', DEEP), r"JSON"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_wrong_is_named(tmp_path: Path, damage: str) -> None:
    path = cenote.extract(NETWORKS["plain"](tmp_path / "network.onnx"), tmp_path / "files")
    changed, message = DAMAGE[damage]
    path.write_text(changed(path.read_text()))
    with pytest.raises((cenote.ModelError, cenote.UnsupportedError)) as caught:
        cenote.load(tmp_path / "files")
    assert re.search(message, str(caught.value)), str(caught.value)


def test_links_lead_nowhere_outside(tmp_path: Path) -> None:
    cenote.extract(NETWORKS["plain"](tmp_path / "network.onnx"), tmp_path / "files")
    (tmp_path / "files" / "values.safetensors").rename(tmp_path / "elsewhere")
    (tmp_path / "files" / "values.safetensors").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(cenote.ModelError, match="not in the model's folder"):
        cenote.load(tmp_path / "files")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("parameters")
    cenote.extract(NETWORKS["plain"](base / "network.onnx"), base / "files")
    return base / "files"


@share(2)
@given(data=st.data())
def test_damaged_files_are_refused(folder: Path, data: st.DataObject) -> None:
    """Whatever bytes change, a model is read or an error of Cenote says why not."""
    name = data.draw(st.sampled_from(["layers.json", "values.safetensors"]))
    path, content = folder / name, (folder / name).read_bytes()
    limit = len(content) if name == "layers.json" else 2000
    changed = bytearray(content)
    for place in data.draw(st.lists(st.integers(0, limit - 1), max_size=4)):
        changed[place] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, limit) | st.none())
    path.write_bytes(bytes(changed[:end]))
    try:
        import_model(folder / "layers.json", "layers")
    except cenote.CenoteError:
        pass
    finally:
        path.write_bytes(content)


@share(2)
@given(data=st.data())
def test_changed_records_load_or_are_refused(folder: Path, data: st.DataObject) -> None:
    """Well-formed configurations that say something else. What loads is computed by the references."""
    tree = json.loads((folder / "layers.json").read_text())
    for _ in range(data.draw(st.integers(1, 3))):
        records.change(tree, data.draw)
    path = folder / "changed" / "layers.json"
    path.parent.mkdir(exist_ok=True)
    if not (path.parent / "values.safetensors").exists():
        (path.parent / "values.safetensors").write_bytes((folder / "values.safetensors").read_bytes())
    path.write_text(json.dumps(tree))
    with contextlib.suppress(cenote.CenoteError):
        graph = import_model(path, "layers").graph
        if (feed := small_inputs(graph)) is not None:
            with np.errstate(all="ignore"):
                evaluate(graph, feed)


def test_the_cache_notices_changed_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CENOTE_PLAN_CACHE", "100")
    path = NETWORKS["plain"](tmp_path / "network.onnx")
    cenote.extract(path, tmp_path / "files")
    before = cenote.load(tmp_path / "files")(X)
    file = tmp_path / "files" / "values.safetensors"
    content = bytearray(file.read_bytes())
    content[-400:] = np.ones(100, np.float32).tobytes()
    file.write_bytes(bytes(content))
    assert not np.array_equal(before, cenote.load(tmp_path / "files")(X))


def test_symbolic_sizes_and_metadata(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, {"labels": "a,b"})
    cenote.extract(model, tmp_path)
    again = cenote.load(tmp_path)
    assert again.metadata == {"labels": "a,b"}
    assert again.inputs[0].shape == ("n", 3)
    assert again.outputs[0].shape == ("n", 3)
    assert again(np.full((5, 3), -1, np.float32)).tolist() == [[0, 0, 0]] * 5
    assert dtype_named("float32") == again.inputs[0].dtype
