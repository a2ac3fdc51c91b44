"""Nodes with graphs inside: If, of which both branches are imported unless the condition is constant, and Loop, Scan
and SequenceMap, whose graph becomes the body of a control-flow operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cenote.core.errors import ModelError, UnsupportedError
from cenote.core.types import Array, Declared
from cenote.frontends.builder import trimmed
from cenote.frontends.onnx_scope import Adder, OnnxScope
from cenote.frontends.onnx_tensors import attribute_value, dtype_of, shape_of
from cenote.graph.conditional import branch_node, refusal
from cenote.graph.graph import Node
from cenote.graph.loops import Body, ControlFlow, Loop, Scan, SequenceMap
from cenote.ops.base import Op
from cenote.ops.movement.reshape import Identity

WITH_BODY = frozenset({"Loop", "Scan", "SequenceMap"})
_LISTS = (
    "scan_input_axes",
    "scan_output_axes",
    "scan_input_directions",
    "scan_output_directions",
    "directions",
)


def add_branch(importer: Adder, node: Any, attributes: Sequence[Any], scope: OnnxScope) -> None:
    """Add an If: the chosen branch in its place where the condition is constant, else a node that holds both."""
    condition = scope.resolve(node.input[0])
    known = importer.constants.get(condition)
    branches = {item.name: item.g for item in attributes}
    made = tuple(importer.define(name, scope) for name in node.output)
    if known is not None and known.size == 1:
        wanted = "then_branch" if bool(known.reshape(())) else "else_branch"
        _choice(importer, node, wanted, branches[wanted], made, scope, direct=True)
        return
    bodies = [
        _branch_body(importer, node, name, branches[name], made, scope)
        for name in ("then_branch", "else_branch")
    ]
    if all(isinstance(body, UnsupportedError) for body in bodies):
        raise next(body for body in bodies if isinstance(body, UnsupportedError))
    if not any(made):
        # No output is used.
        return
    label = scope.prefix + node.name if node.name else ""
    taken = [
        (refusal(body, trimmed(made), label),) if isinstance(body, UnsupportedError) else body
        for body in bodies
    ]
    importer.nodes.append(branch_node(condition, trimmed(made), taken[0], taken[1], label))


def _branch_body(
    importer: Adder, node: Any, name: str, graph: Any, made: Sequence[str], scope: OnnxScope
) -> tuple[Node, ...] | UnsupportedError:
    """Return the nodes of a branch, or the error that prevents them: the model may never take the branch."""
    outside, importer.nodes = importer.nodes, []
    try:
        _choice(importer, node, name, graph, made, scope, direct=False)
        return tuple(importer.nodes)
    except UnsupportedError as error:
        return error
    finally:
        importer.nodes = outside


def _choice(
    importer: Adder, node: Any, name: str, graph: Any, made: Sequence[str], scope: OnnxScope, direct: bool
) -> None:
    """Add a branch's nodes; its outputs become the values `made`; `direct`: written by the nodes themselves if
    possible."""
    if len(graph.output) != len(node.output):
        raise ModelError(f"{name} has {len(graph.output)} outputs, the node {len(node.output)}")
    outputs = [(value.name, value_made) for value, value_made in zip(graph.output, made, strict=True)]
    body = scope.inside(f"{scope.prefix}{node.name or node.op_type}/", dict(outputs) if direct else {})
    importer.add_initializers(graph, body)
    importer.add_nodes(graph.node, body)
    importer.connect(outputs, body)


def add_loop(importer: Adder, node: Any, attributes: Sequence[Any], opset: int, scope: OnnxScope) -> None:
    """Add a Loop, Scan or SequenceMap. Raises ModelError where body and node do not fit."""
    graph = next((item.g for item in attributes if item.name == "body"), None)
    if graph is None:
        raise ModelError(f"{node.op_type} has no body")
    inputs = [scope.resolve(name) for name in node.input]
    body = _body(importer, node, graph, scope)
    values = {
        item.name: attribute_value(item, importer.tensors) for item in attributes if item.name != "body"
    }
    _check_counts(node, body, values, opset)
    made = trimmed(tuple(importer.define(name, scope) for name in node.output))
    if made:
        label = scope.prefix + node.name if node.name else ""
        op = _operator(node.op_type, opset, body, values)
        importer.nodes.append(Node(op, (*inputs, *body.captured), made, label))


def _operator(kind: str, opset: int, body: Body, values: Mapping[str, Any]) -> ControlFlow:
    if kind == "Loop":
        return Loop(body)
    if kind == "SequenceMap":
        return SequenceMap(body)
    lists = {name: tuple(int(item) for item in values.get(name, ())) for name in _LISTS}
    for name in ("scan_input_directions", "scan_output_directions", "directions"):
        if not set(lists[name]) <= {0, 1}:
            raise ModelError(f"Scan: {name} must hold 0 (forward) and 1 (backward), got {list(lists[name])}")
    return Scan(
        body,
        int(values["num_scan_inputs"]),
        lists["scan_input_axes"],
        lists["scan_output_axes"],
        lists["directions"] if opset < 9 else lists["scan_input_directions"],
        lists["scan_output_directions"],
        batched=opset < 9,
    )


def _check_counts(node: Any, body: Body, values: Mapping[str, Any], opset: int) -> None:
    """Check that a body has as many inputs and outputs as the node's inputs and outputs require."""
    inputs, outputs = len(node.input), len(node.output)
    if node.op_type == "Loop":
        takes, gives, scanned = inputs, len(body.outputs) - 1, 0
        fewest = inputs - 2
    elif node.op_type == "Scan":
        scanned = int(values["num_scan_inputs"])
        takes, gives = inputs - (opset < 9), len(body.outputs)
        fewest = takes - scanned
        if not 1 <= scanned <= takes:
            raise ModelError(f"Scan: num_scan_inputs is {scanned}, of {takes} inputs")
    else:
        takes, gives, fewest = inputs, len(body.outputs), 1
    if len(body.formals) != takes:
        raise ModelError(
            f"{node.op_type}: its body has {len(body.formals)} inputs, the node gives it {takes}"
        )
    if gives < max(fewest, outputs):
        raise ModelError(
            f"{node.op_type}: its body has too few outputs ({len(body.outputs)}) for the node's {outputs}"
        )


def _body(importer: Adder, node: Any, graph: Any, scope: OnnxScope) -> Body:
    """Return a body with its nodes; values that it reads from outside are captured, constants are its own."""
    outside, importer.nodes = importer.nodes, []
    try:
        inner = scope.inside(f"{scope.prefix}{node.name or node.op_type}/")
        importer.add_initializers(graph, inner)
        own = [value for value in graph.input if value.name not in inner.names]
        formals = tuple(importer.define(value.name, inner) for value in own)
        if not all(formals):
            raise ModelError("an input of its body has no name")
        importer.add_nodes(graph.node, inner)
        outputs = _outputs(importer, [value.name for value in graph.output], inner)
        nodes = tuple(importer.nodes)
    finally:
        importer.nodes = outside
    made = {name for each in nodes for name in each.outputs}
    reads = dict.fromkeys(name for each in nodes for name in each.inputs if name and name not in made)
    constants: dict[str, Array] = {
        name: importer.constants[name] for name in reads if name in importer.constants
    }
    captured = tuple(name for name in reads if name not in constants and name not in formals)
    declared = tuple(_declared(value) for value in graph.output)
    return Body(graph.name or node.op_type, formals, captured, nodes, outputs, constants, declared)


def _outputs(importer: Adder, names: Sequence[str], scope: OnnxScope) -> tuple[str, ...]:
    """Return the values of a body's outputs, each made by a node and none twice: copies where the file passes on
    others."""
    made = {name for node in importer.nodes for name in node.outputs}
    outputs: list[str] = []
    identity: Op = Identity()
    for name in names:
        source = scope.find(name)
        if source is None:
            raise ModelError(f"output '{name}' of its body is made by nothing")
        if source not in made or source in outputs:
            copy = importer.unused(f"{source}.out")
            importer.nodes.append(Node(identity, (source,), (copy,)))
            source = copy
        outputs.append(source)
    return tuple(outputs)


def _declared(value: Any) -> Declared | None:
    """Return the file's declaration of a body's output; None where it has no tensor type."""
    if value.type.WhichOneof("value") != "tensor_type" or not value.type.tensor_type.elem_type:
        return None
    tensor = value.type.tensor_type
    shape = shape_of(tensor)
    shape = None if shape is None else tuple(n if isinstance(n, int) else None for n in shape)
    return Declared(value.name, dtype_of(tensor.elem_type, f"output '{value.name}' of a body"), shape)
