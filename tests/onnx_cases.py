"""The cases of ONNX's own backend tests, and their data sets."""

from __future__ import annotations

import functools
import itertools
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
from onnx import numpy_helper

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
# Random numbers: the specification names no generator, so only types and shapes can be compared (what the numbers are
# is tested in tests/functional/test_random.py).
RANDOM = re.compile(r"test_bernoulli|test_training_dropout(_default)?(_mask)?$")


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
