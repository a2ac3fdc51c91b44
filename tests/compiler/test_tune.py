"""Choosing algorithms by measurement: no test looks at a clock, the seconds are made up."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest

import cenote
from cenote.codegen import jit
from cenote.compiler import tune
from cenote.compiler.schedule import BY_COST
from cenote.compiler.tune import Trial, Tuner, bytes_between, label
from cenote.core.errors import ArgumentError, CapacityError
from cenote.graph.graph import Node
from cenote.ops.base import Lowering
from tests.onnx_texts import noise, parsed

SHAPE = (1, 32, 32, 32)


def model_of(layers: int = 1) -> onnx.ModelProto:
    """3x3 convolutions of equal shapes, for which there are several algorithms."""
    names = ["x", *(f"v{i}" for i in range(layers - 1)), "y"]
    nodes = " ".join(
        f"{after} = Conv<pads=[1,1,1,1]>({before}, w{i})"
        for i, (before, after) in enumerate(itertools.pairwise(names))
    )
    rng = np.random.default_rng(0)
    weights = {f"w{i}": rng.standard_normal((32, 32, 3, 3)) / 17 for i in range(layers)}
    return parsed(f"g (float[1,32,32,32] x) => (float[1,32,32,32] y) {{ {nodes} }}", **weights)


class Clock:
    """Stands in for `measure`: gives out set seconds by the algorithm's name and notes what was asked."""

    def __init__(self, **seconds: float) -> None:
        self.seconds, self.asked = seconds, []

    def __call__(self, node: Node, types: Any, options: Sequence[Lowering], weights: int) -> list[float]:
        self.asked.append([option.name for option in options])
        return [self.seconds.get(option.name, 9.0) for option in options]


@pytest.fixture(autouse=True)
def records(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What is measured is kept here; kernels and the description of the machine stay where they are."""
    jit.host_target()
    kept: dict[str, str] = {}
    monkeypatch.setattr(tune.cache, "read_text", kept.get)
    monkeypatch.setattr(tune.cache, "write_text", kept.__setitem__)
    return kept


def load(
    clock: Clock, mode: str, monkeypatch: pytest.MonkeyPatch, layers: int = 1, threads: int = 1
) -> cenote.Model:
    monkeypatch.setattr("cenote.compiler.tune.Tuner", lambda mode: Tuner(mode, clock))
    return cenote.load(model_of(layers), threads=threads, tune=mode)


def chosen(model: cenote.Model) -> list[tuple[str, str]]:
    return [(s.algorithm, s.reason) for s in model.plan.describe().steps if s.op.startswith("conv")]


def test_the_fastest_is_chosen_and_the_plan_says_why(
    monkeypatch: pytest.MonkeyPatch, records: dict[str, str]
) -> None:
    ((default, reason),) = set(chosen(load(Clock(), "off", monkeypatch)))
    assert reason.startswith(BY_COST)
    first = Clock()
    load(first, "full", monkeypatch)
    (names,) = first.asked
    assert names[0] == default
    assert 2 <= len(names) <= 3
    records.clear()
    other = names[1]
    model = load(Clock(**{other: 4.1e-4, default: 5.5e-4}), "full", monkeypatch)
    ((algorithm, reason),) = set(chosen(model))
    assert algorithm == other
    assert reason.startswith(f"measured: 0.41 ms against 0.55 ms {default}")
    assert "choices: 0 by the cost model, 1 measured" in str(model.plan)
    assert reason in str(model.plan)
    x = noise(*SHAPE)
    plain = load(Clock(), "off", monkeypatch)(x)
    np.testing.assert_allclose(model(x), plain, rtol=1e-3, atol=1e-4)


def test_equal_layers_are_measured_once_and_later_loads_do_not_measure(
    monkeypatch: pytest.MonkeyPatch, records: dict[str, str]
) -> None:
    clock = Clock(winograd_f2=1e-4)
    model = load(clock, "full", monkeypatch, layers=3)
    layers = [name for name in records if name.startswith("tune-")]
    assert len(clock.asked) == len(layers) <= 2  # the first reads a plain input
    for mode in ("full", "cached"):
        again = Clock()
        assert chosen(load(again, mode, monkeypatch, layers=3)) == chosen(model)
        assert not again.asked
    for threads in (2, 3):  # the bits of a model must not depend on its threads
        assert chosen(load(Clock(), "cached", monkeypatch, layers=3, threads=threads)) == chosen(model)
    assert all(
        reason.startswith(BY_COST) for _, reason in chosen(load(Clock(), "off", monkeypatch, layers=3))
    )


def test_cached_measures_nothing(monkeypatch: pytest.MonkeyPatch, records: dict[str, str]) -> None:
    clock = Clock()
    assert all(reason.startswith(BY_COST) for _, reason in chosen(load(clock, "cached", monkeypatch)))
    assert not clock.asked
    assert not records


def test_noise_decides_nothing(monkeypatch: pytest.MonkeyPatch, records: dict[str, str]) -> None:
    clock = Clock()
    load(clock, "full", monkeypatch)
    best, other = clock.asked[0][:2]
    records.clear()
    ((algorithm, _),) = set(chosen(load(Clock(**{best: 1.00e-4, other: 0.99e-4}), "full", monkeypatch)))
    assert algorithm == best


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"direct": "fast"}', '{"direct": null}'])
def test_a_damaged_record_is_no_record(
    content: str, monkeypatch: pytest.MonkeyPatch, records: dict[str, str]
) -> None:
    load(Clock(), "full", monkeypatch)
    for name in records:
        tune.cache.write_text(name, content)
    assert all(reason.startswith(BY_COST) for _, reason in chosen(load(Clock(), "cached", monkeypatch)))
    clock = Clock()
    load(clock, "full", monkeypatch)
    assert clock.asked


def test_what_cannot_be_measured_is_left_to_the_cost_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> list[float]:
        raise CapacityError("no memory")

    monkeypatch.setattr("cenote.compiler.tune.Tuner", lambda mode: Tuner(mode, fails))
    assert all(
        reason.startswith(BY_COST) for _, reason in chosen(cenote.load(model_of(), threads=1, tune="full"))
    )


def test_every_rival_can_be_run_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real trials, but for the clock: each option runs on memory of its own."""
    seen: list[str] = []

    def run(node: Node, types: Any, options: Sequence[Lowering], weights: int) -> list[float]:
        assert weights == 4 * 20 * 9 * (3 + 20)
        for option in options:
            once = Trial(node, types, option)
            assert once.program() == []
            before = [x.copy() for x in once.inputs]
            assert once.seconds() > 0
            for x, y in zip(before, once.inputs, strict=True):
                np.testing.assert_array_equal(x, y)
            seen.append(label(option))
        return [1.0] * len(options)

    monkeypatch.setattr("cenote.compiler.tune.Tuner", lambda mode: Tuner(mode, run))
    model = parsed(
        """g (float[2,3,40,40] x) => (float[2,20,40,40] y) { a = Conv<pads=[1,1,1,1]>(x, w)  b = Relu(a)
        c = Conv<pads=[1,1,1,1]>(b, v)  y = Add(c, b) }""",
        w=np.random.default_rng(0).standard_normal((20, 3, 3, 3)) / 5,
        v=np.random.default_rng(1).standard_normal((20, 20, 3, 3)) / 13,
    )
    cenote.load(model, threads=1, tune="full")
    assert len(seen) == len(set(seen)) >= 2


def test_a_record_belongs_to_operator_types_and_target(
    monkeypatch: pytest.MonkeyPatch, records: dict[str, str]
) -> None:
    load(Clock(), "full", monkeypatch)
    before = set(records)
    exact = Clock()
    monkeypatch.setattr("cenote.compiler.tune.Tuner", lambda mode: Tuner(mode, exact))
    cenote.load(model_of(), threads=1, tune="full", precision="exact")
    assert all("winograd" not in name for names in exact.asked for name in names)
    wider = model_of()
    wider.graph.input[0].type.tensor_type.shape.dim[3].dim_value = 48
    wider.graph.output[0].type.tensor_type.shape.dim[3].dim_value = 48
    cenote.load(wider, threads=1, tune="full")
    assert set(records) - before


def test_a_record_belongs_to_the_bytes_of_the_models_weights(
    monkeypatch: pytest.MonkeyPatch, records: dict[str, str]
) -> None:
    """Weights of a small model stay in the caches, those of a large one are read from memory in each run."""
    first, other, third = Clock(), Clock(), Clock()
    load(first, "full", monkeypatch)
    larger = model_of()
    larger.graph.node.add(op_type="Add", input=["much", "much"], output=["z"])
    larger.graph.output.add(name="z").type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    larger.graph.output[-1].type.tensor_type.shape.dim.add(dim_value=1 << 22)
    larger.graph.initializer.append(onnx.numpy_helper.from_array(noise(1 << 22), "much"))
    for clock in (other, third):
        monkeypatch.setattr("cenote.compiler.tune.Tuner", lambda mode, clock=clock: Tuner(mode, clock))
        cenote.load(larger, threads=1, tune="full")
    assert len(first.asked) == len(other.asked) == 1
    assert not third.asked


def test_bytes_between_runs() -> None:
    target = jit.host_target()
    assert bytes_between(0, target) == 1
    assert bytes_between(300_000, target) == bytes_between(400_000, target)
    assert bytes_between(1 << 30, target) == bytes_between(1 << 40, target) > target.l3_bytes


@pytest.mark.parametrize("mode", ["on", "", None, 3])
def test_a_bad_mode_is_refused(mode: Any) -> None:
    with pytest.raises(ArgumentError, match="tune"):
        cenote.load(model_of(), tune=mode)


def test_figures_of_another_processor_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels serve a whole level, but their times are those of one processor."""
    clock = Clock(direct=1.0)
    load(clock, "full", monkeypatch)
    asked = len(clock.asked)
    monkeypatch.setattr(tune, "processor", lambda: "another")
    load(clock, "full", monkeypatch)
    assert len(clock.asked) == 2 * asked > 0
