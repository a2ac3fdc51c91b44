"""`cenote.check_operator` finds what is wrong with an operator, and says what it saw."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import cenote
from cenote.core.types import Array
from cenote.ops import Lowering, Op, Sample, Target, TensorType, narrow, seeded, wide
from cenote.ops.elementwise.activation import Relu


@dataclass(frozen=True)
class Positive(Op):
    """max(x, 0), by the lowerings of Relu."""

    by: float = 1.0
    name = "shop.positive"
    operands = ("x",)

    def types(self, x: TensorType) -> tuple[TensorType, ...]:
        if x.dtype.kind != "f":
            raise cenote.DTypeError(f"{self.name}: type {x.dtype} is no float")
        return (x.bare,)

    def compute(self, x: Array) -> tuple[Array, ...]:
        return (narrow(np.maximum(wide(x), 0), x.dtype),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        if any(x is not None and x.dtype == np.float32 for x in inputs):
            yield from list(Relu().lowerings(inputs, target))[:1]

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        yield Sample(cls(), (seeded((2, 3, 5)),))
        yield Sample(cls(), (seeded((19,), dtype=np.float64),))


def test_a_sound_operator_passes() -> None:
    report = cenote.check_operator(Positive)
    assert report.ok, report
    counts = {row.check: row.cases for row in report.rows}
    assert counts["lowerings"] == len(report.targets)
    assert counts["in place"] == len(report.targets)
    assert counts["special values"] == 5 * len(report.targets)
    assert min(counts[each] for each in ("float64", "threads", "open sizes", "one bad element")) >= 2
    assert "all is well, on" in str(report)
    assert report.as_dict()["ok"] is True


def lowered(change: Callable[[Any], Any]) -> Callable[..., Iterator[Any]]:
    def lowerings(self: Any, inputs: Any, target: Any) -> Iterator[Any]:
        for each in Positive.lowerings(self, inputs, target):
            yield change(each)

    return lowerings


def half_of(lowering: Any) -> Any:
    """The lowering with the last item of its work left out."""
    bind = lowering.bind
    return replace(lowering, bind=lambda *views: [replace(c, items=c.items - 1) for c in bind(*views)])


def shifted(lowering: Any) -> Any:
    """The lowering that writes its output 64 bytes behind its place."""

    def bind(inputs: Any, outputs: Any) -> Any:
        (y,) = outputs
        return lowering.bind(inputs, [replace(y, slot=replace(y.slot, offset=y.slot.offset + 64))])

    return replace(lowering, bind=bind)


@pytest.mark.parametrize(
    ("methods", "check", "said"),
    [
        ({"name": "relu"}, "name and samples", "has the name 'relu'"),
        ({"__doc__": ""}, "name and samples", "no docstring"),
        ({"types": lambda self, x: TensorType(x.dtype, (7,))}, "types and values", "but types said"),
        ({"compute": lambda self, x: np.maximum(x, 0, out=x)}, "types and values", "changed its input"),
        (
            {"compute": lambda self, x: np.random.rand(*x.shape).astype(x.dtype)},
            "types and values",
            "pure = False",
        ),
        ({"compute": lambda self, x: x + x.dtype.itemsize}, "float64", "something else for the same numbers"),
        ({"compute": lambda self, x: [][0]}, "types and values", "raised IndexError"),
        ({"__str__": lambda self: f"{id(self)}"}, "printing and equality", "it prints as"),
        ({"arranged": lambda self, inputs: [*inputs][:1]}, "wrong inputs", "nine inputs is not refused"),
        (
            {"region": lambda self, box, inputs: (replace(box, ranges=((0, 9),) * 3),)},
            "regions",
            "leaves (2, 3, 5)",
        ),
        (
            {"compute": lambda self, x: narrow(np.maximum(wide(x), 0) * 1.5, x.dtype)},
            "lowerings",
            "of the largest",
        ),
        (
            {"lowerings": lowered(lambda each: replace(each, bind=lambda *views: []))},
            "lowerings",
            "NaN at other",
        ),
        ({"lowerings": lowered(half_of)}, "lowerings", "NaN at other places"),
        ({"lowerings": lowered(shifted)}, "lowerings", "wrote past its buffer"),
        ({"lowerings": lambda self, inputs, target: [1]}, "lowerings", "not a cenote.ops.Lowering"),
        ({"lowerings": lowered(lambda each: replace(each, in_place=(5,)))}, "in place", "IndexError"),
        (
            {"compute": lambda self, x: narrow(np.fmax(wide(x), 0), x.dtype)},
            "special values",
            "NaN at other places",
        ),
        ({"samples": classmethod(lambda cls: [1])}, "name and samples", "samples yields 1"),
    ],
    ids=lambda value: value if isinstance(value, str) else ",".join(value),
)
def test_each_fault_is_found(methods: dict[str, Any], check: str, said: str) -> None:
    spoilt = dataclass(frozen=True)(type("Spoilt", (Positive,), {"__doc__": "A fault.", **methods}))
    report = cenote.check_operator(spoilt)
    found = {row.check: row.problem for row in report.rows if row.problem}
    assert said in found.get(check, ""), report
    assert f"failed: {check}: " in str(report)
    assert not report.ok


def test_a_class_without_samples_and_no_class_are_refused() -> None:
    silent = dataclass(frozen=True)(type("Silent", (Positive,), {"samples": classmethod(lambda cls: ())}))
    with pytest.raises(cenote.ArgumentError, match="has no samples"):
        cenote.check_operator(silent)
    with pytest.raises(cenote.ArgumentError, match=r"is no subclass of cenote\.ops\.Op"):
        cenote.check_operator(int)
