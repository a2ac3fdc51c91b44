"""An operator alone as a compiled graph, for calls on arrays."""

from __future__ import annotations

import dataclasses

from cenote.compiler.algorithms import NamedAlgorithms
from cenote.compiler.compile import Compilation, Plan, compile_graph
from cenote.compiler.decide import Decide
from cenote.core import settings
from cenote.core.load_options import LoadOptions
from cenote.core.types import Array, Declared, TensorType
from cenote.graph.graph import Graph, Node
from cenote.ops.base import Op, Types
from cenote.ops.bound import BoundOperator
from cenote.runtime.steps import HostStep


def compiled_plan(
    op: Op, inputs: tuple[TensorType | None, ...], outputs: Types, threads: int, algorithm: str = ""
) -> Plan | None:
    """The operator as a graph of one node: for kernels that work on other layouts or types than the caller's.

    `algorithm`: the name of that which the caller wants, if any. None where the plan has no kernel for it either.
    """
    names = ["" if x is None else f"x{index}" for index, x in enumerate(inputs)]
    made = [f"y{index}" for index in range(len(outputs))]
    declared = tuple(
        Declared(n, x.dtype, x.shape) for n, x in zip(names, inputs, strict=True) if x is not None
    )
    types = {n: x for n, x in zip(names, inputs, strict=True) if x is not None} | dict(
        zip(made, outputs, strict=True)
    )
    constants: dict[str, Array] = {}
    if isinstance(op, BoundOperator):  # passes know the operator within
        places = op.names(names)
        constants = {f"constant{i}": value for i, value in op.constants.items() if value is not None}
        op, names = op.op, [*places]
        types |= {name: TensorType(value.dtype, value.shape) for name, value in constants.items()}
    node = Node(op, tuple(names), tuple(made), op.name)
    graph = Graph(declared, tuple(made), (node,), constants, types)
    algorithms = {op.name: algorithm} if algorithm else {}
    decide = NamedAlgorithms(algorithms, Decide()) if algorithm else None
    plan = compile_graph(
        graph, Compilation(LoadOptions(threads=threads, algorithms=algorithms), decide=decide)
    )
    if any(isinstance(step, HostStep) for step in plan.program.steps):
        return None
    if settings.DENORMALS.choice() == "flush":
        program = dataclasses.replace(plan.program, flush=True, _free=[])
        return dataclasses.replace(plan, program=program)
    return plan
