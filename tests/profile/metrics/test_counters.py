"""Counters of the system: what it grants counts, what it refuses says why."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import struct
import sys
import threading

import numpy as np
import pytest

from cenote.profile.metrics import counters
from cenote.profile.metrics.counters import EVENTS, Counter, Counting, summary

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux's counters")


def test_each_event_is_counted_or_says_why() -> None:
    counting = Counting()
    with counting.during():
        np.ones(1 << 20).sum()
    found = counting.counters(2)
    counting.close()
    assert [each.name for each in found] == list(EVENTS)
    for each in found:
        assert (each.per_call is None) == bool(each.problem)
        assert 0 <= each.counted <= 1


@linux
def test_all_threads_count_and_only_while_wanted() -> None:
    """Page faults of another thread: 4 MB of new memory are 1,024, or 2 where pages are huge.

    Mapped, since an allocator may give memory that has been touched before.
    """
    start, done = threading.Event(), threading.Event()

    def touch() -> None:
        start.wait()
        with mmap.mmap(-1, 1 << 22, flags=mmap.MAP_PRIVATE) as memory:
            for page in range(0, 1 << 22, 4096):
                memory[page] = 1
        done.set()

    other = threading.Thread(target=touch)
    other.start()
    counting = Counting()
    with counting.during():
        start.set()
        done.wait()
    np.ones(1 << 24)  # not counted
    faults = next(each for each in counting.counters(1) if each.name == "page faults")
    counting.close()
    other.join()
    if faults.problem:
        pytest.skip(faults.problem)
    assert faults.per_call is not None
    assert 1 <= faults.per_call < 4000


def test_turns_of_counters_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread was counted in a quarter of the time: its count is scaled, and the share is said."""
    readings = {7: (100, 40, 10), 8: (50, 10, 10), 9: (0, 10, 0)}
    monkeypatch.setattr(os, "read", lambda file, size: struct.pack("3Q", *readings[file]))
    found = counters._read("cycles", [7, 8, 9], 5)
    assert found == Counter("cycles", (100 * 4 + 50) / 5, 20 / 60)
    readings[7] = (0, 10, 0)
    assert counters._read("cycles", [7], 5).problem == "the system had no counter free"


@linux
@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOENT, "has no such counter"),
        (errno.EACCES, "perf_event_paranoid must be 2 or less"),
        (errno.EPERM, "the container"),
        (errno.EMFILE, os.strerror(errno.EMFILE)),
    ],
)
def test_refusals_say_what_to_do(monkeypatch: pytest.MonkeyPatch, number: int, said: str) -> None:
    class Refusing:
        @staticmethod
        def syscall(*arguments: object) -> int:
            ctypes.set_errno(number)
            return -1

    monkeypatch.setattr(ctypes, "CDLL", lambda *arguments, **options: Refusing)
    found = Counting().counters(1)
    assert all(each.per_call is None and said in each.problem for each in found)
    assert said in next(summary(found))


def test_an_event_that_not_all_threads_have_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the process may open no more files: those of the event are free again."""
    opened: list[int] = []
    monkeypatch.setattr(counters, "_threads", lambda: [1, 2, 3])

    def some(kind: int, number: int, thread: int) -> int | str:
        if thread == 3:
            return "no more"
        opened.append(os.open(os.devnull, os.O_RDONLY))
        return opened[-1]

    monkeypatch.setattr(counters, "_open", some)
    counting = Counting()
    assert all(each.problem == "no more" for each in counting.counters(1))
    for file in opened:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(file)
    counting.close()


def test_ratios_in_words() -> None:
    found = [
        Counter("cycles", 1000.0, 1.0),
        Counter("instructions", 2500.0, 1.0),
        Counter("L1 reads", 400.0, 0.5),
        Counter("L1 misses", 20.0, 0.5),
        Counter("stalled cycles", problem="none"),
    ]
    assert list(summary(found)) == [
        "instructions per cycle 2.50",
        "hits of L1 95% (counted in 50% of the time)",
    ]
