"""What the kind `sizes` makes, and that it sees what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.fuzz.case import Finding, generator
from tests.fuzz.sizes import kind
from tests.fuzz.sizes.maker import Maker

LAST = np.nextafter(np.float32(1), np.float32(2))  # one bit above 1


def case(maker: Callable[[Maker], object]) -> kind.Case:
    """A case of one step on pictures of open sizes."""
    rng = generator("sizes", 1)
    m = Maker(rng, kind.drawn(rng), 18)
    m.input("n", 2, "h", "w")
    maker(m)
    return kind.Case(m, rng)


def relu(m: Maker) -> None:
    m.add("Relu", m.values[0], m.values[0].shape, exact=True)


def test_graphs_hold_many_operators_and_sizes_that_are_made_of_open_ones() -> None:
    operators, formulas = set(), 0
    for seed in range(250):
        m = kind.random_graph(generator("sizes", seed))
        operators |= {node.op_type for node in m.nodes}
        given = list(m.sizes.values())
        formulas += any(
            not isinstance(axis, int) and not any(np.array_equal(axis, size) for size in given)
            for value in m.values
            for axis in value.shape
        )
    assert len(operators) >= 80
    assert formulas >= 150


def test_a_seed_is_a_graph() -> None:
    first, second = (kind.random_graph(generator("sizes", 3)) for _ in range(2))
    assert helper.make_graph(first.nodes, "g", [], []) == helper.make_graph(second.nodes, "g", [], [])
    assert first.constants == second.constants


def test_a_right_model_agrees() -> None:
    assert case(relu).compare() == "agreed"


@pytest.mark.parametrize("wrong", ["later", "last bit", "refusal"])
def test_a_wrong_answer_at_a_later_size_is_found(monkeypatch: Any, wrong: str) -> None:
    """At the third of six, beside the graph of fixed sizes."""
    monkeypatch.setattr(kind, "FIXED", kind.COUNT)
    answer, calls = kind.answer, iter(range(100))

    def changed(model: Any, given: dict[str, Any]) -> Any:
        made, call = answer(model, given), next(calls)
        if call < 4 or call % 2:  # the first two sizes, and all graphs of fixed sizes
            return made
        if wrong == "refusal":
            return kind.CenoteError("no")
        return {name: y + 1 if wrong == "later" else y * LAST for name, y in made.items()}

    monkeypatch.setattr(kind, "answer", changed)
    with pytest.raises(Finding, match=r"fixed"):
        case(relu).compare()


def test_declared_sizes() -> None:
    model = case(relu).proto
    twin = kind.fixed(model, {"x0": (3, 2, 5, 7)})
    declared = twin.graph.input[0].type.tensor_type.shape.dim
    assert [dimension.dim_value for dimension in declared] == [3, 2, 5, 7]
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "n"
    onnx.checker.check_model(twin)
