"""Recorded runs: every chunk is noted once, within its native call; logs keep their bounds; results stay the same."""

from __future__ import annotations

import time

import numpy as np
import pytest

from cenote.runtime.layouts import LOG, LOGS, NO_STEP, NOTE
from cenote.runtime.timing import CallRecorder, ThreadNotes, TimedProgram
from tests.runtime.chains import SIZE, chain

X = np.arange(SIZE, dtype=np.float32)


def recorded(length: int, threads: int, host: bool = False, room: int = 4096, calls: int = 3) -> CallRecorder:
    """A chain of steps, called so often."""
    program = chain(length, threads, host)
    expected = program.run([X])
    recorder = CallRecorder(room, threads)
    timed = TimedProgram.of(program, recorder, 7)
    for _ in range(calls):
        np.testing.assert_array_equal(timed.run([X]), expected)
        recorder.record(lambda: np.testing.assert_array_equal(timed.run([X]), expected))
    recorder.settle()
    return recorder


def all_notes(recorder: CallRecorder) -> ThreadNotes:
    threads = [recorder.notes(thread) for thread in range(recorder.threads)]
    return ThreadNotes(*(np.concatenate(each) for each in zip(*threads, strict=True)))


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("host", [False, True])
def test_every_item_of_every_step_is_noted_once(threads: int, host: bool) -> None:
    recorder = recorded(5, threads, host)
    notes = all_notes(recorder)
    for step in range(5):
        assert notes.items[notes.row == step].sum() == 3 * SIZE // 4
    native = notes.row == NO_STEP
    assert notes.items[native].tolist() == ([2, 5] if host else [5]) * 3
    assert (notes.end >= notes.begin).all()
    for begin, end in zip(notes.begin[native], notes.end[native], strict=True):
        inside = (notes.begin >= begin) & (notes.begin < end) & ~native
        assert set(notes.row[inside & (notes.items > 0)]) in ({0, 1, 2, 3, 4}, {0, 1}, {2, 3, 4})
    caller = recorder.notes(0)
    chunks = caller.row != NO_STEP
    assert (caller.begin[chunks][1:] >= caller.end[chunks][:-1]).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_calls_know_their_notes_and_host_steps(threads: int) -> None:
    recorder = recorded(4, threads, host=True)
    assert len(recorder.calls) == 3
    starts = [start for call in recorder.calls for _, start in call.runs]
    assert starts == sorted({*starts})
    assert all(program == 7 for call in recorder.calls for program, _ in call.runs)
    for call in recorder.calls:
        (run,) = call.hosts
        assert (run.program, run.step) == (7, 2)
        assert call.begin <= run.begin <= run.end <= call.end
        own = recorder.notes(0).row[call.runs[0][1] : call.notes]
        assert (own == NO_STEP).sum() == 2


@pytest.mark.parametrize("threads", [1, 2])
def test_a_full_log_keeps_its_bounds(threads: int) -> None:
    recorder = recorded(6, threads, room=5, calls=2)
    assert recorder.filled > 1
    for thread in range(threads):
        assert len(recorder.notes(thread).begin) <= 5
    log = recorder._log
    assert log.size == LOGS.size + threads * (LOG.size + 5 * NOTE.size)
    for thread in range(1, threads):
        # What stands behind the first log.
        assert log[LOGS.size + thread * (LOG.size + 5 * NOTE.size) + LOG.room] == 5
    recorder.clear()
    assert recorder.filled == 0
    assert not recorder.calls


def test_runs_that_are_not_recorded_note_nothing() -> None:
    program = chain(3, 2)
    recorder = CallRecorder(64, 2)
    timed = TimedProgram.of(program, recorder, 0)
    recorder.record(lambda: timed.run([X]))
    recorder.settle()
    noted = recorder.filled
    timed.run([X])
    program.run([X])
    recorder.settle()
    assert recorder.filled == noted > 0


def test_what_a_recorded_run_raises_leaves_the_team_usable() -> None:
    program = chain(3, 2, host=True)
    recorder = CallRecorder(64, 2)
    timed = TimedProgram.of(program, recorder, 0)

    class Wrong(Exception):
        pass

    def fail() -> None:
        timed.run([X])
        raise Wrong

    with pytest.raises(Wrong):
        recorder.record(fail)
    assert not recorder.on
    before = recorder.filled
    np.testing.assert_array_equal(program.run([X]), timed.run([X]))
    assert recorder.filled == before


def test_a_dropped_recorder_frees_its_log_only_when_no_worker_writes() -> None:
    for _ in range(20):
        recorder = recorded(4, 3, calls=1)
        recorder.close()
        del recorder
    program = chain(4, 3)
    deadline = time.monotonic() + 0.2
    while time.monotonic() < deadline:
        np.testing.assert_array_equal(program.run([X])[0], X + 4)
