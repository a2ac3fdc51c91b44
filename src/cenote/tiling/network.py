"""Plans of all layers of a model that can be tiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, ModelError, errors_at, shown
from cenote.core.types import Declared, TensorType
from cenote.frontends.formats import import_model
from cenote.graph.graph import Graph, Node
from cenote.ops.base import Op
from cenote.ops.elementwise.pointwise import Pointwise
from cenote.passes.specialize import specialize
from cenote.tiling.arguments import PLANNERS
from cenote.tiling.hardware import Hardware, hardware_of
from cenote.tiling.kinds.families import layer_of
from cenote.tiling.layer import Layer
from cenote.tiling.policy import policy_of
from cenote.tiling.problem import Problem, TilingPlan, titled
from cenote.tiling.reduction import ReductionPlan, planned


@dataclass(frozen=True)
class NetworkPlan:
    """Plans of a model's layers that are tiled (pools, convolutions, products, layer normalisations), in the order of
    its nodes. `others` counts the other nodes."""

    name: str
    plans: tuple[TilingPlan, ...]
    others: int

    def __repr__(self) -> str:
        machine = self.plans[0].hardware.name if self.plans else "no machine"
        return f"<NetworkPlan: {self.name}, {len(self.plans)} layers, {self.cycles:,} cycles on {machine}>"

    @property
    def cycles(self) -> int:
        """The cycles of all layers, one after the other."""
        return sum(plan.cycles for plan in self.plans)

    @property
    def bytes_moved(self) -> int:
        return sum(plan.cost.bytes_in + plan.cost.bytes_out for plan in self.plans)

    def worst(self, count: int = 5) -> list[TilingPlan]:
        """Return the layers that take the most cycles."""
        return sorted(self.plans, key=lambda plan: -plan.cycles)[:count]

    def to_dict(self) -> dict[str, Any]:
        """Return the plans as plain data, for JSON."""
        return {
            "model": self.name,
            "cycles": self.cycles,
            "bytes_moved": self.bytes_moved,
            "others": self.others,
            "layers": [plan.to_dict() for plan in self.plans],
            "worst": [plan.layer.title for plan in self.worst()],
        }


def plan_model(
    source: Any,
    *,
    hardware: str | Mapping[str, Any] | Hardware = "npu",
    strategy: str = "three-stage",
    shapes: Mapping[str, Sequence[int]] | None = None,
    node: str | None = None,
    **policy: Any,
) -> NetworkPlan:
    """Plan all pools, convolutions, products and layer normalisations of a model, each with the elementwise operators
    of one input that follow it.

    `source` is what `cenote.load` takes. `shapes` has the sizes of inputs by name; a first axis without a size is 1.
    With `node` only that node is planned, given by its name or that of its output. Raises as `plan`, with the node;
    ArgumentError where another axis has no size; ModelError where the model has no such node or its shapes depend on
    content.
    """
    if strategy not in PLANNERS:
        raise ArgumentError(f"tiling: strategy must be three-stage or search, got {shown(strategy)}")
    machine, chosen = hardware_of(hardware), policy_of(policy)
    imported = import_model(source)
    graph = _typed(imported.graph, shapes or {})
    known: dict[tuple[Any, ...], TilingPlan] = {}
    plans: list[TilingPlan] = []
    covered = 0
    for item, layer in _layers(graph):
        if node is not None and node not in (item.label, *item.outputs):
            continue
        covered += 1 + len(layer.fused)
        with errors_at(item.where):
            key = layer.op, layer.inputs, layer.fused
            if key not in known:
                known[key] = planned(PLANNERS[strategy], strategy, Problem(layer, machine, chosen))
            plans += _for(known[key], layer)
    if not plans:
        what = f"no layer that is tiled '{node}'" if node is not None else "no layer that is tiled"
        raise ModelError(f"tiling: the model '{graph.name}' has {what}")
    return NetworkPlan(graph.name, tuple(plans), len(graph.nodes) - covered)


def _for(plan: TilingPlan, layer: Layer) -> list[TilingPlan]:
    """Return the plan of an equal layer, under this layer's name: one for each pass."""
    if not isinstance(plan, ReductionPlan):
        return [titled(plan, layer.title)]
    count = len(plan.passes)
    return [titled(each, f"{layer.title}, pass {n} of {count}") for n, each in enumerate(plan.passes, 1)]


def _typed(graph: Graph, shapes: Mapping[str, Sequence[int]]) -> Graph:
    """Return the graph with the types of all values."""
    types = {declared.name: _type(declared, shapes) for declared in graph.inputs}
    unknown = sorted(set(shapes) - set(types))
    if unknown:
        raise ArgumentError(f"tiling: the model has no input {', '.join(unknown)} ({', '.join(types)})")
    stage = specialize(graph, types)
    if stage.rest is not None:
        raise ModelError(f"tiling: shapes of '{graph.name}' depend on the content of its values")
    return stage.graph


def _type(declared: Declared, shapes: Mapping[str, Sequence[int]]) -> TensorType:
    shape = shapes.get(declared.name)
    if shape is None:
        extents = [*(declared.shape or (None,))]
        if declared.shape and not isinstance(extents[0], int):
            extents[0] = 1
        shape = tuple(extent for extent in extents if isinstance(extent, int))
        if len(shape) < len(extents):
            example = ",".join(str(extent) if isinstance(extent, int) else "SIZE" for extent in extents)
            raise ArgumentError(
                f"tiling: the model takes {declared}: give its size, with `shapes`, or on the command line "
                f"--shape {declared.name}={example}"
            )
    return TensorType(np.dtype(declared.dtype), tuple(int(extent) for extent in shape))


def _layers(graph: Graph) -> list[tuple[Node, Layer]]:
    users = graph.users()
    layers = []
    for node in graph.nodes:
        inputs = graph.input_types(node)
        y = graph.type_of(node.outputs[0])
        if y is None or not y.size:
            continue
        bare = tuple(None if x is None else TensorType(x.dtype, x.shape) for x in inputs)
        with errors_at(node.where):
            layer = layer_of(node.op, bare, node.title, _chain(graph, users, node))
        if layer is not None:
            layers.append((node, layer))
    return layers


def _chain(graph: Graph, users: Mapping[str, list[Node]], node: Node) -> tuple[Op, ...]:
    """Return the elementwise operators of one input that follow a node, while each is the only reader of what comes
    before it and keeps its type."""
    chain: list[Op] = []
    value = node.outputs[0]
    while len(node.outputs) == 1 and value not in graph.outputs and len(users.get(value, ())) == 1:
        (after,) = users[value]
        if not isinstance(after.op, Pointwise) or len(after.inputs) != 1 or len(after.outputs) != 1:
            break
        if graph.type_of(after.outputs[0]) != graph.type_of(value):
            break
        chain.append(after.op)
        value = after.outputs[0]
    return tuple(chain)
