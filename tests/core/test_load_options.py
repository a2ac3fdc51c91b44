"""Options beside a plan file: those that a plan settles are refused where they differ, the others are followed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import cenote
from cenote.codegen import jit
from cenote.core.load_options import OPTIONS, LoadOptions
from cenote.plans import format

# A value besides the default for each option that a plan settles.
OTHERS: dict[str, Any] = {
    "precision": "exact",
    "weights": "bfloat16",
    "tune": "off",
    "blocks": "larger",
    "format": "onnx",
    "signature": "serving_default",
    "inputs": ["x"],
    "outputs": ["y"],
    "algorithms": {"stem": "direct"},
    "rewrites": ["float32"],
    "extensions": [("shop.direct", "shop", "0123")],
}


@pytest.fixture
def saved(tmp_path: Path) -> Callable[..., Path]:
    """Saves a plan of a small model under options."""
    weights = np.random.default_rng(0).standard_normal((8, 3, 3, 3)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], "stem", pads=[1, 1, 1, 1])],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights, "w")],
    )
    source, plan = tmp_path / "m.onnx", tmp_path / "m.cenote"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), source)

    def save(**options: Any) -> Path:
        model = cenote.load_with(source, LoadOptions(threads=1, **options))
        for batch in (1, 4):
            model.plan_for({"x": (batch, 3, 8, 8)})
        model.save(plan, source)
        return plan

    return save


def test_every_option_that_a_plan_settles_has_another_value_here() -> None:
    assert set(OTHERS) == {name for name, option in OPTIONS.items() if option.settled}


@pytest.mark.parametrize("name", OTHERS)
def test_an_option_that_differs_from_the_plan_is_refused(saved: Callable[..., Path], name: str) -> None:
    plan = saved()
    with pytest.raises(cenote.UnsupportedError) as caught:
        cenote.load_with(plan, LoadOptions(**{name: OTHERS[name]}))
    said = str(caught.value)
    assert said.startswith(f"{plan}: {name}=")
    assert said.endswith("load the model that it was made from")
    if OPTIONS[name].stored:
        assert repr(getattr(LoadOptions(), name)) in said, "what the plan has"


@pytest.mark.parametrize("name", ["precision", "weights", "rewrites"])
def test_an_option_that_the_plan_was_made_with_is_taken(saved: Callable[..., Path], name: str) -> None:
    plan = saved(**{name: OTHERS[name]})
    model = cenote.load_with(plan, LoadOptions(**{name: OTHERS[name]}))
    assert np.array_equal(
        model(np.ones((1, 3, 8, 8), np.float32)), cenote.load(plan)(np.ones((1, 3, 8, 8), np.float32))
    )


def test_other_options_are_followed(saved: Callable[..., Path]) -> None:
    model = cenote.load(saved(), threads=2, denormals="flush", shapes={"x": ("n<=4", 3, 8, 8)})
    assert (model.threads, model.denormals) == (2, "flush")
    with pytest.raises(cenote.ShapeError):
        model(np.zeros((5, 3, 8, 8), np.float32))


def test_a_stale_plan_refuses_them_too(saved: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        made = format.world(jit.host_target())
        patch.setattr(format, "world", lambda target: {**made, "version": "0.0.0"})
        plan = saved(precision="exact")
    with pytest.raises(cenote.UnsupportedError, match=r"weights='float16'.*, 'float32'; load the model"):
        cenote.load(plan, weights="float16")
    assert cenote.load(plan, precision="exact").precision == "exact"


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_of_any_kind_is_taken_or_refused_by_name(name: str) -> None:
    wrong = (
        0,
        -1,
        2.5,
        np.array([2, 2]),
        np.zeros((0, 2)),
        [1, None],
        {1: 2},
        {"a": 1},
        b"x",
        object(),
        "\0",
        1j,
    )
    for given in wrong:
        with contextlib.suppress(cenote.ArgumentError):
            LoadOptions(**{name: given})
