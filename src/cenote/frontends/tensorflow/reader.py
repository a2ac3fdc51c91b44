"""Reader of TensorFlow models: GraphDef files (.pb, .pbtxt), SavedModel folders, MetaGraphDefs with their
checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cenote.core.errors import ArgumentError, ModelError, UnsupportedError
from cenote.core.files import reading
from cenote.core.types import Array
from cenote.frontends.imported import Ends, ImportedModel
from cenote.frontends.tensorflow.checkpoint import Checkpoint
from cenote.frontends.tensorflow.feeds import tensor_named, type_of
from cenote.frontends.tensorflow.messages import Contents, parse, parse_text
from cenote.frontends.tensorflow.nodes import (
    Dead,
    SpaceToBatchNode,
    TensorFlowImporter,
    Value,
    VariableHandle,
)
from cenote.frontends.tensorflow.operators import OPERATORS
from cenote.frontends.tensorflow.scope import TensorFlowScope, is_pivot
from cenote.frontends.tensorflow_common import words
from cenote.frontends.wire import ByteSource, FileSource
from cenote.graph.graph import Graph
from cenote.ops.user_operators import UserOperators

_ALL = Ends()
_SERVING = "serving_default"
# Sinks of a graph that are no outputs of a network.
_NO_ANSWERS = words(
    "NoOp Assert Print Const Placeholder PlaceholderWithDefault SaveV2 RestoreV2 Assign AssignVariableOp "
    "AssignAdd AssignSub AssignAddVariableOp AssignSubVariableOp VarHandleOp VariableV2 Variable "
    "VarIsInitializedOp MergeSummary ScalarSummary HistogramSummary ImageSummary "
    "ResourceApplyGradientDescent ResourceApplyAdam ResourceApplyMomentum ApplyGradientDescent ApplyAdam "
    "ApplyMomentum ApplyRMSProp ReadVariableOp"
)
_OTHER_SCOPES = ("save/", "gradients/", "Adam", "init")


def load_graph_def(
    source: ByteSource,
    text: bool = False,
    problems: list[str] | None = None,
    ends: Ends = _ALL,
    operators: UserOperators | None = None,
) -> ImportedModel:
    """Read a frozen graph: the placeholders that its outputs need are the inputs, the nodes that no node reads the
    outputs, except for those that `ends` names."""
    if text:
        graph, contents = parse_text(source.read(0, source.size), "GraphDef"), Contents(source)
    else:
        graph, contents = parse(source, "GraphDef")
    return _imported(graph, contents, {}, {}, None, (), problems, ends, operators)


def load_saved_model(
    path: Path,
    signature: str | None = None,
    problems: list[str] | None = None,
    ends: Ends = _ALL,
    operators: UserOperators | None = None,
) -> ImportedModel:
    """Read a SavedModel folder. `signature`: its function; by default "serving_default", or the only one. `ends` may
    name the signature's inputs and outputs, or tensors.

    Raises ArgumentError when there is no such signature.
    """
    with reading(path) as file:
        model, contents = parse(FileSource(file), "SavedModel")
        meta = _meta_graph(model)
        chosen = _signature(meta.signature_def, signature)
        prefix = path.parent / "variables" / "variables"
        checkpoint = Checkpoint(prefix) if prefix.with_name("variables.index").exists() else None
        inputs = {info.name: key for key, info in chosen.inputs.items()}
        outputs = {key: info.name for key, info in sorted(chosen.outputs.items())}
        return _imported(
            meta.graph_def,
            contents,
            outputs,
            inputs,
            checkpoint,
            (path.parent,),
            problems,
            ends,
            operators,
        )


def load_meta_graph(
    path: Path,
    problems: list[str] | None = None,
    ends: Ends = _ALL,
    operators: UserOperators | None = None,
) -> ImportedModel:
    """Read a MetaGraphDef (`name.meta`) with the checkpoint of the same name beside it."""
    with reading(path) as file:
        meta, contents = parse(FileSource(file), "MetaGraphDef")
        checkpoint = Checkpoint(path.with_suffix(""))
        return _imported(
            meta.graph_def, contents, {}, {}, checkpoint, (path.parent,), problems, ends, operators
        )


def _meta_graph(model: Any) -> Any:
    """Return the graph for serving, of those in a SavedModel."""
    graphs = [meta for meta in model.meta_graphs if "serve" in meta.meta_info_def.tags] or list(
        model.meta_graphs
    )
    if not graphs:
        raise ModelError("the SavedModel holds no graph")
    return graphs[0]


def _signature(signatures: Mapping[str, Any], wanted: str | None) -> Any:
    offered = sorted(name for name, each in signatures.items() if each.outputs)
    name = wanted or (_SERVING if _SERVING in offered else offered[0] if len(offered) == 1 else "")
    if name not in offered:
        what = f"signature '{wanted}' is not in the model" if wanted else "the model has no default signature"
        raise ArgumentError(f"signature: {what}; it has {', '.join(offered) or 'none'}")
    return signatures[name]


def answers_of(nodes: Sequence[Any]) -> list[str]:
    """Return the nodes that no other reads and that are not for training or saving, in order."""
    named = {node.name: node for node in nodes}
    read = {each.split(":")[0] for node in nodes for each in node.input if not each.startswith("^")}
    awaited = {each[1:] for node in nodes for each in node.input if each.startswith("^")}

    unread = [
        node.name
        for node in nodes
        if node.name not in read
        and node.op not in _NO_ANSWERS
        and not node.op.endswith(("Dataset", "DatasetV2", "Iterator", "IteratorV2"))
        and not node.name.startswith(_OTHER_SCOPES)
        and not is_pivot(named, node.name)
    ]
    answers = [name for name in unread if name not in awaited] or unread
    if not answers:
        raise ModelError(
            "no node of the graph is an output: every one is read by another, or is there for training"
        )
    return answers


def _imported(
    graph: Any,
    contents: Contents,
    outputs: Mapping[str, str],
    inputs: Mapping[str, str],
    checkpoint: Checkpoint | None,
    folders: Sequence[Path],
    problems: list[str] | None,
    ends: Ends,
    operators: UserOperators | None,
) -> ImportedModel:
    functions = {function.signature.name: function for function in graph.library.function}
    nodes = _by_name(graph.node)
    importer = TensorFlowImporter(
        OPERATORS, contents, functions, _values(graph.node, functions, contents, checkpoint), ends.sizes
    )
    importer.problems, importer.user_operators = problems, operators or UserOperators({})
    importer.input_names = {name.split(":")[0]: key for name, key in inputs.items()}
    scope = TensorFlowScope[Value](nodes)
    keys = {key: name for name, key in inputs.items()}
    for name in ends.inputs or ():
        node, index = tensor_named(keys.get(name, name), nodes, "inputs")
        scope.fed[node, index] = importer.builder.input(name, *type_of(nodes[node], index, name))
    built_outputs: dict[str, str] = {}
    wanted = _wanted(ends, outputs, graph.node)
    scope.results = tuple(wanted.values())
    for name, reference in wanted.items():
        node, index = tensor_named(reference, nodes, "outputs")
        built_outputs[name] = _tensor(importer, scope, f"{node}:{index}", name)
    # All inputs of a signature, whether they are read or not.
    for node in graph.node if ends.inputs is None else ():
        if node.name in importer.input_names:
            importer.value(scope, node.name)
    importer.branches.structured()
    order = {key: place for place, key in enumerate(ends.inputs or _order_of(graph.node, importer))}
    importer.builder.inputs.sort(key=lambda declared: order.get(declared.name, len(order)))
    external = () if checkpoint is None else tuple(map(str, _files(checkpoint, folders)))
    built = _without_unread(
        importer.builder.graph(built_outputs, "graph"), {*keys} if ends.inputs is None else {*ends.inputs}
    )
    if ends.inputs is not None and (more := [each for each in built.inputs if each.name not in ends.inputs]):
        raise ArgumentError(
            f"inputs: the outputs need {', '.join(map(str, more))} as well; name it, or other outputs"
        )
    return ImportedModel(built, {}, {}, {"producer_name": "TensorFlow"}, external, between=True)


def _wanted(ends: Ends, offered: Mapping[str, str], nodes: Sequence[Any]) -> Mapping[str, str]:
    """Return the tensors of the outputs, by the name that each will have."""
    if ends.outputs is not None:
        return {name: offered.get(name, name) for name in ends.outputs}
    return offered or {name: name for name in answers_of(nodes)}


def _tensor(importer: TensorFlowImporter, scope: TensorFlowScope[Value], reference: str, name: str) -> str:
    """Return the value of a graph's output."""
    value = importer.value(scope, reference)
    if isinstance(value, Dead):
        raise UnsupportedError(f"output '{name}' comes out of a branch that is not taken")
    if scope.sides_of(reference):
        raise UnsupportedError(
            f"output '{name}' lies in a branch that a run may not take; name what a Merge makes of it"
        )
    if isinstance(value, VariableHandle):
        value = importer.read(value)
    if isinstance(value, SpaceToBatchNode):
        value = importer.in_batch(value)
    if not isinstance(value, str):
        raise UnsupportedError(
            f"output '{name}' is no tensor that is ready: random numbers are supported only in dropout"
        )
    return value


def _order_of(nodes: Sequence[Any], importer: TensorFlowImporter) -> list[str]:
    """Return the names of inputs in the file's order, which is that of the caller's arguments."""
    return [importer.input_names.get(node.name, node.name) for node in nodes]


def _without_unread(graph: Graph, promised: Collection[str]) -> Graph:
    """Return the graph without nodes that no output needs, and without inputs that none needs and that are not
    promised."""
    needed, nodes = set(graph.outputs), []
    for node in reversed(graph.nodes):
        if not needed.isdisjoint(node.outputs):
            nodes.append(node)
            needed.update(node.inputs)
    inputs = tuple(each for each in graph.inputs if each.name in needed or each.name in promised)
    return graph.replace(inputs=inputs, nodes=tuple(reversed(nodes)))


def _files(checkpoint: Checkpoint, folders: Iterable[Path]) -> list[str]:
    """Return the checkpoint's files, relative to the model's folder."""
    index = checkpoint.prefix.with_name(checkpoint.prefix.name + ".index")
    (folder,) = folders
    return [str(path.relative_to(folder)) for path in (index, *checkpoint.files())]


def _by_name(nodes: Sequence[Any]) -> dict[str, Any]:
    named = {node.name: node for node in nodes}
    if len(named) != len(nodes):
        raise ModelError("two nodes have the same name")
    return named


# ---- variables ------------------------------------------------------------------------------------------------------


def _values(
    nodes: Sequence[Any], functions: Mapping[str, Any], contents: Contents, checkpoint: Checkpoint | None
) -> Callable[[VariableHandle], Array | None] | None:
    """Return a function for the content of variables in a checkpoint, under the keys from which the model restores
    them."""
    if checkpoint is None:
        return None
    keys = _restored(nodes, functions, contents)
    names = checkpoint.keys_by_name()

    def value(variable: VariableHandle) -> Array | None:
        for key in (keys.get(variable.node), names.get(variable.name), variable.name):
            content = None if key is None else checkpoint.read(key)
            if content is not None:
                return content
        return None

    return value


def _restored(nodes: Sequence[Any], functions: Mapping[str, Any], contents: Contents) -> dict[str, str]:
    """Return the checkpoint key of each variable, by the node of its handle: the key that the model's own restoring
    assigns."""
    keys = _assigned(_by_name(nodes), {}, contents)
    for node in nodes:
        function = functions.get(node.attr["f"].func.name) if "f" in node.attr else None
        if function is None or not any(inner.op == "RestoreV2" for inner in function.node_def):
            continue
        actual = [name for name in node.input if not name.startswith("^")]
        formal = [argument.name for argument in function.signature.input_arg]
        handles = {name: value.split(":")[0] for name, value in zip(formal, actual, strict=False)}
        keys |= _assigned(_by_name(function.node_def), handles, contents)
    return keys


def _assigned(nodes: Mapping[str, Any], handles: Mapping[str, str], contents: Contents) -> dict[str, str]:
    """Return, for each assignment of a restored tensor, the node of the variable's handle and the key."""
    keys = {}
    for node in nodes.values():
        if node.op not in ("AssignVariableOp", "Assign") or len(node.input) < 2:
            continue
        reference = node.input[1]
        # Through Identity.
        for _ in range(4):
            source = nodes.get(reference.split(":")[0])
            if source is None or source.op != "Identity" or not source.input:
                break
            reference = source.input[0]
        source = nodes.get(reference.split(":")[0])
        if source is None or source.op != "RestoreV2" or len(source.input) < 2:
            continue
        names = _texts(nodes, source.input[1], contents)
        index = reference.split(":")[-1]
        place = int(index) if index.isdecimal() else 0
        handle = node.input[0].split(":")[0]
        if place < len(names):
            keys[handles.get(handle, handle)] = names[place]
    return keys


def _texts(nodes: Mapping[str, Any], reference: str, contents: Contents) -> list[str]:
    node = nodes.get(reference.split(":")[0])
    if node is None or "value" not in node.attr:
        return []
    return [text.decode(errors="replace") for text in node.attr["value"].tensor.string_val]
