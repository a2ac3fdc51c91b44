"""Operators of users as classes: what is refused when they are registered, and errors that name the user's code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import cenote
from cenote.core.extensions import registry
from cenote.core.types import Array
from cenote.ops import Lowering, Op, Sample, TensorType, read
from tests.shop_models import between, convolved, picture

SHRINK = "shop.Shrink"


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_registered", "_installed", "_classes"):
        monkeypatch.setattr(registry, name, {})


def shrink(**methods: Any) -> Any:
    """A class that shrinks numbers towards zero, with other methods or attributes."""

    @dataclass(frozen=True)
    class Shrink(Op):
        """x moved towards zero."""

        by: float = 0.5

        name = "shop.shrink"
        operands = ("x",)

        def types(self, x: TensorType) -> Any:
            return (x.bare,)

        def compute(self, x: Array) -> Any:
            by = x.dtype.type(self.by)
            return (np.maximum(x - by, 0) + np.minimum(x + by, 0),)

    Shrink.from_onnx = {SHRINK: lambda node: read(Shrink, node, "by")}
    for name, method in methods.items():
        setattr(Shrink, name, method)
    return Shrink


def loaded(operator: Any, **options: Any) -> cenote.Model:
    return cenote.load(between(kind="Shrink", by=0.25), operators={SHRINK: operator}, **options)


@pytest.mark.parametrize("threads", [1, 2])
def test_any_size_is_right(threads: int) -> None:
    assert cenote.register(shrink()) is not None
    model = cenote.load(between(kind="Shrink", by=0.25), threads=threads)
    for shape in ((1, 3, 8, 8), (2, 3, 5, 9), (1, 3, 1, 1), (3, 3, 17, 4)):
        x = picture(*shape)
        np.testing.assert_allclose(model(x), np.maximum(convolved(x) - 0.25, 0), atol=1e-5)


def test_a_result_may_stand_alone() -> None:
    alone = shrink(types=lambda self, x: x.bare, compute=lambda self, x: x - x.dtype.type(self.by))
    x = picture(1, 3, 8, 8)
    np.testing.assert_allclose(loaded(alone)(x), np.maximum(convolved(x) - 0.25, 0), atol=1e-5)


class NoOperator:
    pass


class NotFrozen(Op):
    name = "shop.f"


@dataclass(frozen=True)
class Empty(Op):
    name = "shop.f"


@pytest.mark.parametrize(
    ("operator", "said"),
    [
        (NoOperator, "is no subclass of cenote.ops.Op"),
        (NotFrozen, "put @dataclass(frozen=True) between"),
        (Empty, "does not define types and compute"),
        (shrink(name=""), "has no name"),
        (shrink(from_onnx={"Shrink": read}), 'has "Shrink" in from_onnx, which is no name of an operator'),
        (shrink(from_onnx={SHRINK: None}), "has no function for shop.Shrink"),
    ],
)
def test_a_class_that_is_no_whole_operator_is_refused(operator: type, said: str) -> None:
    with pytest.raises(cenote.ArgumentError) as raised:
        cenote.register(operator)
    assert said.replace('"', "'") in str(raised.value).replace('"', "'")
    assert cenote.registered_operators() == {}


def _raise(*arguments: object) -> Any:
    raise LookupError("no table")


def _half(self: Any, types: Any, target: Any) -> Iterator[Any]:
    yield Lowering("broken", types and (cenote.ops.PLAIN,), (cenote.ops.PLAIN,), _raise, 1e-9)


HERE = __file__.rpartition("/")[2]


@pytest.mark.parametrize(
    ("methods", "said"),
    [
        ({"types": _raise}, f"node 'frob' (shop.shrink): shop.shrink: _raise ({HERE}"),
        ({"compute": _raise}, f"shop.shrink: _raise ({HERE}"),
        ({"lowerings": lambda *_: [_raise()]}, "raised LookupError: no table"),
        ({"lowerings": lambda *_: [1]}, "gives 1, not a cenote.ops.Lowering"),
        ({"lowerings": _half}, "bind of 'broken', raised LookupError: no table"),
        ({"types": lambda self, x: "f32"}, "returned 'f32', not a cenote.TensorType or a tuple of them"),
        ({"compute": lambda self, x: None}, "returned None, not an array or a tuple of them"),
        ({"compute": lambda self, x: ()}, "returned 0 outputs, but 1 were planned"),
        (
            {"compute": lambda self, x: x[:1, :1]},
            "but f32[1,4,8,8] was planned, as `types` of shrink.<locals>.Shrink (",
        ),
        ({"compute": lambda self, x: x.astype(np.float64)}, "returned f64[1,4,8,8]"),
        ({"from_onnx": {SHRINK: _raise}}, "its decoder in from_onnx of shrink.<locals>.Shrink"),
        ({"from_onnx": {SHRINK: lambda node: None}}, "returned None, no operator"),
    ],
)
def test_errors_name_the_node_the_operator_and_the_line(methods: dict[str, Any], said: str) -> None:
    with pytest.raises(cenote.CenoteError) as raised:
        loaded(shrink(**methods), threads=1)(picture(1, 3, 8, 8))
    text = str(raised.value).replace(__file__, HERE)
    assert said in text
    assert "frob" in text
    if "LookupError" in text:
        assert isinstance(raised.value, cenote.OperatorError)
        assert HERE in text


def test_errors_of_cenote_pass_as_they_are() -> None:
    def picky(self: Any, x: TensorType) -> Any:
        raise cenote.DTypeError("shop.shrink: takes no floats")

    with pytest.raises(cenote.DTypeError, match="takes no floats"):
        loaded(shrink(types=picky))(picture(1, 3, 8, 8))


def test_an_attribute_that_no_field_takes_is_refused() -> None:
    with pytest.raises(cenote.UnsupportedError, match="attribute beta is not known"):
        cenote.load(between(kind="Shrink", beta=1.0), operators={SHRINK: shrink()})


def test_samples_are_not_needed_to_run() -> None:
    assert [*shrink().samples()] == []
    assert issubclass(Sample, object)


@dataclass(frozen=True)
class Evaluated(Op):
    """A class of a module without `from __future__ import annotations`: annotations are types."""

    by: float = 1.0
    names: tuple[str, ...] = ()
    other: object = None
    name = "shop.evaluated"


def test_fields_with_evaluated_annotations_are_read() -> None:
    for name, kind in (("by", float), ("names", tuple[str, ...]), ("other", list)):
        Evaluated.__dataclass_fields__[name].type = kind  # type: ignore[assignment]
    node = cenote.ops.Imported("E", "shop", 1, {"by": 2, "names": ("a", "b"), "other": 1}, (), 1)
    assert read(Evaluated, node, "by", "names", ignored=("other",)) == Evaluated(2.0, ("a", "b"))
    with pytest.raises(
        cenote.ArgumentError, match="the field other is of the type list; an attribute gives bool"
    ):
        read(Evaluated, node, "by", "names", "other")
