"""Algorithms that the caller names by node or by operator: they are taken, or refused with those that are possible."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import cenote
from cenote.core.errors import ArgumentError
from tests.onnx_texts import parsed

WEIGHTS = np.random.default_rng(0).standard_normal((32, 32, 3, 3)).astype(np.float32) / 17
ONE_WAY = parsed("g (float[1,32,40] x) => (float[1,32,40] y) { y = Softmax<axis=2>(x) }")


def two_pools(sizes: str, **constants: np.ndarray) -> onnx.ModelProto:
    """A convolution and two pools, between which the shape is the content of s: a constant, or found by the run."""
    s = "" if "s" in constants else ", int64[4] s"
    model = parsed(
        f"g (float[{sizes}] x{s}) => (float[a,b,c,d] y) {{ k = Conv<pads=[1,1,1,1]>(x, w) e = Relu(k) "
        "p = MaxPool<kernel_shape=[3,3]>(e) r = Reshape(p, s) y = MaxPool<kernel_shape=[3,3]>(r) }",
        w=WEIGHTS,
        **constants,
    )
    for node in model.graph.node:
        node.name = {"k": "stem", "e": "bend", "p": "first", "y": "last"}.get(node.output[0], "")
    return model


FIXED = two_pools("1,32,16,16", s=np.array([2, 16, 14, 14]))
OPEN = two_pools("n,32,h,w", s=np.array([2, 16, 14, 14]))
STAGED = two_pools("n,32,h,w")
LOOP = parsed(
    "g (float[1,4,16,16] x, int64 m, bool c) => (float[1,4,16,16] y) "
    "{ y = Loop(m, c, x) <body = b (int64 i, bool ci, float[1,4,16,16] v) => (bool co, float[1,4,16,16] vo) "
    "{ co = Identity(ci) vo = MaxPool<kernel_shape=[3,3],pads=[1,1,1,1]>(v) }> }"
)
INPUT = np.random.default_rng(1).standard_normal((1, 32, 16, 16)).astype(np.float32)
SHAPE = np.array([2, 16, 14, 14])


def run(model: onnx.ModelProto, **algorithms: str) -> tuple[np.ndarray, dict[str, tuple[str, str]]]:
    """The answer, and algorithm and reason of every step by its node."""
    loaded = cenote.load(model, threads=1, tune="off", algorithms=algorithms)
    inputs = {"x": INPUT, "s": SHAPE}
    y = loaded.run({each.name: inputs[each.name] for each in loaded.inputs})["y"]
    _, stage = loaded.last_run()
    plans = [each.plan for each in stage.chain]
    steps = [step for plan in plans for step in plan.describe().steps]
    return y, {step.node: (step.algorithm, step.reason) for step in steps if step.kind in ("kernel", "host")}


def steps(model: onnx.ModelProto, algorithms: dict[str, str]) -> list[tuple[str, str, str]]:
    loaded = cenote.load_with(model, cenote.LoadOptions(tune="off", algorithms=algorithms))
    found = loaded.plan.describe().steps
    return [(step.node, step.algorithm, step.reason) for step in found if step.kind == "kernel"]


MODELS = pytest.mark.parametrize("model", [FIXED, OPEN, STAGED], ids=["fixed", "open", "staged"])
NAMED = "named by the caller"


@MODELS
def test_a_node_s_own_entry_wins_over_its_operator_s(model: onnx.ModelProto) -> None:
    plain, _ = run(model)
    y, found = run(model, stem="direct", max_pool="generic", last="separable")
    assert {name: found[name] for name in ("stem", "first", "last")} == {
        "stem": ("direct", NAMED),
        "first": ("generic", NAMED),
        "last": ("separable", NAMED),
    }
    np.testing.assert_allclose(y, plain, atol=1e-4)


@MODELS
def test_every_node_has_its_reference(model: onnx.ModelProto) -> None:
    plain, _ = run(model)
    y, found = run(model, conv="reference", max_pool="reference")
    assert all(found[name] == ("reference", NAMED) for name in ("stem", "first", "last"))
    np.testing.assert_allclose(y, plain, atol=1e-4)


@MODELS
@pytest.mark.parametrize(
    ("name", "algorithm", "said"),
    [
        ("stem", "winograd_f9", r"stem \(conv\) of f32\[1,32,16,16\].*f9' does not serve.*3x3.*possible: .*reference"),
        ("stem", "directt", r"no algorithm 'directt'; possible: .*; close to it: direct"),
        ("last", "window_3x3x3", r"last \(max_pool\) of f32\[2,16,14,14\]: .*volumes.*possible: .*generic"),
        ("max_pool", "argmax_generic", r"max_pool of .*'argmax_generic' does not serve it \(it is for dilated"),
        ("bend", "x", "nothing is left of bend"),
        ("relu", "x", "nothing is left of relu"),
        ("max_poll", "generic", "no node and no operator 'max_poll'; close to it: max_pool"),
        ("softmax", "rows", "no node and no operator 'softmax'"),
        ("view", "x", "no node and no operator 'view'"),
    ],
)  # fmt: skip
def test_what_is_not_to_be_had_is_refused(
    model: onnx.ModelProto, name: str, algorithm: str, said: str
) -> None:
    with pytest.raises(ArgumentError, match=said):
        run(model, **{name: algorithm})


@pytest.mark.parametrize("model", [OPEN, STAGED], ids=["open", "staged"])
def test_unknown_names_are_refused_when_a_model_with_open_sizes_is_loaded(model: onnx.ModelProto) -> None:
    with pytest.raises(ArgumentError, match=r"max_poll.*max_pool"):
        cenote.load(model, algorithms={"max_poll": "generic"})


def test_a_refused_model_is_refused_again(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(OPEN, path)
    for _ in range(2):
        with pytest.raises(ArgumentError, match="max_poll"):
            cenote.load(path, algorithms={"max_poll": "generic"})
    for _ in range(2):
        model = cenote.load(path, algorithms={"max_pool": "generic"})
        model(INPUT)
        model.close()


def test_nodes_of_a_loop_s_body_have_algorithms() -> None:
    x = INPUT[:, :4]
    plain = cenote.load(LOOP)(x, np.array(2), np.array(True))
    for name in ("Loop/vo", "max_pool"):
        named = cenote.load(LOOP, algorithms={name: "generic"})(x, np.array(2), np.array(True))
        assert np.array_equal(named, plain)
        refused = cenote.load(LOOP, algorithms={name: "winograd_f2"})
        with pytest.raises(ArgumentError, match=f"{name}.*no algorithm 'winograd_f2'"):
            refused(x, np.array(2), np.array(True))
    with pytest.raises(ArgumentError, match="no operator 'Loop/voo'; close to it: Loop/vo"):
        cenote.load(LOOP, algorithms={"Loop/voo": "generic"})


def test_values_inside_of_a_model_are_computed_by_what_is_named() -> None:
    model = cenote.load(FIXED, threads=1, algorithms={"stem": "direct", "last": "generic"})
    inside = model.run({"x": INPUT}, outputs=["e"])["e"]
    np.testing.assert_allclose(inside, cenote.load(FIXED).run({"x": INPUT}, outputs=["e"])["e"], atol=1e-4)


def test_the_only_algorithm_may_be_named_and_no_other() -> None:
    ((node, only, _),) = steps(ONE_WAY, {})
    assert steps(ONE_WAY, {node: only}) == [(node, only, NAMED)]
    with pytest.raises(ArgumentError, match=f"{node}.*no algorithm 'nonsense'; possible: {only}, reference"):
        steps(ONE_WAY, {node: "nonsense"})


def test_what_costs_nothing_has_no_algorithm() -> None:
    model = parsed(
        "g (float[4,8] x) => (float[8,4] y) { f = Reshape(x, s) y = Identity(f) }", s=np.array([8, 4])
    )
    with pytest.raises(ArgumentError, match=r"algorithms: .*(no algorithm 'direct'|nothing is left)"):
        steps(model, {"y": "direct"})


def test_of_nodes_of_one_name_those_take_it_that_have_the_algorithm() -> None:
    model = parsed("g (float[1,32,16,16] x) => (float[1,32,16,16] y) { c = Conv<pads=[1,1,1,1]>(x, w) y = Softmax<axis=3>(c) }", w=WEIGHTS)  # fmt: skip # noqa: E501
    for node in model.graph.node:
        node.name = "both"
    found = {(name, reason) for node, name, reason in steps(model, {"both": "winograd_f2"}) if node == "both"}
    assert ("winograd_f2", NAMED) in found
    assert all(name == "winograd_f2" or reason != NAMED for name, reason in found)
