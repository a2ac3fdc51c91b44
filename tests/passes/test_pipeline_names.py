"""Names that passes give to values are never those of the model's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from onnx import NodeProto, helper

from cenote.codegen import jit
from cenote.core.load_options import LoadOptions
from cenote.core.types import Array, TensorType
from cenote.frontends.onnx import load_onnx
from cenote.graph.graph import Graph
from cenote.graph.interpreter import evaluate
from cenote.graph.verify import verify
from cenote.passes.pipeline import passes
from cenote.passes.specialize import specialize
from tests.passes.models import model
from tests.targets import TARGETS

N = helper.make_node


def noise(*shape: int, kind: type = np.float32) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(kind)


Case = tuple[Sequence[NodeProto], Mapping[str, Array], Mapping[str, Array], str]
CASES: dict[str, Case] = {
    "einsum": ([N("Einsum", ["x", "w"], ["y"], equation="bnd,dhk->bhnk")], {"x": noise(2, 3, 4)},
               {"w": noise(4, 2, 5)}, "fast"),
    "two einsums": ([N("Einsum", ["x", "w"], ["m"], equation="nd,dk->kn"),
                     N("Einsum", ["m", "x"], ["y"], equation="kn,nd->dk")], {"x": noise(3, 4)},
                    {"w": noise(4, 5)}, "fast"),
    "float16": ([N("Conv", ["x", "w"], ["c"]), N("Relu", ["c"], ["y"])], {"x": noise(1, 3, 5, 5, kind=np.float16)},
                {"w": noise(4, 3, 3, 3, kind=np.float16)}, "fast"),
    "normalisation": ([N("Mul", ["x", "x"], ["q"]), N("ReduceMean", ["q", "last"], ["v"]),
                       N("Add", ["v", "small"], ["a"]), N("Sqrt", ["a"], ["r"]), N("Div", ["x", "r"], ["y"])],
                      {"x": noise(3, 8)}, {"small": np.full((), 1e-5, np.float32), "last": np.array([1])}, "fast"),
    "bfloat16": ([N("Conv", ["x", "w"], ["c"]), N("Relu", ["c"], ["r"]), N("Conv", ["r", "v"], ["d"]),
                  N("Conv", ["r", "v"], ["e"]), N("Sigmoid", ["r"], ["s"]), N("Mul", ["d", "s"], ["f"]),
                  N("Add", ["e", "f"], ["y"])],
                 {"x": noise(1, 64, 24, 24)}, {"w": noise(64, 64, 1, 1) / 8, "v": noise(64, 64, 1, 1) / 8},
                 "bfloat16"),
    "folded": ([N("Conv", ["x", "w", "b"], ["c"]), N("Mul", ["c", "m"], ["d"]), N("Add", ["d", "s"], ["y"])],
               {"x": noise(1, 3, 5, 5)}, {"w": noise(4, 3, 3, 3), "b": noise(4), "m": noise(1, 4, 1, 1),
               "s": noise(4, 1, 1)}, "fast"),
}  # fmt: skip


def optimized(case: Case, other: str) -> tuple[Graph, set[str]]:
    """The graph of a case beside an output of this name behind all passes, and every name on the way."""
    nodes, inputs, constants, precision = case
    content = model([*nodes, N("Abs", ["spare"], [other])], {**inputs, "spare": noise(2)}, constants, ["y", other],
                    {other: 1})  # fmt: skip
    types = {name: TensorType.of(x.dtype, x.shape) for name, x in {**inputs, "spare": noise(2)}.items()}
    graph = specialize(load_onnx(content).graph, types).graph
    names = set(graph.values())
    for graph_pass in passes(jit.host_target(), LoadOptions(precision=precision)):  # type: ignore[arg-type]
        graph = verify(graph_pass(graph))
        names.update(graph.values())
    return graph, names


@pytest.mark.parametrize("case", CASES)
def test_names_of_the_model_stay_its_own(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CENOTE_TARGET", f"{TARGETS[-1].name}+bf16")
    nodes, inputs, constants, _ = CASES[case]
    given = {**inputs, "spare": noise(2)}
    graph, names = optimized(CASES[case], "z")
    wanted = evaluate(graph, given)
    made = names - {"z", "spare", *given, *constants, *(name for node in nodes for name in node.output)}
    assert made
    for name in sorted(made):
        graph, _ = optimized(CASES[case], name)
        found = evaluate(graph, given)
        np.testing.assert_array_equal(found["y"], wanted["y"])
        np.testing.assert_array_equal(found[name], np.abs(given["spare"]))
