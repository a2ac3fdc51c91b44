"""A model between values that its caller names: `inputs=` and `outputs=` of `cenote.load`.

Graphs of TensorFlow are read from their outputs on, so their front end stops at the inputs. Others are read whole and
cut here: the nodes that the outputs need, back to the inputs, remain.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cenote.core.errors import ArgumentError, CenoteError, UnsupportedError, near
from cenote.core.load_options import LoadOptions
from cenote.core.types import Declared, TensorType
from cenote.frontends.formats import import_model
from cenote.frontends.imported import Ends, ImportedModel
from cenote.graph.conditional import Refused
from cenote.graph.graph import Graph
from cenote.ops.user_operators import UserOperators
from cenote.passes.cleanup import eliminate_dead
from cenote.passes.specialize import specialize

# Size assumed for unknown dimensions where types of values are inferred.
_OPEN = 64


def read(source: Any, options: LoadOptions) -> ImportedModel:
    """Read a model from its file, whole or between the values that `options` name.

    Raises as `frontends.formats.import_model`, ArgumentError for an unknown name and where the outputs need inputs that
    are not named, UnsupportedError for an input whose type cannot be inferred.
    """
    ends = Ends(options.inputs, options.outputs, options.shapes)
    operators = UserOperators(options.user_operators)
    imported = import_model(source, options.format, options.signature, ends=ends, operators=operators)
    if options.operators and not operators.consulted:
        raise UnsupportedError(
            f"operators: {', '.join(options.operators)}: operators of yours can compute nodes of models of ONNX, "
            "TensorFlow and TensorFlow Lite; this model has another format"
        )
    imported = replace(imported, operators=dict(operators.used))
    if not ends or imported.between:
        return imported
    graph = _cut(imported.graph, ends, imported.inside)
    for node in graph.nodes:
        if isinstance(node.op, Refused):
            error = UnsupportedError(node.op.reason)
            raise error.located(os.fspath(source)) if isinstance(source, str | os.PathLike) else error
    declared = {name: each for name, each in imported.outputs.items() if name in graph.outputs}
    return replace(imported, graph=graph, outputs=declared)


def _cut(graph: Graph, ends: Ends, inside: Mapping[str, Declared]) -> Graph:
    """Return the part of a graph that the outputs need, back to the inputs; `inside`: types of values in its file."""
    known = set(graph.values())
    outputs = tuple(_value(name, known, "outputs") for name in ends.outputs or graph.outputs)
    if len(set(outputs)) != len(outputs):
        raise ArgumentError(f"outputs: names a value twice: {', '.join(ends.outputs or ())}")
    given = {declared.name: declared for declared in graph.inputs}
    named = [_value(name, known, "inputs") for name in (given if ends.inputs is None else ends.inputs)]
    needed, stop, nodes = set(outputs), set(named), []
    for node in reversed(graph.nodes):
        if any(name in needed and name not in stop for name in node.outputs):
            nodes.append(node)
            needed.update(node.inputs)
    if missing := [str(each) for name, each in given.items() if name in needed - stop]:
        raise ArgumentError(
            f"inputs: the outputs need {', '.join(missing)} as well; name it, or other outputs"
        )
    if ends.inputs is None:
        named = [name for name in named if name in needed]
    types = _types(graph, [name for name in named if name not in given], inside)
    inputs = tuple(given[name] if name in given else types[name] for name in named)
    constants = {name: x for name, x in graph.constants.items() if name in needed and name not in stop}
    graph = graph.replace(
        inputs=inputs, outputs=outputs, nodes=tuple(reversed(nodes)), constants=constants, types={}
    )
    return _apart(graph, stop)


def _apart(graph: Graph, stop: set[str]) -> Graph:
    """Return the graph without outputs of its nodes that have become inputs."""
    nodes = tuple(
        replace(node, outputs=tuple("" if name in stop else name for name in node.outputs))
        if not stop.isdisjoint(node.outputs)
        else node
        for node in graph.nodes
    )
    return graph.replace(nodes=nodes)


def _types(graph: Graph, names: Sequence[str], inside: Mapping[str, Declared]) -> Mapping[str, Declared]:
    """Return the types of values inside a graph: inferred from its inputs, else as in its file. Sizes stay open unless
    the file fixes those of all inputs. Raises UnsupportedError where neither gives a type."""
    if not names:
        return {}
    fixed = all(
        declared.shape is not None and all(isinstance(size, int) for size in declared.shape)
        for declared in graph.inputs
    )
    try:
        inputs = {declared.name: _assumed(declared) for declared in graph.inputs}
        wanted = eliminate_dead(graph.replace(outputs=tuple(dict.fromkeys(names))))
        found = specialize(wanted, inputs).graph.types
        return {
            name: Declared(
                name, found[name].dtype, found[name].shape if fixed else (None,) * found[name].rank
            )
            for name in names
        }
    except (CenoteError, KeyError) as error:
        if all(name in inside for name in names):
            return {name: inside[name] for name in names}
        raise UnsupportedError(
            f"inputs: the type of {', '.join(names)} cannot be told ({error}); name values before it"
        ) from error


def _assumed(declared: Declared) -> TensorType:
    if declared.shape is None or declared.form:
        raise UnsupportedError(f"the shape of input '{declared.name}' is not known")
    return TensorType(
        declared.dtype, tuple(size if isinstance(size, int) else _OPEN for size in declared.shape)
    )


def _value(name: str, known: set[str], argument: str) -> str:
    """Return the name of a value; "node:0", the first output of a TensorFlow node, is "node". Raises ArgumentError."""
    if name in known:
        return name
    if (bare := name.removesuffix(":0")) in known:
        return bare
    raise ArgumentError(f"{argument}: '{name}' is no value of the model{near(name, known)}")
