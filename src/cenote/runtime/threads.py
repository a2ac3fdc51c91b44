"""Teams of threads that run native programs.

A team's workers are Python threads that live inside one native call (`cenote_work`), without the GIL, asleep between
jobs. One program runs on a team at a time: two models on the same cores take turns instead of trampling each other.
After a fork the child has none of its parent's threads, so it starts with no teams.
"""

from __future__ import annotations

import ctypes
import os
import threading

import numpy as np

from cenote.core import settings
from cenote.core.errors import ArgumentError
from cenote.core.target import physical_cores
from cenote.core.types import Array
from cenote.runtime.memory import address_of, aligned_bytes

MAXIMUM_THREADS = 256


class DriverAbi:
    """The driver's two functions and the shape of its records, set once by the compiler.

    `words` says where in the control block of `size` words a field lies; a step record has `step_words`.
    """

    def __init__(self, run: int, work: int, words: dict[str, int], size: int, step_words: int) -> None:
        self.run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(
            run
        )
        self.work = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(work)
        self.words = words
        self.size = size
        self.step_words = step_words


class Team:
    """So many threads, the caller's being one. `control` is the block they share."""

    def __init__(self, threads: int, abi: DriverAbi) -> None:
        self.threads, self.abi = threads, abi
        self.lock = threading.Lock()
        self.control = aligned_bytes(abi.size * 8, "a thread team").view(np.int64)
        self.address = address_of(self.control)
        self.scratch: Array = aligned_bytes(0, "scratch memory")
        self.stride = 0
        self.graveyard: list[Array] = []
        self.control[abi.words["threads"]] = threads
        # One PAUSE is about 20 ns on the machines measured (65 cycles on Zen, 140 on recent Intel).
        self.control[abi.words["spin"]] = settings.SPIN.integer() * 50
        for index in range(1, threads):
            worker = threading.Thread(
                target=abi.work, args=(self.address, index), name=f"cenote-{index}", daemon=True
            )
            worker.start()

    def reserve_scratch(self, nbytes: int) -> None:
        """Give every thread at least so much scratch memory. The caller holds the lock."""
        if nbytes > self.stride:
            # 256 more: the threads' scratch must not share the low address bits (4 KiB aliasing)
            stride = -(-nbytes // 4096) * 4096 + 256
            self.scratch = aligned_bytes(stride * self.threads, "scratch memory")
            self.control[self.abi.words["scratch"]] = address_of(self.scratch)
            self.control[self.abi.words["scratch_stride"]] = self.stride = stride

    def free_tables(self) -> None:
        """Free the step tables of dead programs that no worker can be reading. The caller holds the lock.

        After a run has been published, a worker that is not active will only ever read that run's table or a newer.
        """
        if self.graveyard and not self.control[self.abi.words["active"]]:
            self.graveyard.clear()


_teams: dict[int, Team] = {}
_teams_lock = threading.Lock()


def resolve_threads(threads: int | None) -> int:
    """How many threads to use: the argument, else CENOTE_THREADS, else one per physical core allowed.

    Raises ArgumentError for anything but a whole number from 1 to 256.
    """
    if threads is None:
        threads = settings.THREADS.integer() or physical_cores()
    if (
        isinstance(threads, bool)
        or not isinstance(threads, int | np.integer)
        or not 1 <= threads <= MAXIMUM_THREADS
    ):
        raise ArgumentError(f"threads: {threads!r} is not a whole number from 1 to {MAXIMUM_THREADS}")
    return int(threads)


def team(threads: int, abi: DriverAbi) -> Team:
    """The process's team of so many threads."""
    found = _teams.get(threads)
    if found is None:
        with _teams_lock:
            found = _teams.get(threads)
            if found is None:
                found = _teams[threads] = Team(threads, abi)
    return found


def bury(threads: int, table: Array) -> None:
    """Hand a step table that nobody will run again to its team."""
    found = _teams.get(threads)
    if found is not None:
        found.graveyard.append(table)  # list.append is atomic: a finaliser must not wait for the lock


def _forget_teams() -> None:
    """In a forked child: the threads are gone, and a lock may have been held by one of them."""
    global _teams_lock
    _teams_lock = threading.Lock()
    _teams.clear()


os.register_at_fork(after_in_child=_forget_teams)
