"""Teams of threads that run native programs.

A team's workers are threads that stay inside one native call (`cenote_work`), without the GIL, asleep between jobs.
One program runs on a team at a time: two models on the same cores take turns instead of slowing each other down.
There are as many teams of a size as the cores hold, so callers wait for each other only when none is free. After a
fork the child has none of its parent's threads, so it starts with no teams.

All that a worker may touch outlives it: its own frame owns the control block, scratch and step tables are only
replaced when no job uses them, and code is never unmapped. At exit the workers are ended.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import ctypes
import os
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np

from cenote.core import settings
from cenote.core.load_options import thread_count
from cenote.core.locks import Guard
from cenote.core.machine.topology import BoundThreads, around_team, cores_by_node, cpus_of_team, running_on
from cenote.core.options import BOUND, Threads
from cenote.core.target import physical_cores
from cenote.core.types import Array
from cenote.runtime.layouts import CONTROL
from cenote.runtime.memory import address_of, aligned_bytes

MAXIMUM_THREADS = settings.MAXIMUM_THREADS


class DriverAbi:
    """Functions of the driver, by their addresses; `layouts` has its records."""

    def __init__(
        self,
        run: int,
        work: int,
        halt: int,
        rounds: int,
        formulas: int,
    ) -> None:
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        self.run = ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer, number, number)(run)
        self.work = ctypes.CFUNCTYPE(None, pointer, number)(work)
        self.rounds = ctypes.CFUNCTYPE(
            ctypes.c_int, number, pointer, pointer, number, pointer, number, pointer, pointer, number
        )(rounds)
        self.run_address = run
        self.formulas = ctypes.CFUNCTYPE(ctypes.c_int, pointer, number, pointer, number, pointer, number)(
            formulas
        )
        self.halt = ctypes.CFUNCTYPE(None, pointer, pointer, number, number, number)(halt)


def start_thread(function: Callable[..., object], arguments: tuple[object, ...]) -> bool:
    """Start a detached thread; return False where the system has no room for one.

    This is not `threading.Thread`, whose `start` waits for ever when the new thread finds no memory for its first
    frame.
    """
    try:
        _thread.start_new_thread(function, arguments)
    except (RuntimeError, MemoryError):
        return False
    return True


def _live(abi: DriverAbi, control: Array, index: int, present: set[int], cpus: set[int]) -> None:
    """Run a worker from start to end, on these CPUs if there are any. Its frame keeps the control block. Meanwhile its
    caller may set its CPUs, unless they are bound."""
    place = CONTROL.thread_ids + index
    try:
        if cpus:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, cpus)
        control[place] = _thread.get_native_id()
        control[CONTROL.caller_cpu] = 0  # so that the next call sets the CPUs of this worker, too
        abi.work(address_of(control), index)
    finally:
        control[place] = 0  # the system may give the number to another thread
        present.discard(index)


class Team:
    """Team of so many threads, the caller's being one. `control` is the block they share.

    Where the system starts fewer threads, the team is smaller: chunks are taken by the threads that run, and results
    are the same. `hire` tries again.
    """

    def __init__(self, threads: int, abi: DriverAbi, family: list[Team] | None = None) -> None:
        self.threads, self.abi = threads, abi
        self.guard = Guard()
        self.runner = 0  # the thread whose run is in progress; it holds the guard
        # All teams of this size, the first one first; the list is shared by them.
        self.family: list[Team] = [] if family is None else family
        self.lost = False  # True in a forked child: the workers are in the parent
        words = CONTROL.cpus if threads == 1 else CONTROL.size
        self.control = aligned_bytes(words * 8, "a thread team").view(np.int64)
        self.address = address_of(self.control)
        self.scratch: Array = aligned_bytes(0, "scratch memory")
        self.stride = 0
        self.graveyard: list[Array] = []
        self.present: set[int] = set()  # indices of the workers
        self.control[CONTROL.threads] = threads
        # Of bound threads each has one of these CPUs, the caller the first while it runs.
        is_bound = isinstance(threads, BoundThreads) and threads > 1 and hasattr(os, "sched_setaffinity")
        self.cpus = cpus_of_team(threads, cores_by_node(), len(self.family)) if is_bound else ()
        self.control[CONTROL.bound] = is_bound
        # One PAUSE is about 20 ns on the machines measured (65 cycles on Zen, 140 on recent Intel).
        self.control[CONTROL.spin] = settings.SPIN.integer() * 50
        self.family.append(self)

    def hire(self) -> None:
        """Start the missing workers. The caller holds the lock."""
        for index in range(1, self.threads):
            if index in self.present:
                continue
            self.present.add(index)
            cpus = {self.cpus[index]} if self.cpus else set()
            if start_thread(_live, (self.abi, self.control, index, self.present, cpus)):
                continue
            self.present.discard(index)
            warnings.warn(
                f"the system starts no more threads: {1 + len(self.present)} instead of {self.threads} run a model",
                RuntimeWarning,
                stacklevel=2,
            )
            return

    def placed(self) -> AbstractContextManager[None]:
        """Have the calling thread run on its CPU of bound threads."""
        return running_on({self.cpus[0]}) if self.cpus else _WHEREVER

    def reserve_scratch(self, nbytes: int) -> None:
        """Reserve at least this much scratch memory for every thread. The caller holds the lock."""
        if nbytes > self.stride:
            # 256 more: the threads' scratch must not share the low address bits (4 KiB aliasing).
            stride = -(-nbytes // 4096) * 4096 + 256
            self.scratch = aligned_bytes(stride * self.threads, "scratch memory")
            self.control[CONTROL.scratch] = address_of(self.scratch)
            self.control[CONTROL.scratch_stride] = self.stride = stride

    def free_tables(self) -> None:
        """Free the step tables of dead programs that no worker can be reading. The caller holds the lock.

        After a run has been published, a worker that is not active will only ever read that run's table or a newer.
        """
        if self.graveyard and not self.control[CONTROL.active]:
            self.graveyard.clear()

    def dismiss(self) -> None:
        """End the workers, and wait a little until they have ended. The caller holds the lock."""
        if not self.present:
            return
        self.abi.halt(self.address, self.address, 0, 0, 1)
        give_up = time.monotonic() + _LEAVING
        while self.present and time.monotonic() < give_up:
            time.sleep(0.0005)


_WHEREVER: AbstractContextManager[None] = contextlib.nullcontext()
_LEAVING = 1.0  # seconds that an exiting process waits for its workers
_teams: dict[int, Team] = {}
_teams_guard = Guard()


def resolve_threads(threads: Threads | None) -> int:
    """Return the number of threads to use: the argument, else CENOTE_THREADS, else one per physical core allowed; of
    "bound" the same number, of bound threads.

    Raises ArgumentError for anything but a whole number from 1 to 256, or "bound".
    """
    bound = isinstance(threads, str) and threads == BOUND  # an array of several numbers has no truth value
    usual = threads is None or bound
    count: int = thread_count("threads", settings.THREADS.integer() or physical_cores() if usual else threads)
    return BoundThreads(count) if bound else count


def near_threads(threads: Threads | None) -> AbstractContextManager[None]:
    """Have the calling thread run where a team of bound threads will, so that memory that it touches first is of their
    NUMA node; wherever it is for other threads, and on machines with one node."""
    if threads != BOUND and not isinstance(threads, BoundThreads):
        return _WHEREVER
    return running_on(around_team(resolve_threads(threads), cores_by_node()))


def _number(threads: int) -> int:
    """Return the number under which the teams of so many threads are kept: those of bound threads have their own."""
    return -threads if isinstance(threads, BoundThreads) else threads


def team(threads: int, abi: DriverAbi) -> Team:
    """Return the process's first team with this number of threads."""
    number = _number(threads)
    first = _teams.get(number)
    if first is None:
        with _teams_guard.lock:
            first = _teams.get(number)
            if first is None:
                first = Team(threads, abi)
                _teams[number] = first  # first, so that workers are never without their team
                first.hire()
    return first


def team_at_rest(threads: int, abi: DriverAbi) -> Team:
    """Return the team for a run: one without a run, a new one while there are cores for it, else one to wait for.

    A thread that runs a program already gets its own team: it must not wait for another thread, which may wait for
    it.
    """
    first = team(threads, abi)
    if not first.runner:
        return first
    family, caller = first.family, _thread.get_ident()
    for each in family:
        if each.runner == caller:
            return each
    for each in family:
        if not each.runner:
            return each
    if len(family) < physical_cores() // threads:
        with _teams_guard.lock:
            if len(family) < physical_cores() // threads:
                another = Team(threads, abi, family)
                another.hire()
                return another
    return family[caller // 64 % len(family)]  # identifiers are addresses


def teams_are_taken(threads: int) -> bool:
    """Whether a run on this number of threads would have to wait because every team is in a run."""
    first = _teams.get(_number(threads))
    if first is None or len(first.family) < physical_cores() // threads:
        return False
    return all(each.runner for each in first.family)


def _dismiss_all() -> None:
    """End all workers at exit: they must be out of native code before the interpreter is torn down."""
    for each in [each for first in list(_teams.values()) for each in first.family]:
        lock = each.guard.lock
        # A daemon thread may be in the middle of a run: then the workers stay, safely.
        if lock.acquire(timeout=_LEAVING):
            if not each.runner:
                each.dismiss()
            lock.release()


def _forget_teams() -> None:
    """Forget the teams in a forked child, which has none of the parent's threads."""
    for first in _teams.values():
        for each in first.family:
            each.lost = True
    _teams.clear()


os.register_at_fork(after_in_child=_forget_teams)
atexit.register(_dismiss_all)
