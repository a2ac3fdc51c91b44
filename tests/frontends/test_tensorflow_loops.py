"""Loops of frames: unrolled where the number of rounds is known, refused by name elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cenote

NUMBER = 'attr { key: "dtype" value { type: DT_INT32 } }'


def constant(name: str, *values: int) -> str:
    """A number; several are a vector."""
    shape = f"tensor_shape {{ dim {{ size: {len(values)} }} }}" if len(values) > 1 else "tensor_shape { }"
    numbers = " ".join(f"int_val: {value}" for value in values)
    return f"""node {{ name: "{name}" op: "Const" {NUMBER}
      attr {{ key: "value" value {{ tensor {{ dtype: DT_INT32 {shape} {numbers} }} }} }} }}"""


def node(name: str, op: str, *inputs: str, frame: str = "", type: str = "DT_INT32") -> str:
    of = f'attr {{ key: "frame_name" value {{ s: "{frame}" }} }}' if frame else ""
    read = " ".join(f'input: "{each}"' for each in inputs)
    return f'node {{ name: "{name}" op: "{op}" {read} attr {{ key: "T" value {{ type: {type} }} }} {of} }}'


def doubled(rounds: str, more: str = "") -> str:
    """x, doubled as often as `rounds` says: i counts in a frame beside x."""
    return "\n".join(
        [
            'node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }',
            constant("zero", 0),
            constant("three", 3),
            constant("one", 1),
            more,
            node("i", "Enter", "zero", frame="loop"),
            node("v", "Enter", "x", frame="loop", type="DT_FLOAT"),
            node("end", "Enter", rounds, frame="loop"),
            node("step", "Enter", "one", frame="loop"),
            node("i/now", "Merge", "i", "i/next"),
            node("v/now", "Merge", "v", "v/next", type="DT_FLOAT"),
            node("less", "Less", "i/now", "end"),
            node("holds", "LoopCond", "less"),
            node("i/at", "Switch", "i/now", "holds"),
            node("v/at", "Switch", "v/now", "holds", type="DT_FLOAT"),
            node("i/more", "AddV2", "i/at:1", "step"),
            node("v/more", "AddV2", "v/at:1", "v/at:1", type="DT_FLOAT"),
            node("i/next", "NextIteration", "i/more"),
            node("v/next", "NextIteration", "v/more", type="DT_FLOAT"),
            node("rounds", "Exit", "i/at"),
            node("y", "Exit", "v/at", type="DT_FLOAT"),
        ]
    )


def loaded(text: str, folder: Path, **options: Any) -> cenote.Model:
    file = folder / "loop.pbtxt"
    file.write_text(text)
    return cenote.load(file, threads=1, outputs=["y", "rounds"], **options)


def test_a_loop_of_known_rounds_is_unrolled(tmp_path: Path) -> None:
    x = np.float32([1, -2.5, np.nan])
    answers = loaded(doubled("three"), tmp_path).run({"x": x})
    assert np.array_equal(answers["y"], 8 * x, equal_nan=True)
    assert answers["rounds"] == 3


def test_no_round(tmp_path: Path) -> None:
    answers = loaded(doubled("zero"), tmp_path).run({"x": np.float32([7])})
    assert (answers["y"], answers["rounds"]) == (7, 0)


def test_rounds_that_follow_from_sizes_are_known_once_these_are(tmp_path: Path) -> None:
    """As many rounds as x has elements, along both of two axes and after operations on it."""
    size = node("square", "Mul", "x", "x", type="DT_FLOAT") + node("size", "Size", "square", type="DT_FLOAT")
    with pytest.raises(
        cenote.UnsupportedError, match=r"give these: shapes=\{'x': \(None,100\)\} or --bounds 'x=\?,100'"
    ):
        loaded(doubled("size", size), tmp_path)
    with pytest.raises(
        cenote.UnsupportedError, match=r"give all of them: shapes=\{'x': \(1,2\)\} or --bounds 'x=1,2'"
    ):
        loaded(doubled("size", size), tmp_path, shapes={"x": (None, 2)})
    with pytest.raises(cenote.UnsupportedError, match="give all of them"):
        loaded(doubled("size", size), tmp_path, shapes={"x": (2, "n")})
    model = loaded(doubled("size", size), tmp_path, shapes={"x": (2, 2)})
    x = np.float32([[1, -2], [3, 0.5]])
    answers = model.run({"x": x})
    assert np.array_equal(answers["y"], 16 * x)
    assert answers["rounds"] == 4
    with pytest.raises(cenote.InputError, match=r"takes x: float32\[2,2\]"):
        model.run({"x": x[:1]})


@pytest.mark.parametrize("batch", [None, "batch", "batch<=4"])
def test_rounds_along_one_axis_leave_the_others_open(batch: str | None, tmp_path: Path) -> None:
    """As many rounds as the second axis has elements, found on the way of TensorFlow: Shape, StridedSlice, Minimum."""
    more = "".join(
        [
            node("turned", "Transpose", "x", "order", type="DT_FLOAT"),
            node("shape", "Shape", "turned", type="DT_FLOAT"),
            node("length", "GatherV2", "shape", "zero", "zero"),
            node("most", "Minimum", "length", "many"),
        ]
    )
    constants = constant("many", 1000) + constant("order", 1, 0)
    model = loaded(doubled("most", constants + more), tmp_path, shapes={"x": (batch, 3)})
    for rows in (1, 4, 2):
        x = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
        answers = model.run({"x": x})
        assert np.array_equal(answers["y"], 8 * x)
        assert answers["rounds"] == 3


def test_rounds_that_hold_for_some_sizes_only_stay_unknown(tmp_path: Path) -> None:
    """At least as many rounds as the batch has pictures: no number, although each batch up to three has the same."""
    more = "".join(
        [
            node("shape", "Shape", "x", type="DT_FLOAT"),
            node("batch", "GatherV2", "shape", "zero", "zero"),
            node("most", "Maximum", "batch", "three"),
        ]
    )
    with pytest.raises(cenote.UnsupportedError, match="computed when the model runs"):
        loaded(doubled("most", more), tmp_path, shapes={"x": (None, 3)})


def test_other_loops_are_refused(tmp_path: Path) -> None:
    given = f'node {{ name: "n" op: "Placeholder" {NUMBER} }}'
    with pytest.raises(cenote.UnsupportedError, match=r"'y' \(Exit\).*condition is computed when the model"):
        loaded(doubled("n", given), tmp_path)
    with pytest.raises(cenote.UnsupportedError, match="a loop of more than 1,000 rounds"):
        loaded(doubled("many", constant("many", 1001)), tmp_path)
    with pytest.raises(cenote.ModelError, match="'v/now' merges a loop's start with AddV2"):
        loaded(doubled("three").replace('input: "v/next"', 'input: "v/more"'), tmp_path)
    with pytest.raises(cenote.ModelError, match="is decided by Less, not LoopCond"):
        loaded(doubled("three").replace('input: "holds"', 'input: "less"'), tmp_path)
    with pytest.raises(cenote.ModelError, match="'y' leaves a loop that nothing enters"):
        loaded(doubled("three").replace('"Enter" input: "x"', '"Identity" input: "x"'), tmp_path)
