"""CPU quotas of control groups, out of trees as systems and containers have them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from cenote.core import target
from cenote.core.target import cpu_quota


def process(tmp_path: Path, groups: str, mounts: str, files: dict[str, str]) -> Path:
    """A process's folder, and the trees that its mounts show; {} in a mount is the folder of all trees."""
    for name, content in files.items():
        (tmp_path / "fs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "fs" / name).write_text(content)
    own = tmp_path / "proc"
    own.mkdir()
    (own / "cgroup").write_text(groups)
    (own / "mountinfo").write_text(mounts.replace("{}", str(tmp_path / "fs")))
    return own


V2 = "30 23 0:26 / {} rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "32 31 0:29 / {}/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
V1_OF_A_CONTAINER = "32 31 0:29 /docker/12ab {}/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
BOTH = V1 + "41 31 0:38 / {}/unified rw,relatime - cgroup2 cgroup2 rw\n"
QUOTA, PERIOD = "cpu.cfs_quota_us", "cpu.cfs_period_us"
CASES = {
    "version 2, the namespace's root": ("0::/\n", V2, {"cpu.max": "150000 100000\n"}, 1.5),
    "version 2, without a limit": ("0::/\n", V2, {"cpu.max": "max 100000\n"}, math.inf),
    "version 2, a nested group": ("0::/a/b\n", V2, {"a/b/cpu.max": "300000 100000\n"}, 3.0),
    "version 2, a limit further up": (
        "0::/a/b/c\n",
        V2,
        {"a/b/c/cpu.max": "max 100000\n", "a/b/cpu.max": "400000 100000\n", "a/cpu.max": "200000 100000\n"},
        2.0,
    ),
    "version 2, a group out of sight": ("0::/../../other\n", V2, {"cpu.max": "100000 50000\n"}, 2.0),
    "version 1": (
        "5:cpu,cpuacct:/\n",
        V1,
        {f"cpu,cpuacct/{QUOTA}": "250000\n", f"cpu,cpuacct/{PERIOD}": "100000\n"},
        2.5,
    ),
    "version 1, without a limit": (
        "5:cpu,cpuacct:/\n",
        V1,
        {f"cpu,cpuacct/{QUOTA}": "-1\n", f"cpu,cpuacct/{PERIOD}": "100000\n"},
        math.inf,
    ),
    "version 1, a nested group": (
        "5:cpu,cpuacct:/a/b\n",
        V1,
        {f"cpu,cpuacct/a/{QUOTA}": "70000\n", f"cpu,cpuacct/a/{PERIOD}": "100000\n"},
        0.7,
    ),
    "version 1, in a container": (
        "5:cpu,cpuacct:/docker/12ab\n",
        V1_OF_A_CONTAINER,
        {f"cpu,cpuacct/{QUOTA}": "200000\n", f"cpu,cpuacct/{PERIOD}": "100000\n"},
        2.0,
    ),
    "both versions": (
        "1:cpu,cpuacct:/s\n0::/t\n",
        BOTH,
        {
            f"cpu,cpuacct/s/{QUOTA}": "400000\n",
            f"cpu,cpuacct/s/{PERIOD}": "100000\n",
            "unified/t/cpu.max": "300000 100000\n",
        },
        3.0,
    ),
    "other controllers": ("3:memory:/a\n", V1, {f"cpu,cpuacct/a/{QUOTA}": "100000\n"}, math.inf),
    "nothing mounted": ("0::/\n", "", {}, math.inf),
    "version 2, a blank in the group's name": (
        "0::/a b/c\n",
        V2.replace(" / ", " /a\\040b "),
        {"c/cpu.max": "100000 100000\n"},
        1.0,
    ),
    "version 2, a tab and a backslash in the mount's name": (
        "0::/\n",
        V2.replace("{}", "{}/x\\011y\\134z"),
        {"x\ty\\z/cpu.max": "100000 100000\n"},
        1.0,
    ),
    "version 2, beside a mount of another group": (
        "0::/a\n",
        V2.replace(" / {}", " /other {}/other") + V2.replace("{}", "{}/all"),
        {"other/cpu.max": "100000 100000\n", "all/a/cpu.max": "300000 100000\n"},
        3.0,
    ),
    "damaged": ("0::/\n", V2, {"cpu.max": "many\n"}, math.inf),
}


@pytest.mark.parametrize("name", CASES)
def test_the_tightest_limit_counts(tmp_path: Path, name: str) -> None:
    groups, mounts, files, quota = CASES[name]
    assert cpu_quota(process(tmp_path, groups, mounts, files)) == quota


def test_a_system_that_does_not_tell(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path / "nothing") == math.inf


@pytest.mark.parametrize(("quota", "cores"), [(0.5, 1), (1.9, 1), (math.inf, None)])
def test_threads_are_whole_cpus(monkeypatch: pytest.MonkeyPatch, quota: float, cores: int | None) -> None:
    monkeypatch.setattr(target, "cpu_quota", lambda: quota)
    found = target.physical_cores.__wrapped__()
    assert found == cores if cores else found >= 1
