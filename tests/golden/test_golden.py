"""Printed graphs and plans are the ones that were reviewed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from cenote.codegen import jit
from cenote.compiler.compile import Compilation, compile_graph
from cenote.core.load_options import LoadOptions
from cenote.core.types import TensorType
from cenote.frontends.onnx import load_onnx
from cenote.passes.specialize import specialize
from tests.golden.networks import FOLDER, NETWORKS, TARGET, printed


@pytest.fixture(autouse=True)
def _the_same_target_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its caches too: costs depend on them."""
    monkeypatch.setenv("CENOTE_TARGET", TARGET)


@pytest.mark.parametrize("network", NETWORKS)
def test_graphs_and_plans_print_as_reviewed(network: str) -> None:
    for file, text in printed(network):
        expected = (FOLDER / file).read_text(encoding="utf-8")
        assert text + "\n" == expected, f"{file} differs; if it should, run: python -m tests.golden.update"


def test_every_file_belongs_to_a_network() -> None:
    files = {path.name for path in FOLDER.glob("*.txt")}
    assert files == {f"{name}.{kind}.txt" for name in NETWORKS for kind in ("imported", "optimised", "plan")}


@pytest.mark.parametrize("network", NETWORKS)
def test_a_description_counts_what_the_program_has(network: str) -> None:
    graph = load_onnx(NETWORKS[network]()).graph
    shape = [extent if isinstance(extent, int) else 1 for extent in graph.inputs[0].shape or ()]
    specialized = specialize(graph, {"x": TensorType.of(np.float32, shape)}).graph
    plan = compile_graph(specialized, Compilation(LoadOptions(threads=1)))
    found = plan.describe()
    assert len(found.steps) == len(plan.program.steps)
    assert sum(count for _, count in found.kernels) == found.count("kernel") + found.count("halo")
    assert found.memory.arena == plan.program.arena_bytes
    assert found.memory.constants == sum(array.nbytes for array in plan.program.constants)
    nodes = {node.label or node.outputs[0] for node in plan.graph.nodes}
    assert {step.node for step in found.steps if step.node} | {title for title, _ in found.free} == nodes
    assert found.as_dict()["steps"][0] == dataclasses.asdict(found.steps[0])
    assert all(step.reason for step in found.steps if step.kind == "host")
    assert jit.host_target().name == TARGET
