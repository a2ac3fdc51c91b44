"""Algorithms of users under the contract of lowerings: every sample that they accept, against the reference."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from typing import Any

import pytest

import cenote
from cenote.algorithms import Candidate, PoolProblem, Target
from cenote.core.extensions import switched
from cenote.core.extensions.switched import lookup, registered_extensions
from cenote.ops.base import Op, Sample
from cenote.ops.conv.conv import Conv
from cenote.ops.pool.average import AveragePool
from cenote.ops.pool.lp import LpPool
from cenote.ops.pool.window import MaxPool, MinPool
from cenote.verification.contract import algorithms
from cenote.verification.contract.algorithms import offered
from cenote.verification.contract.comparison import check_sample
from tests import shop_algorithms
from tests.contract.samples import listed, named
from tests.harness import lowerings_of
from tests.targets import TARGETS

MOST = 8  # samples of an algorithm whose kernels run on a target


@pytest.mark.parametrize(
    ("name", "operators", "accepted"),
    [("shop.direct", (MaxPool, MinPool, AveragePool, LpPool), 8), ("shop.by_rows", (Conv,), 8)],
)
def test_the_contract_of_lowerings(name: str, operators: tuple[type[Op], ...], accepted: int) -> None:
    extension, counts = lookup(name), Counter[str]()
    assert extension is not None
    for place, target in enumerate(TARGETS):
        for sample in (sample for op in operators for sample in (listed if place == 0 else few)(op)):
            some = [each for _, found in offered(extension, [sample], target) for each in found]
            assert {each.name for each in some} <= {name}
            counts[target.name] += len(some)
            if counts[target.name] <= MOST:
                with named(sample):
                    check_sample(sample.op, sample.inputs, target, True, some)
    assert counts[TARGETS[0].name] >= accepted, counts


def few(op: type[Op]) -> tuple[Sample, ...]:
    """Samples for the narrower targets."""
    return listed(op)[::4]


def test_nobody_asks_those_that_are_not_switched_on() -> None:
    for sample in listed(MaxPool)[:5]:
        assert all(
            each.extension is None for each in lowerings_of(sample.op, sample.inputs, TARGETS[0], True)
        )


def test_check_operator_takes_algorithms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(algorithms, "MOST", 3)
    monkeypatch.setattr(algorithms, "MOST_OF_NARROWER", 1)
    for name in ("shop.direct", "shop.by_rows"):
        report = cenote.check_operator(name)
        assert report.ok, report
        assert report.rows[0].cases == 3
    with pytest.raises(cenote.ArgumentError, match=r"no algorithm 'shop\.dirct' is registered"):
        cenote.check_operator("shop.dirct")


def test_a_wrong_algorithm_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums in place of maxima; one that serves nothing; one that raises."""
    monkeypatch.setattr(switched, "_registered", dict(registered_extensions()))

    @cenote.register_algorithm("shop.lazy", of="pool")
    def lazy(problem: PoolProblem, target: Target) -> Candidate | None:
        return None

    @cenote.register_algorithm("shop.raising", of="pool")
    def raising(problem: PoolProblem, target: Target) -> Candidate | None:
        raise ZeroDivisionError

    @cenote.register_algorithm("shop.wrong", of="pool")
    def wrong(problem: PoolProblem, target: Target) -> Candidate | None:
        made = shop_algorithms.direct(problem, target)
        if made is None:
            return None
        build = made.build

        def other(*views: Any) -> Any:
            call = build(*views)
            return dataclasses.replace(call, items=0)  # nothing is written

        return dataclasses.replace(made, build=other)

    for name, said in (
        ("lazy", "serves no sample"),
        ("raising", "ZeroDivisionError"),
        ("wrong", "failed: answers on "),
    ):
        report = cenote.check_operator(f"shop.{name}")
        assert not report.ok
        assert re.search(said, str(report)), report
