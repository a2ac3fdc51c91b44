"""The processor's own counters, where the system grants them: perf_event_open of Linux, for all threads of the process.

Virtual machines and containers often grant none: then each says why, and nothing is estimated in its place. Where there
are more events than counters, the kernel takes turns; a count is then scaled up from the part of the time in which it
was counted, which `counted` tells (man page perf_event_open(2)).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cenote.core.deferred import dataclass

_HARDWARE, _SOFTWARE, _CACHE = 0, 1, 3  # types of events
_L1, _LLC, _READ, _ACCESS, _MISS = 0, 2, 0, 0, 1


def _cache(level: int, result: int) -> tuple[int, int]:
    return _CACHE, level | _READ << 8 | result << 16


EVENTS = {
    "cycles": (_HARDWARE, 0),
    "instructions": (_HARDWARE, 1),
    "L1 reads": _cache(_L1, _ACCESS),
    "L1 misses": _cache(_L1, _MISS),
    "LLC reads": _cache(_LLC, _ACCESS),
    "LLC misses": _cache(_LLC, _MISS),
    "stalled cycles": (_HARDWARE, 8),  # of the back end
    "page faults": (_SOFTWARE, 2),
    "context switches": (_SOFTWARE, 3),
}
_NUMBERS = {"x86_64": 298, "aarch64": 241, "riscv64": 241}  # of the system call
_ENABLE, _DISABLE = 0x2400, 0x2401
_ATTRIBUTE_BYTES = 112
_DISABLED, _WITHOUT_KERNEL, _WITHOUT_HYPERVISOR = 1, 1 << 5, 1 << 6
_TIMES = 3  # a reading begins with the time enabled and the time counted
_CLOSE_ON_EXEC = 8


@dataclass(frozen=True)
class Counter:
    """An event of the processor or the system. `per_call`: of one call, all threads together, None where it was not
    counted; `counted`: the part of the time in which it was; `problem`: why it was not."""

    name: str
    per_call: float | None = None
    counted: float = 0.0
    problem: str = ""


class Counting:
    """Counters of all threads that the process has now. Use `during` around what counts, then `counters`."""

    def __init__(self) -> None:
        self._files: dict[str, list[int]] = {name: [] for name in EVENTS}
        self._problems: dict[str, str] = {}
        threads = _threads()
        for name, (kind, number) in EVENTS.items():
            for thread in threads:
                file = _open(kind, number, thread)
                if isinstance(file, str):  # perhaps the process may open no more files: others want some
                    self._problems[name] = file
                    self._give_back(name)
                    break
                if file is not None:
                    self._files[name].append(file)

    def close(self) -> None:
        """Give the counters back."""
        for name in self._files:
            self._give_back(name)

    def _give_back(self, name: str) -> None:
        files, self._files[name] = self._files[name], []
        for file in files:
            os.close(file)

    @contextmanager
    def during(self) -> Iterator[None]:
        """Count while the body runs."""
        self._switch(_ENABLE)
        try:
            yield
        finally:
            self._switch(_DISABLE)

    def counters(self, calls: int) -> tuple[Counter, ...]:
        """Return what was counted in so many calls."""
        return tuple(
            Counter(name, problem=self._problems[name])
            if name in self._problems
            else _read(name, files, calls)
            for name, files in self._files.items()
        )

    def _every(self) -> list[int]:
        return [file for files in self._files.values() for file in files]

    def _switch(self, request: int) -> None:
        if not (files := self._every()):
            return
        import fcntl

        for file in files:
            fcntl.ioctl(file, request, 0)


def _read(name: str, files: Sequence[int], calls: int) -> Counter:
    readings = [struct.unpack("3Q", os.read(file, 24)) for file in files]
    enabled, running = (sum(each[index] for each in readings) for index in (1, 2))
    if not running:
        return Counter(name, problem="the system had no counter free")
    # A thread that did not run was not counted, and has nothing to count.
    total = sum(count * on / counted for count, on, counted in readings if counted)
    return Counter(name, total / max(1, calls), min(1.0, running / enabled))


def _threads() -> list[int]:
    try:
        return [int(path.name) for path in Path("/proc/self/task").iterdir()]
    except OSError:
        return [0]


def _open(kind: int, number: int, thread: int) -> int | str | None:
    """Return the file of a counter that does not count yet; or why there is none; None for a thread that has ended."""
    call = _NUMBERS.get(platform.machine())
    if not sys.platform.startswith("linux") or call is None:
        return f"not read on {platform.system()} {platform.machine()}"
    flags = _DISABLED | _WITHOUT_HYPERVISOR | (0 if kind == _SOFTWARE else _WITHOUT_KERNEL)
    content = struct.pack("IIQQQQQ", kind, _ATTRIBUTE_BYTES, number, 0, 0, _TIMES, flags)
    attribute = ctypes.create_string_buffer(content, _ATTRIBUTE_BYTES)
    numbers = [ctypes.c_int(each) for each in (thread, -1, -1)]  # on any CPU, in no group
    library = ctypes.CDLL(None, use_errno=True)
    file = library.syscall(ctypes.c_long(call), attribute, *numbers, ctypes.c_ulong(_CLOSE_ON_EXEC))
    if file >= 0:
        return int(file)
    return None if ctypes.get_errno() == errno.ESRCH else _problem(ctypes.get_errno())


def _problem(number: int) -> str:
    reasons = {
        errno.ENOENT: "this processor or virtual machine has no such counter",
        errno.EOPNOTSUPP: "this processor or virtual machine has no such counter",
        errno.ENOSYS: "this system has no counters",
        errno.EACCES: "not permitted: /proc/sys/kernel/perf_event_paranoid must be 2 or less",
        errno.EPERM: "not permitted: the container or /proc/sys/kernel/perf_event_paranoid forbids it",
    }
    return reasons.get(number, os.strerror(number))


def summary(counters: Sequence[Counter]) -> Iterator[str]:
    """Yield what the counters say, in words; or why there are none."""
    found = {each.name: each for each in counters}
    hardware = [each for each in counters if EVENTS.get(each.name, (_SOFTWARE, 0))[0] != _SOFTWARE]
    if hardware and all(each.per_call is None for each in hardware):
        yield f"no hardware counters: {hardware[0].problem}; the measures of steps are estimates"
        return
    for what, over, under, share in _RATIOS:
        upper, lower = (found[name].per_call if name in found else None for name in (over, under))
        if upper is not None and lower:
            value = upper / lower
            part = min(found[over].counted, found[under].counted)
            turns = "" if part > 0.99 else f" (counted in {part:.0%} of the time)"
            yield f"{what} {1 - value if share < 0 else value:{'.0%' if share else '.2f'}}{turns}"


# Name, numerator, denominator; whether it is a number (0), a share (1) or one less a share (-1).
_RATIOS = (
    ("instructions per cycle", "instructions", "cycles", 0),
    ("stalled cycles", "stalled cycles", "cycles", 1),
    ("hits of L1", "L1 misses", "L1 reads", -1),
    ("hits of the last cache", "LLC misses", "LLC reads", -1),
)
