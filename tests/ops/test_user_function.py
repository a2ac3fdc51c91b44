"""Functions of users as operators: answers at any size, errors that name the function, types, threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import helper

import cenote
from cenote.core.types import Array
from tests.shop_models import OPERATOR, between, convolved, picture, serialized


def frobnicate(x: Array, alpha: float = 1.0) -> Array:
    return np.tanh(x) * x.dtype.type(alpha)


def _same(x: cenote.TensorType, alpha: float = 1.0) -> cenote.TensorType:
    return x


def _loaded(function: Any, model: bytes | None = None, **options: Any) -> cenote.Model:
    return cenote.load(
        between(alpha=2.0) if model is None else model, operators={OPERATOR: function}, **options
    )


@pytest.mark.parametrize(
    "function", [frobnicate, cenote.OperatorFunction(frobnicate, types=_same)], ids=["tried", "typed"]
)
@pytest.mark.parametrize("threads", [1, 2])
def test_any_size_is_right(function: Any, threads: int) -> None:
    model = _loaded(function, threads=threads)
    for shape in ((1, 3, 8, 8), (2, 3, 5, 9), (1, 3, 1, 1), (3, 3, 17, 4)):
        x = picture(*shape)
        wanted = np.maximum(2 * np.tanh(convolved(x)), 0)
        np.testing.assert_allclose(model(x), wanted, atol=1e-5)


def test_types_serve_all_sizes_by_one_plan_and_a_trial_by_one_each() -> None:
    calls = []

    def counted(x: Array, alpha: float) -> Array:
        calls.append(x.shape)
        return x * x.dtype.type(alpha)

    for function, plans in ((cenote.OperatorFunction(counted, types=_same), 1), (counted, 3)):
        calls.clear()
        model = _loaded(function, threads=1)
        for side in (8, 12, 16):
            model(picture(1, 3, side, side))
        trials = 0 if plans == 1 else 3
        assert len(calls) == 3 + trials, "a run each, and a trial for each size without `types`"


def test_the_same_bits_on_any_number_of_threads() -> None:
    x = picture(2, 3, 33, 21)
    first, second = (_loaded(frobnicate, threads=threads)(x) for threads in (1, 2))
    assert np.array_equal(first, second)


def test_several_outputs_absent_inputs_and_attributes_of_all_kinds() -> None:
    seen: dict[str, Any] = {}

    def split(x: Array, absent: Array | None, **attributes: Any) -> tuple[Array, Array]:
        seen.update(attributes, absent=absent)
        return x[:, :2], x[:, 2:]

    table = np.arange(6, dtype=np.int16).reshape(2, 3)
    attributes = {"a": 1, "b": 2.5, "c": "text", "d": [1, 2], "e": [0.5], "f": ["u", "v"]}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Frobnicate", ["c", ""], ["f", "g"], "frob", domain="shop", **attributes),
    ]
    tensor = helper.make_tensor("t", 5, table.shape, table.reshape(-1))
    nodes[1].attribute.append(helper.make_attribute("table", tensor))
    nodes[1].input[:] = ["c", "", "c"]

    def three(x: Array, absent: Array | None, again: Array, **attributes: Any) -> tuple[Array, Array]:
        return split(x, absent, **attributes)

    model = cenote.load(serialized(nodes, (1, 3, 6, 6), ["f", "g"]), operators={OPERATOR: three})
    x = picture(1, 3, 6, 6)
    made = model.run({"x": x})
    wanted = convolved(x)
    np.testing.assert_allclose(made["f"], wanted[:, :2], atol=1e-5)
    np.testing.assert_allclose(made["g"], wanted[:, 2:], atol=1e-5)
    np.testing.assert_array_equal(seen.pop("table"), table)
    assert seen == {"a": 1, "b": 2.5, "c": "text", "d": (1, 2), "e": (0.5,), "f": ("u", "v"), "absent": None}


def test_shapes_that_depend_on_content() -> None:
    def positive(x: Array, alpha: float) -> Array:
        return x[x > alpha]

    model = _loaded(cenote.OperatorFunction(positive, types="content"))
    for shape in ((1, 3, 8, 8), (2, 3, 5, 9)):
        x = picture(*shape)
        made = model(x)
        assert abs(len(made) - (convolved(x) > 2.0).sum()) <= 1
        assert (made > 2.0).all()


def test_a_known_operand_is_given_to_the_trial() -> None:
    def reshaped(x: Array, shape: Array) -> Array:
        return x.reshape([*shape])

    nodes = [
        helper.make_node("Constant", [], ["s"], "shape", value_ints=[4, -1]),
        helper.make_node("Frobnicate", ["x", "s"], ["y"], "frob", domain="shop"),
    ]
    model = cenote.load(serialized(nodes, (1, 3, 8, 8), ["y"]), operators={OPERATOR: reshaped})
    x = picture(1, 3, 8, 8)
    np.testing.assert_array_equal(model(x), x.reshape(4, -1))


def test_what_a_function_returns_of_its_inputs_is_copied() -> None:
    def same(x: Array, alpha: float) -> Array:
        return x

    x = picture(1, 3, 8, 8)
    np.testing.assert_allclose(_loaded(same)(x), np.maximum(convolved(x), 0), atol=1e-5)


def test_random_functions_are_called_in_every_run() -> None:
    generator = np.random.default_rng(0)

    def noise(x: Array) -> Array:
        return generator.standard_normal(x.shape).astype(x.dtype)

    nodes = [
        helper.make_node("Constant", [], ["s"], "ones", value_floats=[1.0, 1.0]),
        helper.make_node("Frobnicate", ["s"], ["r"], "frob", domain="shop"),
        helper.make_node("Add", ["x", "r"], ["y"], "add"),
    ]
    model = serialized(nodes, (2,), ["y"])
    x = np.zeros(2, np.float32)
    drawn = cenote.load(model, operators={OPERATOR: cenote.OperatorFunction(noise, pure=False)})
    assert not np.array_equal(drawn(x), drawn(x))
    folded = cenote.load(model, operators={OPERATOR: noise})
    assert np.array_equal(folded(x), folded(x)), "of a pure function of constants there is one answer"


def test_a_given_function_wins_over_cenotes_own_and_the_models() -> None:
    nodes = [helper.make_node("Frobnicate", ["x"], ["y"], "frob", domain="shop")]
    with_function = _with_function(serialized(nodes, (2, 2), ["y"]))
    x = np.full((2, 2), -3, np.float32)
    assert (cenote.load(with_function)(x) == 3).all(), "the model's own: Abs"
    assert (cenote.load(with_function, operators={OPERATOR: lambda x: x * 2})(x) == -6).all()
    own = serialized([helper.make_node("Relu", ["x"], ["y"], "relu", domain="")], (2, 2), ["y"])
    with pytest.raises(cenote.ArgumentError, match="no name of an operator"):
        cenote.load(own, operators={"Relu": lambda x: x})
    named = cenote.load(own, operators={"ai.onnx.Relu": lambda x: x - 1})
    assert (named(x) == -4).all()


def _with_function(model: bytes) -> bytes:
    import onnx

    made = onnx.load_from_string(model)
    body = [helper.make_node("Abs", ["a"], ["b"])]
    function = helper.make_function("shop", "Frobnicate", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
    made.functions.append(function)
    return bytes(made.SerializeToString())


def _raises(x: Array, alpha: float) -> Array:
    raise LookupError("no such table")


def _writes(x: Array, alpha: float) -> Array:
    x[...] = 0
    return x


def _raises_later(x: Array, alpha: float) -> Array:
    if x.any():
        raise LookupError("no such table")
    return x


def _grows(x: Array, alpha: float) -> Array:
    return np.concatenate([x, x]) if x.any() else x


def _widens(x: Array, alpha: float) -> Array:
    return x.astype(np.float64) if x.any() else x


WRONG: dict[str, tuple[Callable[..., Any], type[Exception], tuple[str, ...]]] = {
    "raises": (_raises, cenote.OperatorError, ("LookupError", "no such table", "zeros")),
    "raises later": (_raises_later, cenote.OperatorError, ("LookupError", "no such table")),
    "writes": (_writes, cenote.OperatorError, ("read-only",)),
    "two": (lambda x, alpha: (x, x), cenote.OperatorError, ("2 outputs, but the node has 1",)),
    "none": (lambda x, alpha: None, cenote.OperatorError, ("None, not an array",)),
    "text": (lambda x, alpha: "no", cenote.OperatorError, ("'no', not an array",)),
    "shape": (_grows, cenote.ShapeError, ("f32[2,4,8,8]", "f32[1,4,8,8] was planned", 'types="content"')),
    "dtype": (_widens, cenote.ShapeError, ("f64[1,4,8,8]", "f32[1,4,8,8] was planned")),
    "attribute": (lambda x: x, cenote.UnsupportedError, ("takes (x)", "attributes alpha")),
    "operand": (lambda x, z, alpha: x, cenote.UnsupportedError, ("takes (x, z, alpha)", "1 input(s)")),
    "types raise": (
        cenote.OperatorFunction(frobnicate, types=_raises),
        cenote.OperatorError,
        ("`types` of frobnicate", "no such table"),
    ),
    "no types": (
        cenote.OperatorFunction(frobnicate, types=lambda x, alpha: x.shape),
        cenote.OperatorError,
        ("`types` of frobnicate", "not a cenote.TensorType"),
    ),
    "other types": (
        cenote.OperatorFunction(frobnicate, types=lambda x, alpha: cenote.TensorType(x.dtype, (1, 2))),
        cenote.ShapeError,
        ("f32[1,2] was planned", "as `types` of frobnicate"),
    ),
}


@pytest.mark.parametrize(("function", "kind", "said"), WRONG.values(), ids=WRONG)
def test_errors_name_the_node_the_operator_and_the_function(
    function: Any, kind: type[Exception], said: tuple[str, ...]
) -> None:
    with pytest.raises(kind) as caught:
        _loaded(function, threads=1)(picture(1, 3, 8, 8))
    for text in ("node 'frob'", OPERATOR, __file__, *said):
        assert text in str(caught.value)
    model = _loaded(frobnicate, threads=1)
    assert model(picture(1, 3, 8, 8)).shape == (1, 4, 8, 8), "nothing is lost"


@pytest.mark.parametrize(
    "given",
    [5, [frobnicate], {"Frobnicate": frobnicate}, {"shop.": frobnicate}, {OPERATOR: 5}, {3: frobnicate}],
)
def test_bad_arguments(given: Any) -> None:
    with pytest.raises(cenote.ArgumentError, match="operators"):
        cenote.load(between(alpha=2.0), operators=given)


def test_bad_types() -> None:
    with pytest.raises(cenote.ArgumentError, match="types"):
        cenote.OperatorFunction(frobnicate, types="shape")  # type: ignore[arg-type]


def test_an_unknown_operator_names_the_way_to_add_it() -> None:
    with pytest.raises(cenote.UnsupportedError) as caught:
        cenote.load(between(alpha=2.0))
    assert "node 'frob'" in str(caught.value)
    assert 'operators={"shop.Frobnicate": function}' in str(caught.value)


def test_a_model_is_verified_and_profiled() -> None:
    model = between(alpha=2.0, shape=(1, 3, 16, 16))
    options = cenote.LoadOptions(operators={OPERATOR: frobnicate})
    found = cenote.verify_with(model, options)
    assert found.against == "reference", "no other engine has the operator"
    assert found.ok, str(found)
    profile = cenote.load_with(model, options).profile(seconds=0.05)
    assert "frob" in str(profile)
