"""Import of an ONNX graph's nodes: decodes operators, inlines functions and branches whose condition is constant."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import defs

from cenote.core.errors import CenoteError, ModelError, UnsupportedError
from cenote.core.types import Array
from cenote.frontends.builder import operator_of, trimmed
from cenote.frontends.microsoft.operators import NAMES, content, is_microsoft, written_out
from cenote.frontends.onnx_bodies import WITH_BODY, add_branch, add_loop
from cenote.frontends.onnx_legacy import without_legacy
from cenote.frontends.onnx_order import ordered, where
from cenote.frontends.onnx_schema import (
    STANDARD,
    check_node,
    check_opset,
    default_attributes,
    domain_of,
    key_of,
    schema_of,
    unsupported_operator,
)
from cenote.frontends.onnx_scope import OnnxScope
from cenote.frontends.onnx_tensors import Tensors, attribute_value, constant_value
from cenote.graph.conditional import Refused
from cenote.graph.graph import Node
from cenote.ops.base import Decoder, Imported, Op
from cenote.ops.movement.reshape import AxesFrom
from cenote.ops.table import DECODERS
from cenote.ops.user_operators import UserOperators

# Nesting of functions that call functions.
DEEPEST_CALL = 48
# Nodes that functions may add (10 s): a few nested ones can expand to 2^48.
MOST_INLINED = 100_000


class OnnxImporter:
    """Collector of the nodes and constants of one model. `kinds` are the declared TypeProtos by value."""

    def __init__(
        self,
        functions: Sequence[Any],
        tensors: Tensors,
        kinds: Mapping[str, Any],
        problems: list[str] | None = None,
        between: bool = False,
        operators: UserOperators | None = None,
    ) -> None:
        self.operators = operators or UserOperators({})
        self.tensors = tensors
        self.kinds = kinds
        # Collects unsupported parts, if given, instead of an error.
        self.problems = problems
        # Only a part of the graph is wanted: unsupported nodes may lie outside of it.
        self.between = between
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}
        self.taken: set[str] = set()
        self.copies: dict[str, int] = {}
        # Standard operators, by the values that they make.
        self.makers: dict[str, str] = {}
        self.inlined = 0
        self.functions = {
            (domain_of(function.domain), function.name, function.overload): function for function in functions
        }
        # Decoded operators of nodes that differ in their names only.
        self.decoded: dict[Hashable, Decoded] = {}
        # Number of nodes of an inlined call of a function, by the function's id.
        self.sizes: dict[int, int] = {}

    def add_nodes(self, nodes: Sequence[Any], scope: OnnxScope) -> None:
        """Import nodes in order; errors name the node."""
        for node in ordered(nodes, lambda name: scope.find(name) is not None):
            count = len(self.nodes)
            try:
                self._add_node(node, scope)
            except CenoteError as error:
                located = error.located(where(node))
                listed = self.problems is not None or (self.between and scope.parent is None)
                if not listed or scope.depth or not isinstance(error, UnsupportedError):
                    raise located from error
                self._leave_out(node, str(located), scope, count)

    def _leave_out(self, node: Any, reason: str, scope: OnnxScope, count: int) -> None:
        """Add a placeholder for an unsupported node; there were `count` nodes before its import was tried."""
        if self.problems is not None:
            self.problems.append(reason)
        del self.nodes[count:]
        made = tuple(scope.find(name) or self.define(name, scope) for name in node.output)
        inputs = tuple(scope.find(name) or "" for name in node.input)
        self.nodes.append(Node(Refused(reason), inputs, made, node.name))

    def define(self, name: str, scope: OnnxScope) -> str:
        """Return the graph's name for a value that a node of the scope makes."""
        if not name:
            return ""
        value = scope.wanted.get(name) or self.unused(scope.prefix + name if scope.prefix else name)
        scope.names[name] = value
        return value

    def unused(self, name: str) -> str:
        """Return the name, with a number behind it if it is taken."""
        unused = name
        while unused in self.taken:
            self.copies[name] = self.copies.get(name, 0) + 1
            unused = f"{name}.{self.copies[name]}"
        self.taken.add(unused)
        return unused

    def _add_node(self, node: Any, scope: OnnxScope) -> None:
        domain = domain_of(node.domain)
        attributes = _bound(node.attribute, scope)
        function = self.functions.get((domain, node.op_type, getattr(node, "overload", "")))
        if function is not None and key_of(domain, node.op_type) not in self.operators:
            self._call(node, function, attributes, scope)
            return
        if domain not in scope.opsets:
            raise ModelError(f"its domain '{domain or 'ai.onnx'}' has no opset_import")
        opset = scope.opsets[domain]
        check_opset(domain, opset)
        check_node(node, attributes, domain, opset)
        axis = None
        if not domain and opset < 7:
            attributes, axis = without_legacy(node.op_type, attributes)
        if not domain and node.op_type == "Constant":
            values = {item.name: attribute_value(item, self.tensors) for item in attributes}
            self.constants[self.define(node.output[0], scope)] = constant_value(values)
        elif not domain and node.op_type == "If":
            add_branch(self, node, attributes, scope)
        elif not domain and node.op_type in WITH_BODY:
            add_loop(self, node, attributes, opset, scope)
        elif (key := key_of(domain, node.op_type)) in self.operators or key in DECODERS:
            self._decode(node, attributes, domain, opset, scope, axis)
        else:
            self._expand(node, attributes, domain, opset, scope)

    def _decode(
        self,
        node: Any,
        attributes: Sequence[Any],
        domain: str,
        opset: int,
        scope: OnnxScope,
        axis: int | None = None,
        decoder: Decoder | None = None,
    ) -> None:
        """Add the node of an operator with a decoder, that of an installed extension or another. `axis`: where the
        second input's axes begin in the first's."""
        inputs = trimmed([scope.resolve(name) for name in node.input])
        if axis is not None:
            aligned = self.unused(f"{node.output[0]}.aligned")
            self.nodes.append(Node(AxesFrom(axis), (inputs[1], inputs[0]), (aligned,)))
            inputs = (inputs[0], aligned, *inputs[2:])
        outputs = trimmed([*node.output])
        if not outputs:  # none is used
            return
        constants = {i: self.constants[name] for i, name in enumerate(inputs) if name in self.constants}
        present = tuple(bool(name) for name in inputs)
        makers = {i: self.makers[name] for i, name in enumerate(inputs) if name in self.makers}
        like: tuple[object, ...] = (domain, node.op_type, opset, present, len(outputs), len(node.output))
        like += tuple(item.SerializeToString() for item in attributes)
        like += (*((index, id(content)) for index, content in constants.items()), *makers.items())
        if like not in self.decoded:
            imported = Imported(
                op=node.op_type,
                domain=domain,
                opset=opset,
                attributes={item.name: attribute_value(item, self.tensors) for item in attributes},
                present=present,
                outputs=len(outputs),
                constants=constants,
                listed=len(node.output),
                makers=makers,
            )
            self.decoded[like] = _decoded(
                imported, decoder or self.operators.decoder(key_of(domain, node.op_type))
            )
        op, wiring = self.decoded[like]
        made = tuple(self.define(name, scope) for name in outputs)
        if not domain:
            self.makers.update(dict.fromkeys(made, node.op_type))
        stem = next(name for name in made if name)
        label = scope.prefix + node.name if node.name else ""
        read = []
        for item in wiring if wiring is not None else range(len(inputs)):
            if isinstance(item, int):
                read.append(inputs[item] if item < len(inputs) else "")
            elif item is None:
                read.append("")
            elif isinstance(item, Op):
                read.append(self.unused(f"{stem}.{item.name}"))
                self.nodes.append(Node(item, (), (read[-1],), label))
            else:
                read.append(self.unused(f"{stem}.constant"))
                self.constants[read[-1]] = np.asarray(item)
        self.nodes.append(Node(op, trimmed(read), made, label))

    def _expand(
        self, node: Any, attributes: Sequence[Any], domain: str, opset: int, scope: OnnxScope
    ) -> None:
        """Add an operator without a decoder by the function body that ONNX defines for it, if there is one."""
        function = self._standard_function(node, attributes, domain, opset, scope)
        if function is None:
            decoder = self.operators.installed(key_of(domain, node.op_type))
            if decoder is None:
                raise unsupported_operator(domain, node.op_type, opset, (*DECODERS, *NAMES))
            self._decode(node, attributes, domain, opset, scope, decoder=decoder)
            return
        bound = {
            **(
                default_attributes(domain, node.op_type, opset)
                if schema_of(domain, node.op_type, opset)
                else {}
            ),
            **{item.name: item for item in attributes},
        }
        opsets = {STANDARD: defs.onnx_opset_version(), **scope.opsets}
        opsets |= {domain_of(entry.domain): entry.version for entry in function.opset_import}
        self._count(len(function.node))
        try:
            self._inline(node, function, list(bound.values()), opsets, scope)
        except UnsupportedError as error:
            missing = unsupported_operator(domain, node.op_type, opset, (*DECODERS, *NAMES))
            raise UnsupportedError(f"{missing}; its definition by other operators fails: {error}") from error

    def _standard_function(
        self, node: Any, attributes: Sequence[Any], domain: str, opset: int, scope: OnnxScope
    ) -> Any | None:
        if is_microsoft(domain, node.op_type):
            return written_out(node, {item.name: content(item) for item in attributes})
        schema = schema_of(domain, node.op_type, opset)
        if schema is None:
            return None
        if schema.has_function:
            return schema.function_body
        if not schema.has_context_dependent_function:
            return None
        kinds = (
            [self.kinds.get(name, onnx.TypeProto()) for name in node.input] if scope.parent is None else []
        )
        versions = [
            version for version in schema.context_dependent_function_opset_versions if version <= opset
        ]
        if not versions or not all(
            kind.ByteSize() for name, kind in zip(node.input, kinds, strict=False) if name
        ):
            return None
        try:
            body = schema.get_context_dependent_function_with_opset_version(
                max(versions), node.SerializeToString(), [kind.SerializeToString() for kind in kinds]
            )
        except (ValueError, RuntimeError, TypeError) as error:
            # onnx reports that the inputs' kinds do not fit.
            raise ModelError(f"{node.op_type} cannot be written out for these inputs: {error}") from error
        return onnx.FunctionProto.FromString(body)

    def _call(self, node: Any, function: Any, attributes: Sequence[Any], scope: OnnxScope) -> None:
        """Add a node that calls a function of the model. The inlined nodes are counted before any is added."""
        if scope.depth == 0:
            self._count(self._size(function, 0))
        bound = {item.name for item in (*function.attribute_proto, *attributes)}
        missing = sorted(set(function.attribute) - bound)
        if missing:
            raise ModelError(
                f"function {function.name}: attribute {', '.join(missing)} is required but missing"
            )
        opsets = {domain_of(entry.domain): entry.version for entry in function.opset_import}
        self._inline(node, function, attributes, opsets, scope)

    def _count(self, nodes: int) -> None:
        """Count nodes that inlining adds; refuse too many."""
        self.inlined += nodes
        if self.inlined > MOST_INLINED:
            raise UnsupportedError(f"inlining the model's functions makes more than {MOST_INLINED} nodes")

    def _size(self, function: Any, depth: int) -> int:
        """Return the number of nodes of a function with all its calls inlined; a lower bound where it is very
        large."""
        if depth > DEEPEST_CALL:
            raise ModelError(
                f"function calls are nested more than {DEEPEST_CALL} deep; a function may call itself"
            )
        size = self.sizes.get(id(function))
        if size is None:
            size = sum(self._size_of_node(node, depth) for node in function.node)
            self.sizes[id(function)] = size
        return size

    def _size_of_node(self, node: Any, depth: int) -> int:
        called = self.functions.get((domain_of(node.domain), node.op_type, getattr(node, "overload", "")))
        bodies = [item.g for item in node.attribute if item.HasField("g")]
        inner = sum(self._size_of_node(each, depth) for body in bodies for each in body.node)
        return 1 + inner + (0 if called is None else self._size(called, depth + 1))

    def _inline(
        self,
        node: Any,
        function: Any,
        attributes: Sequence[Any],
        opsets: Mapping[str, int],
        caller: OnnxScope,
    ) -> None:
        """Put a function's body in place of the node that calls it."""
        if caller.depth >= DEEPEST_CALL:
            raise ModelError(
                f"function calls are nested more than {DEEPEST_CALL} deep; a function may call itself"
            )
        if len(node.input) > len(function.input) or len(node.output) > len(function.output):
            raise ModelError(
                f"function {function.name} takes {len(function.input)} inputs and gives "
                f"{len(function.output)} outputs, but is called with {len(node.input)} and {len(node.output)}"
            )
        actual = [caller.resolve(name) for name in node.input] + [""] * (
            len(function.input) - len(node.input)
        )
        bound = {item.name: item for item in function.attribute_proto}
        bound.update({item.name: item for item in attributes})
        made = {
            formal: self.define(name, caller)
            for formal, name in zip(function.output, node.output, strict=False)
        }
        body = OnnxScope(
            opsets=opsets,
            prefix=f"{caller.prefix}{node.name or node.op_type}/",
            names=dict(zip(function.input, actual, strict=True)),
            wanted=made,
            attributes=bound,
            depth=caller.depth + 1,
        )
        self.add_nodes(function.node, body)
        self.connect([*made.items()], body)

    def add_initializers(
        self, graph: Any, scope: OnnxScope, contents: Mapping[int, Array] | None = None
    ) -> None:
        """Add a graph's weights as constants. `contents` holds raw bytes that are not in the messages."""
        if graph.sparse_initializer:
            raise UnsupportedError("sparse initializers are not supported; save the model with dense ones")
        for index, tensor in enumerate(graph.initializer):
            what = f"initializer '{tensor.name}'"
            if not tensor.name:
                raise ModelError(f"initializer {index} has no name")
            if tensor.name in scope.names:
                raise ModelError(f"{what} is defined twice")
            array = self.tensors.array(tensor, what, (contents or {}).get(index))
            self.constants[self.define(tensor.name, scope)] = array

    def connect(self, made: Sequence[tuple[str, str]], body: OnnxScope) -> None:
        """Give the caller its values where the body passes on a value that it did not make itself."""
        for formal, value in made:
            if not value:
                continue
            source = body.find(formal)
            if source is None:
                raise ModelError(f"output '{formal}' of its body is made by nothing")
            if source != value:
                op, _ = _decoded(Imported("Identity", "", max(body.opsets.get("", 13), 13), {}, (True,), 1))
                self.nodes.append(Node(op, (source,), (value,)))


def _bound(attributes: Sequence[Any], scope: OnnxScope) -> list[Any]:
    """Return attributes with references to the function's own attributes filled in; unset optional ones are left
    out."""
    bound = []
    for item in attributes:
        if not item.ref_attr_name:
            bound.append(item)
        elif scope.attributes is None:
            raise ModelError(
                f"{item.name} refers to the attribute '{item.ref_attr_name}' of a function, and is in none"
            )
        elif item.ref_attr_name in scope.attributes:
            copy = onnx.AttributeProto()
            copy.CopyFrom(scope.attributes[item.ref_attr_name])
            copy.name = item.name
            bound.append(copy)
    return bound


Decoded = tuple[Op, tuple[int | Array | Op | None, ...] | None]


def _decoded(imported: Imported, decoder: Decoder | None = None) -> Decoded:
    """Return the operator, and the wiring of its inputs where it is not the node's."""
    if decoder is None and key_of(imported.domain, imported.op) not in DECODERS:
        raise unsupported_operator(imported.domain, imported.op, imported.opset, DECODERS)
    return operator_of(imported, decoder)
