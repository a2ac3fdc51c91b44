"""Calibration data in all forms, and refusals of what does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cenote.core.errors import InputError
from cenote.core.types import FLOAT32, Declared
from cenote.quantization.data import runs_of

torch = pytest.importorskip("torch")

OPEN = [Declared("x", FLOAT32, ("n", 3, 4))]
FIXED = [Declared("x", FLOAT32, (2, 3, 4))]
TWO = [Declared("x", FLOAT32, ("n", 3)), Declared("ids", np.dtype(np.int64), ("n",))]
X = np.arange(120, dtype=np.float32).reshape(10, 3, 4)


@pytest.mark.parametrize(
    "data",
    [X, {"x": X}, [X[:6], X[6:]], list(X), iter(X), [{"x": each} for each in X], torch.from_numpy(X), X.tolist()],
    ids=["array", "dict", "batches", "examples", "iterator", "dicts", "tensor", "lists"],
)  # fmt: skip
def test_forms_of_the_same_examples(data: Any) -> None:
    runs = runs_of(OPEN, data)
    np.testing.assert_array_equal(np.concatenate([run["x"] for run in runs]), X)


def test_runs_have_as_many_examples_as_the_model_takes() -> None:
    assert [run["x"].shape[0] for run in runs_of(FIXED, X)] == [2] * 5
    large = np.zeros((5, 1 << 17), np.float32)
    assert [run["x"].shape[0] for run in runs_of([Declared("x", FLOAT32, ("n", "m"))], large)] == [2, 2, 1]
    assert len(runs_of([Declared("x", FLOAT32, ("n",))], np.zeros(200, np.float32))) == 4


def test_several_inputs() -> None:
    x, ids = np.zeros((4, 3), np.float32), np.arange(4)
    for data in ({"x": x, "ids": ids}, [(x, ids)], [{"x": x[:1], "ids": ids[:1]}] * 4):
        assert sum(len(run["ids"]) for run in runs_of(TWO, data)) == 4
    apart = [{"x": np.zeros((4, 3), np.float32), "ids": np.arange(7)}]
    assert len(runs_of(TWO, apart)) == 1  # first axes that are no batch


@pytest.mark.parametrize(
    ("inputs", "data", "words"),
    [
        (OPEN, [], "no example"),
        (OPEN, np.zeros((0, 3, 4), np.float32), "no example"),
        (OPEN, iter(()), "no example"),
        (OPEN, None, "takes arrays"),
        (OPEN, "folder", "takes arrays"),
        (OPEN, [{"y": X}], "item 0: 'y' is no input of the model (its inputs: x)"),
        (OPEN, [X, X[:, :2]], "item 1: input x: float32[n,3,4] is given with shape (10, 2, 4)"),
        (OPEN, np.zeros(4, np.float32), "given with shape (4,)"),
        (OPEN, X.astype(np.float64), "astype('float32')"),
        (OPEN, [X, np.where(X == 7, np.nan, X)], "item 1: input 'x' has 1 numbers that are NaN or infinite"),
        (OPEN, np.full_like(X, np.inf), "120 numbers that are NaN or infinite"),
        (FIXED, X[:3], "3 examples, but the model takes 2 at a time"),
        (TWO, X, "give a dict by name"),
        (TWO, {"x": np.zeros((4, 3), np.float32)}, "has nothing for input 'ids'"),
        (TWO, [(X,) * 3], "3 arrays for 2 inputs"),
        ([], X, "no inputs"),
    ],
)
def test_refusals(inputs: list[Declared], data: Any, words: str) -> None:
    with pytest.raises(InputError) as raised:
        runs_of(inputs, data)
    assert words in str(raised.value)
