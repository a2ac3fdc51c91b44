"""Program run round after round on the results of the round before, as the body of a loop, without Python in between.

Carried values lie in two buffers, read and written in turns; arrays that are walked, and results that are kept of
every round, are read and written part by part in place. A native function counts the rounds and sets the words of the
argument records that change; Python is back after 50 ms, or after each round where something must be checked.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.types import INT64, Array, TensorType
from cenote.runtime.layouts import MOVE
from cenote.runtime.memory import address_of, empty_output
from cenote.runtime.program import Instance, Program, require_team
from cenote.runtime.records import Memory
from cenote.runtime.steps import HostStep, SlotKind
from cenote.runtime.threads import Team

_BLOCK = 16 << 20  # bytes of kept results for which memory is taken at a time
_WITHIN = 1  # result of the native function when its time ended within a round

Course = tuple[int, int, int]  # an address in even rounds, in odd ones, and the step from round to round


@dataclass(frozen=True)
class Feedback:
    """Connections between rounds, by the numbers of a program's inputs and outputs.

    `carried`: inputs, and the output of the round before that each takes. `walked`: inputs that are part after part
    of an array along its first axis, True where from its end. `kept`: outputs that are kept of every round, True: in
    reverse order. `counted`: the input that is the number of the round. `going`: a carried output that says whether
    there is a next round. Other inputs stay as they are.
    """

    carried: Mapping[int, int]
    walked: Mapping[int, bool]
    kept: Mapping[int, bool]
    counted: int | None = None
    going: int | None = None

    def fits(self, program: Program) -> bool:
        """Whether the program computes what its next round takes, without Python steps between."""
        inputs, outputs, parts = program.inputs, program.outputs, program.records.segments
        ends = TensorType(np.dtype(np.bool_), ())
        return (
            sum(isinstance(part, tuple) for part in parts) == 1
            and all(isinstance(part, tuple) or part.looks for part in parts)
            and all(inputs[index] == outputs[output] for index, output in self.carried.items())
            and all(outputs[index].size for index in self.kept)
            and (self.counted is None or inputs[self.counted] == TensorType(INT64, ()))
            and (self.going is None or (self.going in self.carried.values() and outputs[self.going] == ends))
        )


@dataclass(frozen=True)
class Rounded:
    """Results of rounds: carried values, by the numbers of their inputs, and kept ones, by those of the outputs, with
    an axis of the rounds in front."""

    carried: Mapping[int, Array]
    kept: Mapping[int, Array]


def run_rounds(program: Program, feedback: Feedback, inputs: Sequence[Array], most: int) -> Rounded:
    """Run up to `most` rounds, one at least, of a program that `feedback` fits. `inputs` are those of the first
    round, or all that is walked (`most` parts).

    Raises CapacityError where there is no memory for kept results, and the errors that checks of a round find.
    """
    with program.held() as (instance, team):
        return _Rounds(instance, team, feedback, inputs).run(most)


class _Rounds:
    """One run of rounds. `at` is the number of the round."""

    def __init__(self, instance: Instance, team: Team, feedback: Feedback, inputs: Sequence[Array]) -> None:
        self.instance, self.team, self.feedback = instance, team, feedback
        self.types = instance.program.outputs
        self.at, self.number = ctypes.c_int64(0), np.zeros((), np.int64)
        self.inputs = [np.asarray(x, order="C") for x in inputs]
        for index, (x, kind) in enumerate(zip(self.inputs, instance.program.inputs, strict=True)):
            part = x.shape[1:] if index in feedback.walked else x.shape
            assert (part, x.dtype) == (kind.shape, kind.dtype), f"{kind} was to go round, not {x.dtype}{part}"
        # Carried values: read here in even rounds, and there in odd ones.
        self.here = {index: self.inputs[index].copy() for index in feedback.carried}
        self.there = {index: empty_output(x.shape, x.dtype) for index, x in self.here.items()}
        self.flags: list[Array] = []
        for index, output in feedback.carried.items():
            if output == feedback.going:
                self.flags = [self.there[index], self.here[index]]  # as written in even and odd rounds
        self.going = (ctypes.c_int64 * 2)(*map(address_of, self.flags)) if self.flags else None
        self.looks = [part for part in instance.segments if isinstance(part, HostStep)]
        self.last = next(part[1] for part in instance.segments if isinstance(part, tuple))

    def run(self, most: int) -> Rounded:
        """Run all rounds, in blocks of as many as memory is taken for."""
        each = sum(self.types[index].nbytes for index in self.feedback.kept)
        whole = not each or any(self.feedback.kept.values())
        blocks: list[dict[int, Array]] = []
        while self.at.value < most:
            begin = self.at.value
            count = most - begin if whole else min(most - begin, max(16, _BLOCK // each))
            kept = {
                i: empty_output((count if each else 0, *self.types[i].shape), self.types[i].dtype)
                for i in self.feedback.kept
            }
            self._block(begin, begin + count, kept)
            done = self.at.value - begin
            blocks.append({i: x if done == count else x[:done].copy() for i, x in kept.items()})
            if done < count or not self._goes():
                break
        kept = (
            blocks[0] if len(blocks) == 1 else {i: np.concatenate([b[i] for b in blocks]) for i in blocks[0]}
        )
        return Rounded(self.there if self.at.value % 2 else self.here, kept)

    def _goes(self) -> bool:
        """Whether the last round said that there is a next one."""
        return not self.flags or bool(self.flags[(self.at.value - 1) % 2])

    def _courses(self, begin: int, kept: Mapping[int, Array]) -> dict[Memory, Course]:
        """Return the addresses of each input and output in the rounds from `begin` on."""
        courses: dict[Memory, Course] = {}
        for index, x in enumerate(self.inputs):
            courses[SlotKind.INPUT, index] = (
                _along(x, self.feedback.walked[index]) if index in self.feedback.walked else _at(x)
            )
        if self.feedback.counted is not None:
            courses[SlotKind.INPUT, self.feedback.counted] = _at(self.number)
        for index, x in kept.items():
            even, odd, step = _along(x, self.feedback.kept[index])
            courses[SlotKind.OUTPUT, index] = (even - begin * step, odd - begin * step, step)
        for index, output in self.feedback.carried.items():
            even, odd = address_of(self.here[index]), address_of(self.there[index])
            courses[SlotKind.INPUT, index], courses[SlotKind.OUTPUT, output] = (even, odd, 0), (odd, even, 0)
        return courses

    def _block(self, begin: int, end: int, kept: Mapping[int, Array]) -> None:
        """Run rounds from `begin` up to `end`, or until one says that there is no next."""
        words, courses = address_of(self.instance.words), self._courses(begin, kept)
        moves = [address_of(self.number), 0, 0, 1] if self.feedback.counted is not None else []
        for memory, places in self.instance.patches.items():
            even, odd, step = courses[memory]
            for word, offset in places:
                moves += [words + 8 * word, even + offset, odd + offset, step]
        table = (ctypes.c_int64 * max(1, len(moves)))(*moves)
        while self.at.value < end:
            until = self.at.value + 1 if self.looks else end
            self._native(table, len(moves) // MOVE.size, until)
            for look in self.looks:
                self.instance.look(look)
            if not self._goes():
                return

    def _native(self, moves: ctypes.Array[ctypes.c_int64], count: int, until: int) -> None:
        team, table = self.team, self.instance.table_address
        driver, control = self.instance.program.driver, team.address
        try:
            # Python handles signals here.
            while state := driver.rounds(
                driver.run_address,
                control,
                table,
                self.last,
                moves,
                count,
                self.going,
                ctypes.byref(self.at),
                until,
            ):
                require_team(team)
                if state != _WITHIN:
                    continue
                while driver.run(control, table, -1, self.last):
                    require_team(team)
                self.at.value += 1
                if not self._goes():
                    return
        except BaseException:  # first of all: no worker may touch arrays that nobody holds any more
            if team.threads > 1 and not team.lost:
                driver.halt(control, table, 0, self.last, 0)
            raise


def _at(x: Array) -> Course:
    """Return the course of memory that is the same in all rounds."""
    return address_of(x), address_of(x), 0


def _along(x: Array, backward: bool) -> Course:
    """Return the course of an array that is walked part after part."""
    step = x.nbytes // max(1, len(x))
    first = address_of(x) + (len(x) - 1) * step * backward
    return first, first, -step if backward else step
