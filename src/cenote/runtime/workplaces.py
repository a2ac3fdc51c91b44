"""Memory and threads of one run of a program at a time, and how the programs of a model share them."""

from __future__ import annotations

from typing import Protocol

from cenote.core.errors import refusals
from cenote.runtime.memory import GrowingBytes
from cenote.runtime.threads import DriverAbi, Team

_ARENA = "the arena of the model's intermediate values"


class Needs(Protocol):
    """Protocol of a program's needs of a place."""

    @property
    def arena_bytes(self) -> int: ...
    @property
    def scratch_bytes(self) -> int: ...
    @property
    def threads(self) -> int: ...
    @property
    def driver(self) -> DriverAbi: ...


class Workplace:
    """Workplace of one run at a time: memory for intermediate values, and the calling thread's own team of one."""

    def __init__(self, driver: DriverAbi) -> None:
        self.arena = GrowingBytes(_ARENA)
        self.alone = Team(1, driver)

    def fits(self, program: Needs) -> bool:
        """Whether there is enough of everything for a run of the program."""
        needs = program.scratch_bytes if program.threads == 1 else 0
        return self.arena.array.nbytes >= program.arena_bytes and self.alone.stride >= needs

    def fit(self, program: Needs) -> None:
        """Provide enough for a run of the program. Raises CapacityError where there is no memory for it."""
        if self.arena.array.nbytes < program.arena_bytes:
            self.arena.grow(program.arena_bytes)
        if program.threads == 1:
            self.alone.reserve_scratch(program.scratch_bytes)


class Workplaces:
    """Workplaces that the programs of a model, one for each set of sizes, use in turns.

    A run takes one and gives it back; there are as many as runs at once, each for the largest size so far.
    """

    def __init__(self) -> None:
        self._free: list[Workplace] = []
        self._largest: Needs | None = None

    def reserve(self, program: Needs) -> None:
        """Make each large enough for this program, the first one now. Raises as `take`."""
        self._largest = program
        self.give(self.take(program))

    def take(self, program: Needs) -> Workplace:
        """Take one for a run of the program. Raises CapacityError where there is no memory for it."""
        try:
            place = self._free.pop()
        except IndexError:
            place = Workplace(program.driver)
            if self._largest is not None:
                with refusals("memory to run a model on"):
                    place.fit(self._largest)
        if not place.fits(program):
            with refusals("memory to run a model on"):
                place.fit(program)
        return place

    def give(self, place: Workplace) -> None:
        """Return a workplace to the pool."""
        self._free.append(place)
