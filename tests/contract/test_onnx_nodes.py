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
from cenote.ops.base import Imported, Op, Rewired, ShapeFromData, Types, ValueNeeded
from cenote.ops.table import DECODERS
from tests.onnx_cases import RANDOM, specified


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
        outputs=len(node.output),
        constants=known,
    )
    decoded = DECODERS[_key(node)](imported)
    given: list[Array | None] = [arrays[name] if name else None for name in node.input]
    if not isinstance(decoded, Rewired):
        return decoded, given
    return decoded.op, [_wired(item, given) for item in decoded.inputs]


def _wired(item: int | Array | Op | None, given: list[Array | None]) -> Array | None:
    """An input of the node, a constant, or what an operator without inputs gives."""
    if isinstance(item, Op):
        return item.reference()[0]
    return given[item] if isinstance(item, int) else item


@pytest.mark.parametrize("constant", [True, False], ids=["constants", "inputs"])
@pytest.mark.parametrize("case", list(cases()))
def test_node(case: Any, constant: bool) -> None:
    graph = case.model.graph
    for inputs, outputs in case.data_sets:
        if any(isinstance(value, list) or value is None for value in (*inputs, *outputs)):
            pytest.skip("sequences and optionals are not tensors")
        names = [kind.name for kind in graph.input]
        arrays = {name: as_array(value) for name, value in zip(names, inputs, strict=True)}
        try:
            op, given = decode(case.model, arrays, constant)
            kinds = settled_types(op, given, constant)
            results = op.reference(*given)
        except UnsupportedError as error:
            pytest.skip(f"refused: {error}")
        made = dict(zip(graph.node[0].output, zip(results, kinds or results, strict=True), strict=False))
        for kind, value in zip(graph.output, outputs, strict=True):
            result, foretold = made[kind.name]
            expected = as_array(value)
            assert (foretold.shape, foretold.dtype) == (result.shape, result.dtype)
            assert result.shape == expected.shape
            if RANDOM.match(case.name):
                assert result.dtype == expected.dtype
                continue
            compare(*(specified(case, [*arrays.values()], each) for each in (result, expected)), case)


def settled_types(op: Op, inputs: list[Array | None], known: bool) -> Types | None:
    """What `infer` foretells when it knows all content, or only what it asks for; None when only data tells."""
    types = [None if x is None else TensorType(x.dtype, x.shape, x if known else None) for x in inputs]
    for _ in range(len(inputs) + 1):
        try:
            return op.infer(*types)
        except ShapeFromData:
            return None
        except ValueNeeded as needed:
            index = needed.index
        content = inputs[index]
        assert content is not None, f"{op} asks for the absent input {index}"
        types[index] = TensorType.known(content)
    raise AssertionError(f"{op}: infer keeps asking for inputs")


def as_array(value: Any) -> Array:
    """The elements smaller than a byte come as tensors of the file format."""
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def compare(result: Array, expected: Array, case: Any) -> None:
    if expected.dtype.kind in "OUS":
        assert result.tolist() == expected.tolist()
        return
    assert result.dtype == expected.dtype
    if "float" not in result.dtype.name and result.dtype.kind != "c":
        np.testing.assert_array_equal(result, expected)
        return
    tolerance, zero = case.rtol, max(case.atol, 1e-6)
    # Two units in the last place: the expected values were rounded at every step.
    if result.dtype.itemsize < 4:
        tolerance = max(tolerance, 2.0**-6 if result.dtype.name == "bfloat16" else 2.0**-9)
        result, expected = result.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=zero)
