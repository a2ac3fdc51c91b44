"""Runs of the same steps in the native driver, one after another, as a loop's body.

Before a round the words of its argument records that change are set: word = (even or odd) + round * step, which serves
states that go from one buffer to another and back, parts of arrays that are walked, and the number of the round.
"""

from __future__ import annotations

from cenote.codegen.native import Bytes, Int32, Int64, Native, Words, native
from cenote.codegen.values import I32, U8, Pointer, Value
from cenote.kernels.driver.records import WordsByName
from cenote.kernels.driver.waiting import SLICE, now
from cenote.runtime.layouts import MOVE


@native
def cenote_rounds(
    f: Native,
    run: Bytes,
    control: Words,
    steps: Words,
    last: Int64,
    moves: Words,
    count: Int64,
    going: Words,
    at: Words,
    upto: Int64,
) -> Int32:
    """Do rounds from that at `at` up to `upto`, each a run of the steps to `last`.

    Return 0: done, or the round before `at` has said that there is no next (where `going` points to, first that of even
    rounds, then that of odd ones); 1: the time was up within the round at `at`, whose run is to be gone on with; 2: it
    was up after a round.
    """
    deadline = now(f) + SLICE
    asks = ~f.is_null(going)
    with f.loop() as loop:
        number = at.load()
        loop.leave_if(number >= upto)
        parity = number & 1
        _set_words(f, moves, count, number, parity.differs(0))
        left = f.call_address(run, control, steps, f.integer(0), last, result=I32)
        f.return_if(left.differs(0), f.constant(I32, 1))
        at.store(number + 1)
        with f.when(asks):
            flag = f.load_pointer(going + parity, U8)
            f.return_if(flag.load().equals(0), f.constant(I32, 0))
        f.return_if(now(f) > deadline, f.constant(I32, 2))
    return f.constant(I32, 0)


def _set_words(f: Native, moves: Pointer, count: Value, number: Value, is_odd: Value) -> None:
    """Emit the changes of words before a round."""
    index = f.variable(f.integer(0))
    with f.loop() as loop:
        loop.leave_if(index.value >= count)
        move = WordsByName(MOVE, moves, index.value)
        value = f.select(is_odd, move.odd.load(), move.even.load()) + move.step.load() * number
        f.load_pointer(move.word).store(value)
        index.value += 1
