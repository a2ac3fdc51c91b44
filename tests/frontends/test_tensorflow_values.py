"""Values inside of TensorFlow Lite models have the names and types of the file's tensors; old Keras files load."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cenote
from cenote.frontends.formats import import_model
from cenote.frontends.tflite import schema
from tests.frontends.records import lite_record
from tests.frontends.tensorflow_archive import NEEDS_H5PY, contents

LITE = ("unet.tflite", "lite_int8.tflite", "lite_int16.tflite", "lite_half.tflite", "resnet.tflite")
FILES = contents([*LITE, "lite_dilated.tflite", "nested.h5", "nested.npz"])


@pytest.mark.parametrize("name", LITE)
def test_a_tensors_name_is_that_of_its_value(name: str) -> None:
    """Behind a fused activation, and as quantised integers where the file says so."""
    (graph,) = lite_record(FILES[name])["subgraphs"]
    codes = lite_record(FILES[name])["operator_codes"]
    model = cenote.load(FILES[name], threads=1)
    rng, checked = np.random.default_rng(0), 0
    feed = {}
    for each in model.inputs:
        x = rng.standard_normal([1 if size is None else size for size in each.shape or ()]) * 3
        feed[each.name] = x.astype(each.dtype)
    imported = import_model(FILES[name]).graph
    for operator in graph["operators"]:
        code = codes[operator.get("opcode_index", 0)]
        op = schema.NAMES[max(code.get("deprecated_builtin_code", 0), code.get("builtin_code", 0))]
        tensor = graph["tensors"][operator["outputs"][0]]
        if tensor["name"] not in imported.values() or tensor["name"] in imported.constants:
            continue
        value = model.run(feed, outputs=[tensor["name"]])[tensor["name"]]
        assert value.dtype == schema.TYPES[tensor.get("type", 0)], (op, tensor["name"])
        if operator.get("builtin_options", {}).get("activation") in (1, 3) and value.dtype.kind == "f":
            assert value.min() >= 0, (op, tensor["name"])
        checked += 1
    assert checked >= 3


def test_values_within_a_dilated_convolution_have_names_of_their_own() -> None:
    """The file's tensors there hold the picture in phases, which Cenote never makes."""
    names = {
        tensor["name"] for tensor in lite_record(FILES["lite_dilated.tflite"])["subgraphs"][0]["tensors"]
    }
    graph = import_model(FILES["lite_dilated.tflite"]).graph
    made = {name for node in graph.nodes for name in node.outputs}
    assert made & names <= {*graph.outputs, *(node.label for node in graph.nodes)}


@NEEDS_H5PY
def test_a_model_within_a_keras_2_model(tmp_path: Path) -> None:
    """Until Keras 2 its making counts as its first call, which the file leaves out."""
    import h5py

    path = tmp_path / "old.h5"
    path.write_bytes(FILES["nested.h5"])
    with h5py.File(path, "r+") as file:
        config = json.loads(file.attrs["model_config"])
        older(config["config"])
        file.attrs["model_config"], file.attrs["keras_version"] = json.dumps(config), "2.12.0"
    answers = np.load(io.BytesIO(FILES["nested.npz"]))
    model = cenote.load(path, threads=1)
    found = model.run({each.name: answers[f"in{i}"] for i, each in enumerate(model.inputs)})
    for number, y in enumerate(found.values()):
        np.testing.assert_allclose(y, answers[f"out{number}"], rtol=0, atol=1e-5)


def older(config: dict[str, Any]) -> None:
    """Calls as Keras 2 wrote them: [layer, call, output, arguments]."""
    models = {
        each["config"]["name"]
        for each in config["layers"]
        if each["class_name"] in ("Sequential", "Functional")
    }

    def histories(found: Any) -> list[list[Any]]:
        if isinstance(found, dict) and found.get("class_name") == "__keras_tensor__":
            name, call, output = found["config"]["keras_history"]
            return [[name, call + (name in models), output, {}]]
        inner = found.values() if isinstance(found, dict) else found if isinstance(found, list) else ()
        return [each for part in inner for each in histories(part)]

    for each in config["layers"]:
        each["inbound_nodes"] = [histories(node["args"]) for node in each.get("inbound_nodes", [])]
        each["name"] = each["config"]["name"]
        if each["class_name"] in ("Sequential", "Functional"):
            older(each["config"])
