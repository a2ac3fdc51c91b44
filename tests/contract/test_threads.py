"""Estimates do not depend on the number of threads: the same algorithms are chosen, so the same bits come out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cenote.core.sizes import plain
from cenote.core.target import Target
from cenote.core.types import TensorType
from cenote.ops.base import Op
from cenote.ops.conv.conv import Conv
from tests.contract.samples import each_operator, has_types, listed
from tests.harness import input_types
from tests.targets import LARGE, SMALL

FEW = 12  # samples of an operator
# Winograd convolutions that threads share in other blocks, and in one call instead of two: (channels, filters, size).
CONVOLUTIONS = (
    (128, 32, (14, 14)),
    (128, 32, (7, 7)),
    (96, 96, (25, 25)),
    (64, 32, (4, 4)),
    (256, 256, (14, 14)),
    (32, 32, (8, 8, 8)),
    (128, 32, (6, 6, 6)),
)


def offered(op: Op, types: Any, target: Target) -> list[tuple[Any, ...]]:
    """What a choice between an operator's lowerings asks."""
    return [
        (each.name, plain(each.seconds), each.inputs, each.outputs, each.tolerance)
        for each in op.lowerings(types, target)
    ]


def check(op: Op, types: Any, target: Target) -> None:
    alone = offered(op, types, replace(target, threads=1))
    for threads in (2, 5):
        assert offered(op, types, replace(target, threads=threads)) == alone


@each_operator
def test_estimates_of_samples(op: type[Op]) -> None:
    for sample in listed(op)[:FEW]:
        for constants in (False, True):
            if has_types(sample, constants):
                check(sample.op, input_types(sample.inputs, constants), LARGE)


@pytest.mark.parametrize("target", [LARGE, SMALL], ids=lambda target: target.name)
@pytest.mark.parametrize(("channels", "filters", "size"), CONVOLUTIONS)
def test_estimates_of_convolutions(
    channels: int, filters: int, size: tuple[int, ...], target: Target
) -> None:
    axes = len(size)
    weights = np.broadcast_to(np.float32(0.1), (filters, channels, *(3,) * axes))
    types = [TensorType.of(np.float32, (1, channels, *size)), TensorType.known(weights)]
    check(Conv(pads=((1, 1),) * axes), types, target)
