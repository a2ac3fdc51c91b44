"""How many CPUs' time the control groups of this process leave it: a container's limit, or a service's.

Version 2 has one tree of groups, in which a group's `cpu.max` holds for all below it; version 1 a tree per controller,
with `cpu.cfs_quota_us` and `cpu.cfs_period_us`. A system may have both. Where a tree is mounted, and which part of it
a container sees, is in the process's `mountinfo`; which group the process is in, in its `cgroup`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path


def cpu_quota(process: Path = Path("/proc/self")) -> float:
    """CPUs (1.5: three halves of one) by the tightest limit from the process's groups up to those it can see; infinite
    without one, and where the system does not tell."""
    try:
        groups = (process / "cgroup").read_text(encoding="utf-8").splitlines()
        mounts = (process / "mountinfo").read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return math.inf
    limits = [_limit(folder) for folder in _folders(groups, mounts)]
    return min(limits, default=math.inf)


def _folders(groups: list[str], mounts: list[str]) -> Iterator[Path]:
    """The folders of the process's groups, and of those above, as far as they are mounted."""
    for group in groups:
        _, _, rest = group.partition(":")
        controllers, _, path = rest.partition(":")
        for root, point in _mounts(mounts, controllers):
            inside = path == root or path.startswith(f"{root.rstrip('/')}/")
            below = path[len(root) :].strip("/") if inside and ".." not in path else ""
            folder = point / below
            yield from (folder, *(parent for parent in folder.parents if parent.is_relative_to(point)))


def _mounts(mounts: list[str], controllers: str) -> Iterator[tuple[str, Path]]:
    """Which group is mounted where, of the tree with these controllers: none for version 2."""
    kind = "cgroup" if controllers else "cgroup2"
    if controllers and "cpu" not in controllers.split(","):
        return
    for mount in mounts:
        left, _, right = mount.partition(" - ")
        places, what = left.split(), right.split()
        if len(places) < 5 or len(what) < 3 or what[0] != kind:
            continue
        if not controllers or "cpu" in what[2].split(","):
            yield places[3], Path(places[4].replace("\\040", " "))


def _limit(folder: Path) -> float:
    """CPUs that a group may use; infinite where it has no limit."""
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text()
            period = (folder / "cpu.cfs_period_us").read_text()
        return int(quota) / int(period) if int(quota) > 0 and int(period) > 0 else math.inf
    except (OSError, ValueError):  # "max"
        return math.inf
