"""Algorithms of users under the contract of lowerings: every sample that they accept, against the reference."""

from __future__ import annotations

from collections import Counter

import pytest

import tests.shop_algorithms  # noqa: F401  (registers them)
from cenote.core.extensions.switched import considering, lookup
from cenote.ops.base import Op, Sample
from cenote.ops.conv.conv import Conv
from cenote.ops.pool.average import AveragePool
from cenote.ops.pool.lp import LpPool
from cenote.ops.pool.window import MaxPool, MinPool
from cenote.verification.contract.comparison import check_sample
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
            with considering([extension]):
                found = lowerings_of(sample.op, sample.inputs, target, True)
            some = [each for each in found if each.extension is extension]
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
