"""Quantised models node by node: what ONNX's own reference says, whose elementwise operators and movement are exact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnx.reference

import cenote
from cenote.core.types import Array
from tests.passes.models import model, steps


def by_onnx(content: bytes, inputs: Mapping[str, Array]) -> list[Array]:
    """The outputs by ONNX's reference, which has the quantisation of opset 21."""
    read = onnx.load_from_string(content)
    read.opset_import[0].version = 21
    with np.errstate(all="ignore"):
        found: list[Array] = onnx.reference.ReferenceEvaluator(read).run(None, dict(inputs))
    return found


def check(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Array],
    constants: Mapping[str, Array],
    outputs: Sequence[str],
    **kinds: int,
) -> list[str]:
    """Compare every bit of a model's outputs with the reference's; return the operators of its steps. `kinds`: types of
    outputs that differ from the first input's."""
    content = model([*nodes], dict(inputs), dict(constants), [*outputs], kinds)
    loaded = cenote.load(content, threads=1)
    found = loaded(*inputs.values())
    for y, want in zip([found] if len(outputs) == 1 else found, by_onnx(content, inputs), strict=True):
        assert y.dtype == want.dtype
        np.testing.assert_array_equal(np.asarray(y), want)
    return steps(loaded)
