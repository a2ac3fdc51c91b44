"""Algorithms of users, by the samples of the operators that they compute: every one that an algorithm serves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from cenote.core.errors import ArgumentError
from cenote.core.extensions.switched import UserExtension, considering, lookup, unknown_algorithm
from cenote.core.target import Target
from cenote.ops.base import Lowering, Op, Sample, ShapeFromData, ValueNeeded
from cenote.ops.table import operators
from cenote.verification.contract.comparison import check_sample
from cenote.verification.contract.harness import lowerings_of
from cenote.verification.contract.report import ContractRow, OperatorReport

# Samples that an algorithm is run on, on the widest instruction set and on each other one; each compiles kernels.
MOST, MOST_OF_NARROWER = 48, 12


def check_algorithm(name: str, targets: Sequence[Target]) -> OperatorReport:
    """Run an algorithm on samples of the operators that it computes, and compare it with their references.

    Raises ArgumentError for a name of no algorithm.
    """
    extension = lookup(name)
    if extension is None or not extension.of:
        raise ArgumentError(f"operator: {unknown_algorithm(name)}")
    rows = [
        _row(extension, target, MOST_OF_NARROWER if place else MOST) for place, target in enumerate(targets)
    ]
    if not any(row.cases or row.problem for row in rows):
        rows[0] = replace(
            rows[0], problem=f'it serves no sample of Cenote\'s operators (of="{extension.of}")'
        )
    return OperatorReport(name, extension.place, tuple(target.name for target in targets), tuple(rows))


def offered(
    extension: UserExtension, samples: Sequence[Sample], target: Target
) -> Iterator[tuple[Sample, list[Lowering]]]:
    """Yield the samples that an algorithm serves, with its lowerings."""
    for sample in samples:
        try:
            with considering([extension]):
                found = lowerings_of(sample.op, sample.inputs, target, True)
        except (ShapeFromData, ValueNeeded):
            continue
        if some := [each for each in found if each.extension is extension]:
            yield sample, some


def _row(extension: UserExtension, target: Target, most: int) -> ContractRow:
    """Compare the algorithm with the reference on one instruction set, until the first problem."""
    check, count, case = f"answers on {target.name}", 0, ""
    try:
        for kind in _computed(extension):
            with np.errstate(all="ignore"):
                samples = tuple(kind.samples())
            for sample, lowerings in offered(extension, samples, target):
                if count == most:
                    return ContractRow(check, count, note=f"ok, on the first {most} samples that it serves")
                case = str(sample)
                check_sample(sample.op, sample.inputs, target, True, lowerings)
                count += 1
    except Exception as error:  # whatever the user's algorithm raises is the result of the check
        problem = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
        return ContractRow(check, count, f"{problem} [{case}]" if case else problem)
    return ContractRow(check, count, note="" if count else "it serves no sample")


def _computed(extension: UserExtension) -> Iterator[type[Op]]:
    """Yield the operators that may have its kind of problem."""
    room = "cenote.ops.pool." if "pool" in extension.of else "cenote.ops.conv."
    yield from (each for each in operators() if each.__module__.startswith(room))
