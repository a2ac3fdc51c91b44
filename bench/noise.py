"""What else the machine was doing while something was measured."""

import os
import resource
import time

# user, nice, system, irq, softirq and steal; idle and waiting for disks are not work.
BUSY_COLUMNS = (1, 2, 3, 6, 7, 8)


def machine_busy_seconds() -> float:
    """Seconds that all cores together have been busy since boot."""
    with open("/proc/stat") as table:
        fields = table.readline().split()
    return sum(int(fields[column]) for column in BUSY_COLUMNS) / os.sysconf("SC_CLK_TCK")


def own_busy_seconds() -> float:
    """Seconds that this process has used on all its threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class Meter:
    """Runs from its construction; tells how many cores' worth of work others did in the meantime."""

    def __init__(self) -> None:
        self.wall = time.perf_counter()
        self.busy = machine_busy_seconds()
        self.own = own_busy_seconds()

    def foreign_cores(self) -> float:
        """Cores that other processes, or the hypervisor's other guests, kept busy on average."""
        wall = time.perf_counter() - self.wall
        foreign = (machine_busy_seconds() - self.busy) - (own_busy_seconds() - self.own)
        return max(0.0, foreign / wall) if wall > 0 else 0.0
