"""Models of TensorFlow, TensorFlow Lite and Keras against the answers of those that made them.

The models and answers are in tensorflow_models.zip, which make_tensorflow_models.py makes; nothing of TensorFlow is
needed here, and h5py only for those of Keras.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cenote
from tests.frontends.tensorflow_archive import ARCHIVE, NEEDS_H5PY

with zipfile.ZipFile(ARCHIVE) as _archive:
    CASES = {case["name"]: case for case in json.loads(_archive.read("cases.json"))}


TOLERANCE = 1e-5  # of the largest number of an output


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all models."""
    folder = tmp_path_factory.mktemp("tensorflow_models")
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(folder)
    return folder


def _marked(name: str) -> Any:
    return pytest.param(name, marks=NEEDS_H5PY if name.endswith(("-keras", "-h5")) else ())


def test_many_cases() -> None:
    assert len(CASES) >= 60


@pytest.mark.parametrize("name", [_marked(name) for name in CASES])
def test_answers(models: Path, name: str) -> None:
    case = CASES[name]
    answers = np.load(models / case["answers"])
    model = cenote.load(models / case["file"], threads=1)
    inputs = [answers[f"in{i}"] for i in range(sum(key.startswith("in") for key in answers.files))]
    assert len(model.inputs) == len(inputs)
    feed = {declared.name: x for declared, x in zip(model.inputs, inputs, strict=True)}
    results = model.run(feed)
    wanted = [answers[f"out{i}"] for i in range(sum(key.startswith("out") for key in answers.files))]
    given = [results[each] for each in case["names"]] if "names" in case else list(results.values())
    assert len(given) == len(wanted)
    if case["file"].endswith("savedmodel") or (name.endswith("-pb") and "names" not in case):
        given = _sorted_like(given, wanted)
    for number, (got, want) in enumerate(zip(given, wanted, strict=True)):
        _check(got, want, case, f"output {number}")


def _sorted_like(given: list[Any], wanted: list[Any]) -> list[Any]:
    """Functions of TensorFlow give outputs in another order; which is which shows in what they hold."""
    left, found = list(given), []
    for want in wanted:
        near = [each for each in left if each.shape == want.shape] or left
        best = min(
            near, key=lambda each: float(np.abs(each - want).max()) if each.shape == want.shape else np.inf
        )
        left = [each for each in left if each is not best]
        found.append(best)
    return found


def _check(got: Any, want: Any, case: dict[str, Any], what: str) -> None:
    assert (got.shape, got.dtype) == (want.shape, want.dtype), what
    if steps := case.get("steps", 0):
        assert np.abs(got.astype(np.int64) - want.astype(np.int64)).max(initial=0) <= steps, what
    elif want.dtype.kind != "f":
        np.testing.assert_array_equal(got, want, what)
    else:
        limit = case.get("tolerance", TOLERANCE) * max(1e-6, float(np.abs(want).max(initial=0)))
        assert float(np.abs(got - want).max(initial=0)) <= limit, what
