"""The cases of ONNX's own backend tests, and their data sets."""

from __future__ import annotations

import functools
import itertools
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import numpy_helper

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
# Random numbers: the specification names no generator, so only types and shapes can be compared (what the numbers are
# is tested in tests/functional/test_random.py).
RANDOM = re.compile(r"test_bernoulli|test_training_dropout(_default)?(_mask)?$")
# Floats as integers of 2 and 4 bits. The specification leaves open what becomes of floats beyond the type; what such a
# test expects of them is what the installed ml_dtypes does: their low bits up to 0.6, mostly zeros from 0.7.
NARROWING = re.compile(r"test_cast(like)?_FLOAT(16)?_to_U?INT[24](_expanded)?$")


def specified(case: Any, inputs: Sequence[Any], values: Any) -> Any:
    """The elements of a result that the specification states."""
    if not NARROWING.match(case.name):
        return values
    whole = np.trunc(inputs[0])
    limits = ml_dtypes.iinfo(values.dtype)
    return values[(whole >= limits.min) & (whole <= limits.max)]


@functools.cache
def cases() -> dict[str, Any]:
    """All cases by name; making the node cases takes 7 s."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        return {case.name: case for kind in KINDS for case in load_model_tests(kind=kind)}


def data_sets(case: Any) -> Iterator[tuple[list[Any], list[Any]]]:
    """Inputs and expected outputs."""
    from onnx.backend.test.runner import _normalize_tensor

    if case.model is not None:
        for inputs, outputs in case.data_sets:
            yield [_normalize_tensor(x) for x in inputs], [_normalize_tensor(y) for y in outputs]
        return
    for folder in sorted(Path(case.model_dir).glob("test_data_set*")):
        yield _tensors(folder, "input"), _tensors(folder, "output")


def _tensors(folder: Path, kind: str) -> list[Any]:
    paths = itertools.takewhile(Path.exists, (folder / f"{kind}_{i}.pb" for i in itertools.count()))
    return [numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes())) for path in paths]
