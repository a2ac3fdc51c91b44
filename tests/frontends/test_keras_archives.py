"""Archives of Keras that are sound as files and hold what must not be believed: code, depth without end, odd sizes."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import numpy as np
import pytest

import cenote

h5py = pytest.importorskip("h5py")
INPUT = {"class_name": "InputLayer", "config": {"batch_shape": [None, 4], "dtype": "float32", "name": "i"}}


def archive(config: Any) -> bytes:
    """A .keras file without weights, as Keras 3 writes it."""
    weights, file = io.BytesIO(), io.BytesIO()
    with h5py.File(weights, "w") as made:
        made.create_group("layers")
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as packed:
        packed.writestr("metadata.json", json.dumps({"keras_version": "3.5.0"}))
        packed.writestr("config.json", config if isinstance(config, str) else json.dumps(config))
        packed.writestr("model.weights.h5", weights.getvalue())
    return file.getvalue()


def layer(kind: str, **config: Any) -> dict[str, Any]:
    return {"class_name": kind, "config": {"name": "this", **config}}


def sequential(*layers: Any, first: Any = INPUT) -> dict[str, Any]:
    return layer("Sequential", layers=[first, *layers])


def shaped(*extents: Any) -> dict[str, Any]:
    return {**INPUT, "config": {**INPUT["config"], "batch_shape": [None, *extents]}}


def nested(times: int) -> str:
    inner = json.dumps(layer("Activation", activation="relu"))
    head, tail = json.dumps(sequential("|")).split('"|"')
    return head * times + inner + tail * times


RELU = layer("Activation", activation="relu")
REFUSED = {
    "code": (
        sequential(layer("Lambda", function={"config": {"code": "4wEA"}})),
        "layer 'this' .*Lambda is not",
    ),
    "a function by its name": (sequential(layer("Lambda", function="os.system")), "Lambda is not supported"),
    "a class of nobody's": (sequential({**layer("Evil"), "module": "os"}), "Evil is not supported"),
    "an activation of nobody's": (
        sequential(layer("Activation", activation="system")),
        "'system' is not supported",
    ),
    "an activation that is a list": (
        sequential(layer("Activation", activation=["relu"])),
        "is not supported",
    ),
    "models in models": (nested(40), "nested more than 32 deep"),
    "models in models in models": (nested(2000), "nested too deeply"),
    "lists in lists": ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
    "layers that are no list": (layer("Sequential", layers={"a": 1}), "'layers' of the configuration"),
    "a size below zero": (sequential(RELU, first=shaped(-4)), "the input's shape is"),
    "a size that is true": (sequential(RELU, first=shaped(True)), "the input's shape is"),
    "weights that are not there": (sequential(layer("Dense", units=10**12)), "its kernel is missing"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    config, message = REFUSED[name]
    with pytest.raises((cenote.ModelError, cenote.UnsupportedError), match=message):
        cenote.load(archive(config))


def test_the_same_archive_with_a_sound_model() -> None:
    x = np.array([[-1, 0, 1, 2]], np.float32)
    assert np.array_equal(cenote.load(archive(sequential(RELU)))(x), np.maximum(x, 0))


def test_operators_of_users_are_refused() -> None:
    content = archive(sequential(RELU))
    assert cenote.load(content, format="keras")
    with pytest.raises(cenote.UnsupportedError, match="models of ONNX, TensorFlow and TensorFlow Lite"):
        cenote.load(content, format="keras", operators={"shop.Frobnicate": abs})
