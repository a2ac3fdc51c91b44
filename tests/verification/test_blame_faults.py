"""Six faults in each of five networks: `verify` names the first node that is wrong, and finds nothing in sound ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cenote
from cenote.compiler import compile
from cenote.compiler.schedule import schedule
from cenote.frontends.formats import import_model
from cenote.graph.graph import Graph, Node
from cenote.verification import verify as verifying
from tests.verification.faults import spoilt
from tests.verification.networks import NETWORKS


def with_node(graph: Graph, label: str, change: Callable[[Node], Node]) -> Graph:
    assert sum(node.label == label for node in graph.nodes) == 1
    return graph.replace(nodes=tuple(change(node) if node.label == label else node for node in graph.nodes))


def weight(graph: Graph) -> tuple[Graph, str]:
    changed = graph.constants["second_w"].copy()
    changed.reshape(-1)[100] += np.float32(0.5)
    return graph.replace(constants={**graph.constants, "second_w": changed}), "second"


def pads(graph: Graph) -> tuple[Graph, str]:
    def change(node: Node) -> Node:
        (begin, end), *rest = node.op.pads  # type: ignore[attr-defined]
        return replace(node, op=replace(node.op, pads=((begin + 1, end - 1), *rest)))  # type: ignore[call-arg]

    return with_node(graph, "conv", change), "conv"


def transpose(graph: Graph) -> tuple[Graph, str]:
    def change(node: Node) -> Node:
        wrong = (0, 3, 2, 1) if node.op.order != (0, 3, 2, 1) else (0, 1, 3, 2)  # type: ignore[attr-defined]
        return replace(node, op=replace(node.op, order=wrong))  # type: ignore[call-arg]

    return with_node(graph, "turn", change), "turn"


def epsilon(graph: Graph) -> tuple[Graph, str]:
    return with_node(graph, "norm", lambda node: replace(node, op=replace(node.op, epsilon=0.01))), "norm"  # type: ignore[call-arg]


def swapped(graph: Graph) -> tuple[Graph, str]:
    return with_node(graph, "difference", lambda node: replace(node, inputs=node.inputs[::-1])), "difference"


IMPORT = {each.__name__: each for each in (weight, pads, transpose, epsilon, swapped)}


@pytest.fixture
def network(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return NETWORKS[request.param](tmp_path / "network.onnx")


every_network = pytest.mark.parametrize("network", NETWORKS, indirect=True)


@every_network
@pytest.mark.parametrize("fault", IMPORT)
def test_a_wrong_import(network: Path, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    imported = import_model(network)
    graph, label = IMPORT[fault](imported.graph)
    monkeypatch.setattr("cenote.models.cutting.import_model", lambda *_, **__: replace(imported, graph=graph))
    found = cenote.verify(network, against="onnxruntime")
    assert found.first is not None, str(found)
    assert not found.ok
    assert (found.first.node, found.first.kind) == (label, "import"), str(found)


@every_network
@pytest.mark.parametrize("against", ["onnxruntime", "reference"])
def test_a_wrong_kernel(network: Path, against: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "schedule", lambda *given: spoilt(schedule(*given), "third"))
    found = cenote.verify(network, against=against)
    assert found.first is not None, str(found)
    assert (found.first.node, found.first.kind) == ("third", "kernel"), str(found)
    assert found.first.local > 1e-3


@every_network
@pytest.mark.parametrize("against", ["onnxruntime", "reference", None])
@pytest.mark.parametrize("precision", ["fast", "exact"])
def test_sound_networks(network: Path, against: str | None, precision: Any) -> None:
    found = cenote.verify(network, against=against, precision=precision)
    assert found.first is None, str(found)
    assert found.ok
    assert found.against == against or (against is None and found.against == "onnxruntime")
    assert sum(row.inherited is not None for row in found.values) >= 5
    assert all(row.local < 1e-4 for row in found.values)


@every_network
def test_rounding_is_called_so(network: Path) -> None:
    found = cenote.verify(network, against="onnxruntime", tolerance=0)
    assert found.first is not None
    assert found.first.kind == "rounding"
    assert found.first.local < 1e-5


def test_a_wrong_pass_is_the_plans_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernel and no import is wrong; what the passes made of the operators is."""
    optimize = compile.optimize

    def wrong(graph: Graph, *rest: Any, **options: Any) -> Graph:
        made = optimize(graph, *rest, **options)
        name = next(name for name in made.constants if name.startswith("conv_w"))
        return made.replace(constants={**made.constants, name: made.constants[name] * np.float32(1.1)})

    monkeypatch.setattr(compile, "optimize", wrong)
    found = cenote.verify(NETWORKS["residual"](tmp_path / "network.onnx"), against="onnxruntime")
    assert found.first is not None
    assert (found.first.node, found.first.kind) == ("conv", "kernel"), str(found)
