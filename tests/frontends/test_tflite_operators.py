"""Operators of TensorFlow Lite in models of one operator that are written out here, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cenote
from cenote.core.errors import UnsupportedError
from cenote.core.types import Array
from cenote.frontends.tflite import schema
from tests.frontends.records import lite_bytes

TYPES = {name: number for number, name in schema.TYPES.items()}
CODES = {name: number for number, name in schema.NAMES.items()}
X = np.arange(24, dtype=np.float32).reshape(4, 6)


def model(op: str, inputs: dict[str, Array], constants: dict[str, Array], **options: Any) -> bytes:
    """A model of one operator on X, then on these inputs and constants in the order of the names."""
    given = {"x": X, **dict(sorted({**inputs, **constants}.items()))}
    buffers: list[dict[str, Any]] = [{}]
    tensors = []
    for name, array in given.items():
        tensors.append(
            {"name": name, "shape": list(array.shape), "type": TYPES[array.dtype.name], "buffer": 0}
        )
        if name in constants:
            tensors[-1]["buffer"] = len(buffers)
            buffers.append({"data": array.tobytes()})
    tensors.append({"name": "y", "shape": [1, 1], "type": TYPES["float32"], "buffer": 0})
    places = list(range(len(given)))
    operator = {"opcode_index": 0, "inputs": places, "outputs": [len(given)], "builtin_options": options}
    graph = {
        "tensors": tensors,
        "inputs": [place for place, name in enumerate(given) if name not in constants],
        "outputs": [len(given)],
        "operators": [operator],
    }
    code = {"deprecated_builtin_code": min(CODES[op], 127), "builtin_code": CODES[op]}
    return lite_bytes({"version": 3, "operator_codes": [code], "subgraphs": [graph], "buffers": buffers})


def run(op: str, inputs: dict[str, Array], constants: dict[str, Array], **options: Any) -> Array:
    loaded = cenote.load(model(op, inputs, constants, **options), threads=1)
    made: Array = loaded.run({"x": X, **inputs})["y"]
    return made


def numbers(*values: int) -> Array:
    return np.array(values, np.int32)


@pytest.mark.parametrize("computed", ["1 begin", "2 size"])
@pytest.mark.parametrize("size", [(2, 3), (-1, 3), (-1, -1)])
def test_a_slice_whose_begin_or_size_is_computed(computed: str, size: tuple[int, int]) -> None:
    bounds = {"1 begin": numbers(1, 2), "2 size": numbers(*size)}
    inputs = {computed: bounds.pop(computed)}
    stops = [
        extent if length < 0 else begin + length
        for begin, length, extent in zip((1, 2), size, X.shape, strict=True)
    ]
    np.testing.assert_array_equal(run("SLICE", inputs, bounds), X[1 : stops[0], 2 : stops[1]])


def test_a_slice_of_which_nothing_is_constant_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="neither where the slice begins nor its size is constant"):
        cenote.load(model("SLICE", {"1 begin": numbers(1, 2), "2 size": numbers(2, 3)}, {}))


@pytest.mark.parametrize("computed", [("1 begin",), ("2 end",), ("1 begin", "2 end")])
@pytest.mark.parametrize(("masks", "wanted"), [((0, 0), X[1:3, 1:5:2]), ((1, 2), X[:3, 1::2])])
def test_a_strided_slice_whose_bounds_are_computed(
    computed: tuple[str, ...], masks: tuple[int, int], wanted: Array
) -> None:
    constants = {"1 begin": numbers(1, 1), "2 end": numbers(3, 5), "3 strides": numbers(1, 2)}
    inputs = {name: constants.pop(name) for name in computed}
    y = run("STRIDED_SLICE", inputs, constants, begin_mask=masks[0], end_mask=masks[1])
    np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("mask", ["ellipsis_mask", "new_axis_mask", "shrink_axis_mask"])
def test_computed_bounds_and_axes_that_come_or_go_are_refused(mask: str) -> None:
    constants = {"2 end": numbers(3, 5), "3 strides": numbers(1, 1)}
    with pytest.raises(UnsupportedError, match="computed bounds together with"):
        cenote.load(model("STRIDED_SLICE", {"1 begin": numbers(0, 0)}, constants, **{mask: 1}))


def test_computed_bounds_that_count_from_the_begin_are_refused() -> None:
    constants = {"2 end": numbers(2, 2), "3 strides": numbers(1, 1)}
    with pytest.raises(UnsupportedError, match="ends that count from the beginning"):
        cenote.load(model("STRIDED_SLICE", {"1 begin": numbers(1, 1)}, constants, offset=True))


@pytest.mark.parametrize("op", ["MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"])
def test_a_reduction_over_no_axes_changes_nothing(op: str) -> None:
    for keep in (False, True):
        np.testing.assert_array_equal(run(op, {}, {"axes": numbers()}, keep_dims=keep), X)


def test_a_reduction_over_axes() -> None:
    np.testing.assert_array_equal(run("SUM", {}, {"axes": numbers(1)}), X.sum(1))
    np.testing.assert_array_equal(
        run("REDUCE_MAX", {}, {"axes": numbers(0)}, keep_dims=True), X.max(0, keepdims=True)
    )
