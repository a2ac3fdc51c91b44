"""Algorithms of pools and convolutions: one of Cenote's own, or one of a user with checks around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from cenote.core.deferred import dataclass
from cenote.core.errors import OperatorError, shown
from cenote.core.extensions.switched import UserExtension
from cenote.core.target import Target
from cenote.kernels.base import Call, View
from cenote.kernels.pool.problem import Candidate, PoolProblem
from cenote.ops.base import Lowering

P = TypeVar("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Algorithm(Generic[P, R]):
    """One way to solve a problem, under the name that inspect, tuning and plans show.

    `offer` takes a problem and the target. `wins`: when it is the fastest; `cost`: its work. `extension`: of a user's
    algorithm, what registered it.
    """

    name: str
    offer: Callable[[P, Target], R]
    wins: str = ""
    cost: str = ""
    extension: UserExtension | None = None


def pooling_algorithm_of(extension: UserExtension) -> Algorithm[PoolProblem, Candidate | None]:
    """Return a user's algorithm of pools. It raises OperatorError where the user's does, and for what is no
    candidate."""

    def offer(problem: PoolProblem, target: Target) -> Candidate | None:
        found = extension(problem, target)
        if found is None:
            return None
        if not isinstance(found, Candidate):
            raise OperatorError(f"{extension.where} returned {shown(found)}, not a Candidate or None")
        extension.check_estimate(found.seconds(target))
        build = found.build

        def checked(*views: object) -> Call:
            with extension.errors():
                call = build(*views)
            _check_call(extension, call)
            return call

        return replace(found, build=checked)

    return Algorithm(extension.name, offer, extension=extension)


def lowerings_of(extension: UserExtension, problem: object, target: Target) -> Iterator[Lowering]:
    """Yield the lowerings of a user's algorithm of convolutions. Raises OperatorError where it does, and for what is no
    lowering of this problem."""
    with extension.errors():
        found = extension.function(problem, target)
        several = isinstance(found, Iterable) and not isinstance(found, Lowering)
        listed = [*found] if several else [] if found is None else [found]
    for each in listed:
        if not isinstance(each, Lowering):
            raise OperatorError(f"{extension.where} returned {shown(each)}, not a Lowering or None")
        if each.name != extension.name and not each.name.startswith(f"{extension.name}_"):
            raise OperatorError(
                f"{extension.where} offers {shown(each.name)}; the names of its lowerings are {extension.name!r} or "
                f"begin with '{extension.name}_'"
            )
        extension.check_estimate(each.seconds)
        yield _guarded(extension, each)


def _guarded(extension: UserExtension, lowering: Lowering) -> Lowering:
    bind = lowering.bind

    def checked(inputs: Sequence[View | None], outputs: Sequence[View]) -> list[Call]:
        with extension.errors():
            calls = [*bind(inputs, outputs)]
        for call in calls:
            _check_call(extension, call)
        return calls

    return replace(lowering, bind=checked, extension=extension)


def _check_call(extension: UserExtension, made: object) -> None:
    if not isinstance(made, Call):
        raise OperatorError(f"{extension.where} made {shown(made)}, not a Call")
