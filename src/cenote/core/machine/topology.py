"""Cores and NUMA nodes of the machine, and which of them a team of bound threads has."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

SYSTEM = Path("/sys/devices/system")


class BoundThreads(int):
    """Number of threads each of which has a core of its own."""


def allowed_cpus() -> set[int]:
    """Return the CPUs that this process may use."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def cores_by_node(system: Path = SYSTEM, allowed: set[int] | None = None) -> list[list[int]]:
    """Return, for each NUMA node with a CPU that this process may use, one such CPU of each physical core, in order.
    Where the system does not tell, all CPUs are cores, or all cores are of one node."""
    nodes: dict[int, dict[tuple[str, str], int]] = {}
    of_node = _nodes(system)
    for cpu in sorted(allowed_cpus() if allowed is None else allowed):
        folder = system / f"cpu/cpu{cpu}/topology"
        try:
            core = (
                (folder / "physical_package_id").read_text().strip(),
                (folder / "core_id").read_text().strip(),
            )
        except OSError:
            core = ("", str(cpu))
        nodes.setdefault(of_node.get(cpu, 0), {}).setdefault(core, cpu)
    return [list(nodes[number].values()) for number in sorted(nodes)]


def _nodes(system: Path) -> dict[int, int]:
    """Return the node of each CPU."""
    found: dict[int, int] = {}
    for folder in sorted(system.glob("node/node[0-9]*")):
        with contextlib.suppress(OSError, ValueError):
            for cpu in listed((folder / "cpulist").read_text()):
                found[cpu] = int(folder.name.removeprefix("node"))
    return found


def listed(text: str) -> list[int]:
    """Return the numbers of a list as Linux writes them: "0-3,8,10-11"."""
    numbers: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            numbers += range(int(first), int(last or first) + 1)
    return numbers


def cpus_of_team(threads: int, nodes: Sequence[Sequence[int]], number: int = 0) -> tuple[int, ...]:
    """Return the CPU of each of so many threads, for the first (0), second ... team of this size.

    A team has cores of one node where it can, of a small node before a large one, so that its threads read memory of
    their own node; teams after those have what is left, node after node. So no two teams share a core while there are
    enough. More threads than cores share them, evenly.
    """
    by_size = sorted(nodes, key=len)
    teams = [cpus for node in by_size for cpus in _groups(node, threads)]
    taken = {cpu for cpus in teams for cpu in cpus}
    teams += _groups([cpu for node in nodes for cpu in node if cpu not in taken], threads)
    if teams:
        return teams[number % len(teams)]
    cores = [cpu for node in nodes for cpu in node]
    return tuple(cores[index % len(cores)] for index in range(threads))


def _groups(cores: Sequence[int], size: int) -> list[tuple[int, ...]]:
    """Return the cores in groups of this size; those left over are in none."""
    return [tuple(cores[first : first + size]) for first in range(0, len(cores) - size + 1, size)]


@contextmanager
def running_on(cpus: set[int]) -> Iterator[None]:
    """Have the calling thread run on these CPUs, and afterwards where it was allowed before. Memory that it touches
    first meanwhile is of their node. Nothing changes where the system refuses."""
    if not cpus or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    try:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, cpus)
        yield
    finally:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, before)


def around_team(threads: int, nodes: Sequence[Sequence[int]]) -> set[int]:
    """Return the cores of all nodes that a team of bound threads has: where memory for it is touched first. None, where
    there is one node, which all memory is of."""
    if len(nodes) < 2:
        return set()
    team = set(cpus_of_team(threads, nodes))
    return {cpu for node in nodes if team & set(node) for cpu in node}
