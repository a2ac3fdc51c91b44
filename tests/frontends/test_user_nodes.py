"""Operators of users in models of TensorFlow and TensorFlow Lite: custom operators, operations that Cenote lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers

import cenote
from cenote.core.errors import ModelError
from cenote.frontends.tflite import schema
from cenote.frontends.tflite.flexbuffer import flex_map
from tests.frontends.records import lite_bytes

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(1, 2, 2, 3)
(CUSTOM,) = (number for number, name in schema.NAMES.items() if name == "CUSTOM")


def lite(options: bytes = b"", outputs: int = 1, code: str = "Frob", scale: float = 0.0) -> bytes:
    """A custom operator between the input and the outputs; with a scale all tensors are of bytes."""
    kind: dict[str, Any] = {"type": 0}
    if scale:
        kind = {"type": 9, "quantization": {"scale": [scale], "zero_point": [0]}}
    tensors = [{"name": f"t{i}", "shape": [1, 2, 2, 3], "buffer": 0, **kind} for i in range(1 + outputs)]
    ends = {"inputs": [0], "outputs": [*range(1, 1 + outputs)]}
    operator = {"opcode_index": 0, **ends, **({"custom_options": [*options]} if options else {})}
    codes = [{"builtin_code": CUSTOM, "deprecated_builtin_code": CUSTOM, "custom_code": code}]
    part = {"tensors": tensors, "operators": [operator], **ends}
    return lite_bytes({"version": 3, "operator_codes": codes, "subgraphs": [part], "buffers": [{}]})


def seen(x: Any, **attributes: Any) -> Any:
    """Keep what it is given."""
    SEEN.update(attributes)
    return x * x.dtype.type(2)


SEEN: dict[str, Any] = {}


def load(content: bytes, function: Any, **more: Any) -> cenote.Model:
    return cenote.load(content, format="tflite", operators={"tflite.Frob": function}, **more)


# ---- TensorFlow Lite ------------------------------------------------------------------------------------------------


def test_a_function_computes_a_custom_operator() -> None:
    options = flexbuffers.Dumps(
        {
            "alpha": 2.5,
            "count": 300,
            "on": True,
            "mode": "near",
            "sizes": [1, 2, 70000],
            "mixed": [1, "a", 0.5],
        }
    )
    SEEN.clear()
    np.testing.assert_array_equal(load(lite(options), seen)(X), X * 2)
    assert SEEN == {
        "alpha": 2.5, "count": 300, "on": True, "mode": "near", "sizes": (1, 2, 70000), "mixed": (1, "a", 0.5),
    }  # fmt: skip


def test_other_options_are_given_as_bytes() -> None:
    SEEN.clear()
    load(lite(b"\1\2\3\4\0"), seen)(X)
    (name,) = SEEN
    assert name == "custom_options"
    assert SEEN[name].tobytes() == b"\1\2\3\4\0"


def test_several_outputs_and_quantised_tensors() -> None:
    one, two = load(lite(outputs=2), lambda x: (x + 1, x - 1))(X)
    np.testing.assert_array_equal(one, X + 1)
    np.testing.assert_array_equal(two, X - 1)
    stored = np.arange(-6, 6, dtype=np.int8).reshape(X.shape)
    given = []

    def halved(x: Any) -> Any:
        given.append(x.dtype)
        return x / 2

    made = load(lite(scale=0.5), halved)(stored)
    assert made.dtype == np.int8
    assert {*given} == {np.dtype(np.float32)}
    np.testing.assert_array_equal(made, np.rint(stored / 2).astype(np.int8))


def test_the_error_names_the_ways_to_add_one() -> None:
    with pytest.raises(
        cenote.UnsupportedError, match=r'custom Frob .*operators={"tflite\.Frob": function}.*register'
    ):
        cenote.load(lite(), format="tflite")
    with pytest.raises(cenote.UnsupportedError, match=r'operators={"tflite\.Addons\.Frob": function}'):
        cenote.load(lite(code="Addons>Frob"), format="tflite")


def test_a_registered_one_serves_load_and_plan(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(lite(flexbuffers.Dumps({"alpha": 3.0})))
    cenote.register("tflite.Frob", types=lambda x, alpha: x)(scaled)
    try:
        for _ in range(2):  # the second from the cache
            np.testing.assert_array_equal(cenote.load(path)(X), X * 3)
        cenote.load(path).save(tmp_path / "m.cenote")
        np.testing.assert_array_equal(cenote.load(tmp_path / "m.cenote")(X), X * 3)
    finally:
        cenote.unregister("tflite.Frob")
    # Another function under the name is never answered from the cache.
    other = cenote.load(path, operators={"tflite.Frob": lambda x, alpha: x - alpha})
    np.testing.assert_array_equal(other(X), X - np.float32(3))


def scaled(x: Any, alpha: float) -> Any:
    return x * x.dtype.type(alpha)


# ---- FlexBuffers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"a": 0},
        {"a": -1, "b": 1 << 40, "c": -(1 << 40)},
        {"x": 1.5, "y": 0.1, "z": "é" * 300},
        {"long" * 100: ["a", "b" * 300], "n": [1.5, 2.25], "flags": [True, False], "nested": [[1, 2], ["x"]]},
    ],
    ids=["empty", "zero", "integers", "wide", "lists"],
)
def test_flexbuffers_of_the_official_writer(value: dict[str, Any]) -> None:
    def listed(each: Any) -> Any:
        return [*map(listed, each)] if isinstance(each, tuple) else each

    content = bytes(flexbuffers.Dumps(value))
    assert {name: listed(each) for name, each in flex_map(content).items()} == value


def test_damaged_ones_are_refused() -> None:
    content = bytes(flexbuffers.Dumps({"alpha": 2.5, "sizes": [1, 2, 3], "mixed": [1, "a", [0.5]]}))
    random, refused = np.random.default_rng(0), 0
    for _ in range(3000):
        damaged = bytearray(
            content[: random.integers(1, len(content) + 1)] if random.random() < 0.3 else content
        )
        damaged[random.integers(len(damaged))] = random.integers(256)
        try:
            flex_map(bytes(damaged))
        except ModelError:
            refused += 1
    assert refused > 1000


# ---- TensorFlow -----------------------------------------------------------------------------------------------------

TYPE = 'attr { key: "%s" value { type: DT_FLOAT } }'
GRAPH = f"""
node {{ name: "x" op: "Placeholder" {TYPE % "dtype"} }}
node {{ name: "f" op: "Addons>Frob" input: "x" {TYPE % "T"}
  attr {{ key: "alpha" value {{ f: 0.1 }} }} attr {{ key: "mode" value {{ s: "near" }} }}
  attr {{ key: "sizes" value {{ list {{ i: 3 i: 4 }} }} }} attr {{ key: "_class" value {{ s: "hidden" }} }} }}
node {{ name: "y" op: "AddV2" input: "f" input: "f:1" {TYPE % "T"} }}
"""
KEY = "tensorflow.Addons.Frob"


def test_a_function_computes_an_operation_of_tensorflow() -> None:
    given: dict[str, Any] = {}

    def frob(x: Any, **attributes: Any) -> Any:
        given.update(attributes)
        return x * 2, x + 1

    model = cenote.load(GRAPH.encode(), format="graphdef", operators={KEY: frob}, shapes={"x": [2, 3]})
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(model(x), 3 * x + 1)
    assert given == {"T": "float32", "alpha": float(np.float32(0.1)), "mode": "near", "sizes": (3, 4)}


def test_what_the_error_for_an_operation_says() -> None:
    with pytest.raises(
        cenote.UnsupportedError, match=r"Addons>Frob is not supported; .*tensorflow\.Addons\.Frob"
    ):
        cenote.load(GRAPH.encode(), format="graphdef")
    triple = {KEY: lambda x, **_: (x, x, x)}
    with pytest.raises(cenote.OperatorError, match="3 outputs, but the node has 2"):
        cenote.load(GRAPH.encode(), format="graphdef", operators=triple, shapes={"x": [2, 3]})
