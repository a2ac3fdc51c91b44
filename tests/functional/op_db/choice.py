"""Comparisons of selection and indexing with PyTorch's samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from cenote.core.errors import CenoteError
from tests.functional.op_db.database import array, op_db, torch

# Names in op_db, and how many float32 samples PyTorch 2.13 has that are compared (one_hot has none). Left out: those of
# embeddings that would change the weight (max_norm), and those of where that promote types.
SAMPLES = {
    "argmax": 13, "argmin": 13, "argsort": 58, "gather": 7, "index_select": 3, "masked_select": 7,
    "nn.functional.embedding": 7, "nn.functional.embedding_bag": 38, "nn.functional.one_hot": 0, "nonzero": 24,
    "scatter": 27, "scatter_add": 7, "scatter_reduce": 21, "sort": 58, "take": 10, "take_along_dim": 5, "topk": 14,
    "where": 6,
}  # fmt: skip
TYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
TOLERANCES = {"float64": 1e-12, "float32": 1e-5, "float16": 5e-3, "bfloat16": 4e-2}
OPS = [op for op in op_db if op.name in SAMPLES]


def function_of(op: Any) -> Any:
    return getattr(F, op.name.split(".")[-1])


def ours(op: Any, sample: Any) -> tuple[list[Any], dict[str, Any]]:
    """The arguments as Cenote's function takes them."""
    given = [array(x) for x in (sample.input, *sample.args)]
    keywords = {key: array(x) for key, x in sample.kwargs.items()}
    if op.name == "where":  # op_db's is a method of the first of the two
        given = [given[1], given[0], *given[2:]]
    if op.name.startswith("nn.functional.embedding"):  # op_db's take the weight first
        given = [given[1], given[0], *given[2:]]
    return given, keywords


def left_out(op: Any, sample: Any) -> str:
    """Why a sample is not compared: what is refused on purpose."""
    if op.name == "where":
        other = sample.args[1]
        promoted = isinstance(other, torch.Tensor) and other.dtype != sample.input.dtype
        return "types are not promoted" if promoted else ""
    embeds = op.name.startswith("nn.functional.embedding")
    return "max_norm changes the weight" if embeds and sample.kwargs.get("max_norm") is not None else ""


def compare(op: Any, kind: str, sample: Any) -> str:
    """Assert that a sample's answers agree; gives why it is left out, or ""."""
    reason = left_out(op, sample)
    if reason:
        return reason
    wanted = op.op(sample.input, *sample.args, **sample.kwargs)
    given, keywords = ours(op, sample)
    got = function_of(op)(*given, **keywords)
    check(op.name, got, wanted, TOLERANCES.get(kind, 0.0), [*given, *keywords.values()])
    return ""


def refuse(op: Any, error: Any) -> str:
    """Assert that an error input is refused; gives why it is left out, or ""."""
    given, keywords = ours(op, error.sample_input)
    with pytest.raises((CenoteError, TypeError)):
        function_of(op)(*given, **keywords)
    return ""


def check(name: str, got: Any, wanted: Any, tolerance: float, given: Any) -> None:
    results = got if isinstance(got, tuple) else (got,)
    expected = tuple(wanted) if isinstance(wanted, tuple) else (wanted,)
    if name == "nn.functional.embedding_bag":  # torch's internal function gives what gradients need, too
        expected = expected[:1]
    for y, tensor in zip(results, expected, strict=True):
        want = array(tensor)
        assert isinstance(y, np.ndarray)
        assert (y.shape, y.dtype) == (want.shape, want.dtype), (
            name,
            y.shape,
            want.shape,
            y.dtype,
            want.dtype,
        )
    if name == "argsort":  # which of equals comes first, PyTorch does not say: the elements are compared
        results = (along(given, got),)
        expected = (torch.from_numpy(along(given, array(wanted))),)
    if name in ("sort", "topk"):
        results, expected = results[:1], expected[:1]
    for y, tensor in zip(results, expected, strict=True):
        want = array(tensor)
        if y.dtype.kind in "iub":
            np.testing.assert_array_equal(y, want)
        else:
            a, b = y.astype(np.float64), want.astype(np.float64)
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def along(given: Any, places: Any) -> Any:
    """The elements that an argsort names, along whichever axis it was; bfloat16 as float32."""
    x = np.asarray(given[0], np.float32) if given[0].dtype.name == "bfloat16" else given[0]
    axis = given[1] if len(given) > 1 else -1
    return np.take_along_axis(x, places, axis) if x.ndim else x
