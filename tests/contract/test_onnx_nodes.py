"""ONNX's own node tests, through decoder, infer and reference, for every operator that has a decoder.

The kernels are tested against the references elsewhere; here the meaning of an operator is tested against the data
that the ONNX project publishes with its specification.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from cenote.core.errors import UnsupportedError
from cenote.core.types import Array, TensorType
from cenote.ops import DECODERS
from cenote.ops.base import Imported, Rewired, ShapeFromData

SEEN: dict[str, int] = {}


def cases() -> Iterator[Any]:
    """Node tests of one node (not the "expanded" functions) whose operator has a decoder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        for case in load_model_tests(kind="node"):
            nodes = case.model.graph.node
            if len(nodes) == 1 and _key(nodes[0]) in DECODERS:
                yield pytest.param(case, id=case.name)


def _key(node: Any) -> str:
    return f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type


def _attribute(attribute: Any) -> Any:
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, list | tuple):
        return tuple(item.decode() if isinstance(item, bytes) else item for item in value)
    return value


def decode(model: Any, arrays: dict[str, Array], constant: bool) -> tuple[Any, list[Array | None]]:
    """The operator and its inputs; with `constant`, the decoder may look at every input but the first."""
    node = model.graph.node[0]
    opset = next((o.version for o in model.opset_import if o.domain == node.domain), 1)
    known = {i: arrays[n] for i, n in enumerate(node.input) if n and i} if constant else {}
    imported = Imported(
        op=node.op_type,
        domain=node.domain,
        opset=opset,
        attributes={a.name: _attribute(a) for a in node.attribute},
        present=tuple(bool(name) for name in node.input),
        outputs=len([name for name in node.output if name]) if len(node.output) > 1 else 1,
        constants=known,
    )
    decoded = DECODERS[_key(node)](imported)
    given: list[Array | None] = [arrays[name] if name else None for name in node.input]
    if not isinstance(decoded, Rewired):
        return decoded, given
    return decoded.op, [given[i] if isinstance(i, int) else i for i in decoded.inputs]


@pytest.mark.parametrize("constant", [True, False], ids=["constants", "inputs"])
@pytest.mark.parametrize("case", list(cases()))
def test_node(case: Any, constant: bool) -> None:
    graph = case.model.graph
    for inputs, outputs in case.data_sets:
        arrays = {kind.name: value for kind, value in zip(graph.input, inputs, strict=True)}
        if not all(isinstance(value, np.ndarray | np.generic) for value in arrays.values()):
            pytest.skip("sequences and optionals are not tensors")
        arrays = {name: np.asarray(value) for name, value in arrays.items()}
        try:
            op, given = decode(case.model, arrays, constant)
            types = [None if a is None else TensorType.known(a) for a in given]
            kinds = op.infer(*types)
        except UnsupportedError as error:
            pytest.skip(f"refused: {error}")
        except ShapeFromData:
            kinds = None
        results = op.reference(*given)
        wanted = [value for value in outputs if value is not None]
        assert len(results) >= len(wanted)
        for position, (result, value) in enumerate(zip(results, wanted, strict=False)):
            expected = np.asarray(value)
            if kinds is not None:
                assert (kinds[position].shape, kinds[position].dtype) == (result.shape, result.dtype)
            assert result.shape == expected.shape
            assert result.dtype == expected.dtype
            compare(result, expected, case)


def compare(result: Array, expected: Array, case: Any) -> None:
    if expected.dtype.kind in "OUS":
        assert result.tolist() == expected.tolist()
        return
    if (
        expected.dtype.kind == "V" or expected.dtype.itemsize < 4
    ):  # bfloat16 and smaller know no tolerance test
        result, expected = result.astype(np.float64), expected.astype(np.float64)
        tolerance = max(case.rtol, 2e-2 if "bfloat16" in case.name else 2e-3)
    else:
        tolerance = case.rtol
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=max(case.atol, 1e-6))
