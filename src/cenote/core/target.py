"""The machine that code is generated for: lanes, registers, caches, cores. No kernel names an instruction set."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from cenote.core.errors import ArgumentError


@dataclass(frozen=True, repr=False)
class Target:
    """What kernels may ask about the machine.

    `vector_bytes` and `registers` describe the SIMD unit; `has_fma` and `has_half` (hardware float16 conversion) are
    the only features kernels branch on. `cpu` and `features` go to LLVM.
    """

    name: str
    cpu: str
    features: str
    triple: str
    vector_bytes: int
    registers: int
    has_fma: bool
    has_half: bool
    l1_bytes: int = 32 << 10
    l2_bytes: int = 512 << 10
    l3_bytes: int = 16 << 20
    line: int = 64

    def __repr__(self) -> str:
        """All fields: digests are made of it. That of dataclasses says "..." for good after Ctrl-C at a bad moment."""
        return f"Target({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def lanes(self, dtype: Any = np.float32) -> int:
        """Elements of the dtype in one vector register."""
        return self.vector_bytes // int(np.dtype(dtype).itemsize)


_CACHE_FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")


@cache
def cache_sizes() -> tuple[int, int, int]:
    """Bytes of the level 1 data, level 2 and level 3 cache as one core sees them; usual sizes where unknown."""
    sizes = {1: 32 << 10, 2: 512 << 10, 3: 16 << 20}
    try:
        for index in _CACHE_FOLDER.glob("index*"):
            if (index / "type").read_text().strip() == "Instruction":
                continue
            size = (index / "size").read_text().strip()
            scale = {"K": 1 << 10, "M": 1 << 20}.get(size[-1], 1)
            sizes[int((index / "level").read_text())] = int(size.rstrip("KM")) * scale
    except (OSError, ValueError):
        pass
    return sizes[1], sizes[2], sizes[3]


@cache
def physical_cores() -> int:
    """Physical cores that affinity and the cgroup's quota let this process use: the default number of threads."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    cores = set()
    for cpu in allowed:
        folder = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
        try:
            package = (folder / "physical_package_id").read_text().strip()
            cores.add((package, (folder / "core_id").read_text().strip()))
        except OSError:
            cores.add(("", str(cpu)))
    return max(1, min(len(cores), _quota()))


def _quota() -> int:
    """Whole CPUs of the cgroup's quota; very many when there is none."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        if quota != "max":
            return max(1, int(quota) // int(period))
    except (OSError, ValueError):
        pass
    return 1 << 16


# Beginnings of the features with which LLVM writes EVEX or REX2 instructions. A CPU's name implies those that the CPU
# has, so leaving them out is not enough: they must be taken away by name.
_AVX512 = ("avx512", "avx10", "amx-avx512")
_APX = ("egpr", "ndd", "nf", "ccmp", "cf", "zu", "ppx", "push2pop2")


def _flags(features: dict[str, bool], without: tuple[str, ...] = ()) -> str:
    """LLVM's feature string, for every feature that it knows of; none that begins like one of `without`."""
    return ",".join(
        ("+" if on and not name.startswith(without) else "-") + name for name, on in sorted(features.items())
    )


def choose_target(host_cpu: str, host_features: dict[str, bool], triple: str, force: str = "") -> Target:
    """The best target for a host, or the one that `force` names ("avx512", "avx2", "generic").

    Raises ArgumentError when the host cannot run what is forced.
    """
    l1_bytes, l2_bytes, l3_bytes = cache_sizes()
    sizes = {"l1_bytes": l1_bytes, "l2_bytes": l2_bytes, "l3_bytes": l3_bytes}

    def has(*names: str) -> bool:
        return all(host_features.get(name, False) for name in names)

    avx2 = has("avx2", "fma", "f16c")
    avx512 = avx2 and has("avx512f", "avx512vl", "avx512bw", "avx512dq")
    arm = platform.machine().lower() in {"aarch64", "arm64"}
    wanted = force or ("avx512" if avx512 else "avx2" if avx2 else "generic")
    if wanted == "avx512" and avx512:
        return Target("avx512", host_cpu, _flags(host_features), triple, 64, 32, True, True, **sizes)
    if wanted == "avx2" and avx2:
        flags = _flags(host_features, without=_AVX512 + _APX)
        return Target("avx2", host_cpu, flags, triple, 32, 16, True, True, **sizes)
    if wanted == "generic":
        # 4 lanes on any x86-64 or aarch64: the baseline of the architecture, no optional feature.
        cpu = "generic" if arm else "x86-64"
        return Target("generic", cpu, "", triple, 16, 32 if arm else 16, arm, arm, **sizes)
    raise ArgumentError(
        f"CENOTE_TARGET: '{wanted}' is not known or this CPU cannot run it (avx512, avx2, generic)"
    )
