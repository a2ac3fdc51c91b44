"""Other activity on the machine during a measurement, as far as the system reports it; None where it does not."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import time
from pathlib import Path

from cenote.core.deferred import dataclass
from cenote.core.machine.topology import allowed_cpus
from cenote.core.target import control_groups, cpu_quota, physical_cores

# Columns of /proc/stat: user, nice, system, interrupts; idle and waiting for disks are no work.
_BUSY = (1, 2, 3, 6, 7)
_STEAL = 8


@dataclass(frozen=True)
class Environment:
    """The machine from before the measurement to after it.

    `seconds`: its duration. `foreign_cores`: cores that other processes kept busy on average; `steal_cores`: cores
    that the hypervisor gave to others. `throttled_ms`, `throttled_periods`: the cgroup's quota was used up.
    `run_queue_ms`: threads of this process were ready and had no core. `minor_faults` (first touches of memory),
    `major_faults` (read from disk), `preemptions` (another thread took the core), `migrations` (of the recorded
    calls, those in which a thread ran on more than one CPU). `clock_ghz`: before and after, of a busy core. `cpus`:
    those that this process may use, `online`: those of the machine; `quota_cores`: the cgroup's quota; `load`:
    threads that want a core, over a minute.
    """

    seconds: float
    cpus: int
    cores: int
    foreign_cores: float | None = None
    steal_cores: float | None = None
    throttled_ms: float | None = None
    throttled_periods: int | None = None
    run_queue_ms: float | None = None
    minor_faults: int | None = None
    major_faults: int | None = None
    preemptions: int | None = None
    migrations: int | None = None
    quota_cores: float | None = None
    load: float | None = None
    clock_ghz: tuple[float, float] | None = None
    online: int | None = None


class Watch:
    """A measurement of the environment that begins with its construction."""

    def __init__(self) -> None:
        self._wall = time.perf_counter()
        self._stat, self._throttled, self._queue = _cpu_seconds(), _throttling(), run_queue_seconds()
        self._usage = resource.getrusage(resource.RUSAGE_SELF)

    def environment(
        self, clock_ghz: tuple[float, float] | None = None, migrations: int | None = None
    ) -> Environment:
        """Return the environment since the construction."""
        wall = max(time.perf_counter() - self._wall, 1e-9)
        usage, stat, throttled = resource.getrusage(resource.RUSAGE_SELF), _cpu_seconds(), _throttling()
        own = _used(usage) - _used(self._usage)
        foreign = steal = periods = stopped = queued = load = None
        if stat is not None and self._stat is not None:
            foreign = max(0.0, (stat[0] - self._stat[0] - own) / wall)
            steal = max(0.0, (stat[1] - self._stat[1]) / wall)
        if throttled is not None and self._throttled is not None:
            periods = throttled[0] - self._throttled[0]
            stopped = (throttled[1] - self._throttled[1]) * 1e3
        if (queue := run_queue_seconds()) is not None and self._queue is not None:
            queued = max(0.0, queue - self._queue) * 1e3
        with contextlib.suppress(OSError):
            load = os.getloadavg()[0]
        return Environment(
            seconds=wall,
            cpus=len(allowed_cpus()),
            cores=physical_cores(),
            foreign_cores=foreign,
            steal_cores=steal,
            throttled_ms=stopped,
            throttled_periods=periods,
            run_queue_ms=queued,
            minor_faults=usage.ru_minflt - self._usage.ru_minflt,
            major_faults=usage.ru_majflt - self._usage.ru_majflt,
            preemptions=usage.ru_nivcsw - self._usage.ru_nivcsw,
            migrations=migrations,
            quota_cores=_quota(),
            load=load,
            clock_ghz=clock_ghz,
            online=os.cpu_count(),
        )


def _used(usage: resource.struct_rusage) -> float:
    return usage.ru_utime + usage.ru_stime


def _cpu_seconds() -> tuple[float, float] | None:
    """Return the seconds that all CPUs were busy, and that the hypervisor took from them, since boot."""
    try:
        with open("/proc/stat") as table:
            columns = table.readline().split()
        ticks = os.sysconf("SC_CLK_TCK")
        return sum(int(columns[i]) for i in _BUSY) / ticks, int(columns[_STEAL]) / ticks
    except (OSError, ValueError, IndexError):
        return None


def run_queue_seconds() -> float | None:
    """Return the seconds that threads of this process, those alive now, have been ready and waited for a core."""
    total, found = 0, False
    try:
        for task in os.scandir("/proc/self/task"):
            with contextlib.suppress(OSError, ValueError, IndexError), open(f"{task.path}/schedstat") as file:
                total, found = total + int(file.read().split()[1]), True
    except OSError:
        return None
    return total / 1e9 if found else None


def _throttling() -> tuple[int, float] | None:
    """Return the periods in which one of the process's control groups ran out of its quota, and the seconds for which
    it was stopped, added up over the CPUs that it ran on."""
    groups = [each for folder in control_groups() if (each := _throttled(folder)) is not None]
    return (sum(each[0] for each in groups), sum(each[1] for each in groups)) if groups else None


def _throttled(folder: Path) -> tuple[int, float] | None:
    with contextlib.suppress(OSError, ValueError, KeyError):
        lines = dict(line.split() for line in (folder / "cpu.stat").read_text().splitlines())
        newer = "throttled_usec" in lines
        seconds = int(lines["throttled_usec"]) / 1e6 if newer else int(lines["throttled_time"]) / 1e9
        return int(lines["nr_throttled"]), seconds
    return None


def _quota() -> float | None:
    quota = cpu_quota()
    return quota if math.isfinite(quota) else None
