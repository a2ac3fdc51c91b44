"""Machine that code is generated for: lanes, registers, caches, cores. No kernel names an instruction set."""

from __future__ import annotations

import math
import platform
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cenote.core.deferred import cached_property, dataclass
from cenote.core.errors import ArgumentError
from cenote.core.machine.cpuid import HALVED
from cenote.core.machine.topology import cores_by_node
from cenote.core.text import split_words

PAIRS = "pairs"  # of 16-bit numbers, which every machine can multiply
SHUFFLE, LOADS = "shuffle", "loads"  # of the sixteenths of a table of bytes; byte by byte, on every machine
EMULATED = "emulated"  # an extension that the machine lacks, by other instructions of equal bits
_L1, _L2, _L3 = 32 << 10, 512 << 10, 16 << 20  # bytes of the usual caches


class TileWays(NamedTuple):
    """Ways of products on tiles (`codegen.tiles`), by what they multiply: bytes, bfloat16 and float16. Each is the
    extension that has them, "emulated", or empty where there are none."""

    int8: str = ""
    bf16: str = ""
    f16: str = ""


NO_TILES = TileWays()


@dataclass(frozen=True, repr=False)
class Target:
    """Description of the machine for kernels.

    `cpu` is the level of the instruction set, and `features` its extensions of the architecture's baseline, for LLVM.
    `vector_bytes` and `registers` describe the SIMD unit; `has_fma`, `has_half` (hardware float16 conversion),
    `has_scale` and `has_gather` are the only features kernels branch on. The sizes of the caches, and the ways in which
    bytes are multiplied (`dots`: `codegen.dots`) and looked up in tables (`lookups`: `codegen.byte_tables`), in which
    bfloat16 is multiplied (`bfloat`: `codegen.bfloat`; empty where float32 is as fast), those of products on
    `tiles`, whether a vector takes as long as two of half its size (`halved`), and the number of `threads` that share
    the work, serve the choice of kernels and the cut of their work: see `of_level`. `contracts`: a product that is
    added is rounded once or twice, as the machine that runs the code does faster (WebAssembly's relaxed instructions);
    kernels that need it rounded once ask `has_fma`.
    `by_lane`: a multiply-add takes one lane of a vector as a factor of all (Arm), so that factors need no broadcasts.
    """

    name: str
    cpu: str
    features: str
    triple: str
    vector_bytes: int
    registers: int
    has_fma: bool
    has_half: bool
    l1_bytes: int = _L1
    l2_bytes: int = _L2
    l3_bytes: int = _L3
    line: int = 64
    dots: str = PAIRS
    lookups: str = LOADS
    bfloat: str = ""
    tiles: TileWays = NO_TILES
    halved: bool = False
    contracts: bool = False
    by_lane: bool = False
    threads: int = 1

    def __repr__(self) -> str:
        return self.text

    @cached_property
    def text(self) -> str:
        """Text of all fields, from which digests are made; each load asks for it twice. It replaces the generated
        `__repr__`, which returns "..." for the rest of the process once Ctrl-C has interrupted it."""
        return f"Target({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__match_args__)})"

    def of_level(self) -> Target:
        """Return the target without this machine's caches and speeds: a kernel's code may depend on nothing else, so
        that it can be used on other machines."""
        usual: dict[str, Any] = {"l1_bytes": _L1, "l2_bytes": _L2, "l3_bytes": _L3}
        return replace(
            self, **usual, dots=PAIRS, lookups=LOADS, bfloat="", tiles=NO_TILES, halved=False, threads=1
        )

    @property
    def has_scale(self) -> bool:
        """Whether a register of floats can be multiplied by powers of two in one instruction (AVX-512)."""
        return self.cpu == "x86-64-v4"

    @property
    def is_wide(self) -> bool:
        """Whether the machine computes vectors of 64 bytes in one piece."""
        return self.vector_bytes == 64 and not self.halved

    @property
    def has_gather(self) -> bool:
        """Whether a register is filled by offsets faster than lane by lane (AVX-512; LLVM leaves AVX2's unused)."""
        return self.cpu == "x86-64-v4"

    def lanes(self, dtype: Any = np.float32) -> int:
        """Number of elements of the dtype in one vector register."""
        return self.vector_bytes // int(np.dtype(dtype).itemsize)


_CACHE_FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")
_CPU_FACTS = Path("/proc/cpuinfo")


@cache
def cache_sizes() -> tuple[int, int, int]:
    """Return the bytes of the level 1 data, level 2 and level 3 cache of one core; usual sizes where unknown."""
    sizes = {1: _L1, 2: _L2, 3: _L3}
    for index in _CACHE_FOLDER.glob("index*"):
        # A system may know that there is a cache but not its size, as many do on Arm.
        with suppress(OSError, ValueError):
            if (index / "type").read_text().strip() == "Instruction":
                continue
            size = (index / "size").read_text().strip()
            nbytes = int(size.rstrip("KM")) * {"K": 1 << 10, "M": 1 << 20}.get(size[-1:], 1)
            sizes[int((index / "level").read_text())] = nbytes
    return sizes[1], sizes[2], sizes[3]


# Where Linux gives numbers instead of a name ("CPU implementer", "CPU part" of /proc/cpuinfo): Arm's own cores, by the
# numbers of the kernel's arch/arm64/include/asm/cputype.h. Results of measurements are kept under the name.
_ARM_CORES = {
    0xD03: "Cortex-A53",
    0xD08: "Cortex-A72",
    0xD0B: "Cortex-A76",
    0xD0C: "Neoverse N1",
    0xD40: "Neoverse V1",
    0xD49: "Neoverse N2",
    0xD4F: "Neoverse V2",
    0xD84: "Neoverse V3",
}
_ARM = 0x41


@cache
def processor() -> str:
    """Name of the processor where the system has it."""
    facts = dict[str, str]()
    with suppress(OSError):
        for line in _CPU_FACTS.read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            facts.setdefault(key.strip(), value.strip())
    numbers = [facts.get(key, "") for key in ("CPU implementer", "CPU part", "CPU variant")]
    return facts.get("model name") or _arm_core(*numbers) or platform.processor() or platform.machine()


def _arm_core(maker: str, part: str, variant: str) -> str:
    """Return the name of a core that the system has numbers for; "" where there are none."""
    with suppress(ValueError):
        known = _ARM_CORES.get(int(part, 16)) if int(maker, 16) == _ARM else None
        return known or f"{platform.machine()} CPU {maker}:{part} variant {variant or '0x0'}"
    return ""


@cache
def physical_cores() -> int:
    """Number of physical cores that affinity and the quotas of control groups let this process use: the default
    number of threads."""
    return max(1, int(min(sum(map(len, cores_by_node())), cpu_quota())))


# CPU quota by the process's control groups: a container's limit, or a service's. Version 2 has one tree of groups, in
# which a group's `cpu.max` holds for all below it; version 1 a tree per controller, with `cpu.cfs_quota_us` and
# `cpu.cfs_period_us`; a system may have both. The process's `mountinfo` says where a tree is mounted, and which part
# of it a container sees; its `cgroup` says which group the process is in.


_OCTAL = re.compile(r"\\([0-7]{3})")  # escapes of blanks and backslashes in names of mountinfo


def cpu_quota(process: Path = Path("/proc/self")) -> float:
    """Return the number of CPUs (1.5: three halves of one) by the tightest limit of the process's groups and their
    visible parents; infinite without a limit, and where the system does not say."""
    return min(map(_limit, control_groups(process)), default=math.inf)


def control_groups(process: Path = Path("/proc/self")) -> list[Path]:
    """Return the folders of the groups that limit the process's CPUs, each followed by its visible parents; none
    where the system does not say."""
    try:
        groups = (process / "cgroup").read_text(encoding="utf-8").splitlines()
        mounts = (process / "mountinfo").read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return []
    return [*_folders(groups, mounts)]


def _folders(groups: list[str], mounts: list[str]) -> Iterator[Path]:
    """Yield the folders of the process's groups, and of their parents, as far as they are mounted."""
    for group in groups:
        _, _, rest = group.partition(":")
        controllers, _, path = rest.partition(":")
        mounted = [*_mounts(mounts, controllers)]
        inside = [(root, point) for root, point in mounted if _is_below(path, root)]
        for root, point in inside or mounted:  # for a group that is not visible: the mounts themselves
            folder = point / (path[len(root) :].strip("/") if inside else "")
            yield from (folder, *(parent for parent in folder.parents if parent.is_relative_to(point)))


def _is_below(path: str, root: str) -> bool:
    """Whether a mount of this root shows this group."""
    return (path == root or path.startswith(f"{root.rstrip('/')}/")) and ".." not in path.split("/")


def _mounts(mounts: list[str], controllers: str) -> Iterator[tuple[str, Path]]:
    """Yield (group, mount point) of the tree with these controllers: none for version 2."""
    kind = "cgroup" if controllers else "cgroup2"
    if controllers and "cpu" not in controllers.split(","):
        return
    for mount in mounts:
        left, _, right = mount.partition(" - ")
        places, what = left.split(), right.split()
        if len(places) < 5 or len(what) < 3 or what[0] != kind:
            continue
        if not controllers or "cpu" in what[2].split(","):
            root, point = (_OCTAL.sub(lambda code: chr(int(code[1], 8)), place) for place in places[3:5])
            yield root, Path(point)


def _limit(folder: Path) -> float:
    """Number of CPUs that a group may use; infinite where it has no limit."""
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text()
            period = (folder / "cpu.cfs_period_us").read_text()
        return int(quota) / int(period) if int(quota) > 0 and int(period) > 0 else math.inf
    except (OSError, ValueError):  # "max"
        return math.inf


# Extensions of each level beyond the baseline, in LLVM's names: the levels of the System V ABI's x86-64 supplement.
# Code is generated for a level, not for the particular CPU, so that code compiled on one machine runs on every other
# of its level. On six networks (AVX-512) the difference in time was within noise, the least times within 1.5 % either
# way.
_V3 = split_words("avx avx2 bmi bmi2 cx16 f16c fma lzcnt movbe popcnt sahf sse3 sse4.1 sse4.2 ssse3")
LEVELS = {
    "x86-64-v3": _V3,
    "x86-64-v4": (*_V3, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"),
}


# Extensions with an instruction that adds four products of bytes, by target, with one that chooses among 128 bytes,
# with one that adds two products of bfloat16, and with products on tiles, which need another one for the tiles.
EXTENSIONS = {"avx512": "avx512vnni", "avx2": "avxvnni"}
TABLES = {"avx512": "avx512vbmi"}
BFLOAT_EXTENSIONS = {"avx512": "avx512bf16"}
TILE, TILE_EXTENSIONS = "amx-tile", {"avx512": TileWays("amx-int8", "amx-bf16", "amx-fp16")}
# Words behind a target's name, each after a "+": extensions that are emulated where the machine lacks them.
FORCED_BFLOAT, FORCED_TILES = "bf16", "tiles"


def choose_target(features: Collection[str], triple: str, force: str = "") -> Target:
    """Return the best target for a host with these features, or the one that `force` names ("avx512", "avx2",
    "generic", or one of these with "+bf16" or "+tiles" behind it or both: with products of bfloat16, and with products
    on tiles, which are emulated where the host has none).

    Raises ArgumentError when the host cannot run the forced one.
    """
    name, *forced = force.split("+")
    available = {
        target.name: _extended(target, features, forced)
        for target in _targets(triple)
        if set(_required(target)) <= set(features)
    }
    if force and (name not in available or len({*forced} & {FORCED_BFLOAT, FORCED_TILES}) < len(forced)):
        raise ArgumentError(
            f"CENOTE_TARGET: '{force}' is not known or this CPU cannot run it (avx512, avx2, generic; behind one of "
            f"them +{FORCED_BFLOAT}: products of bfloat16, +{FORCED_TILES}: products on tiles, emulated where need be)"
        )
    return available[name] if force else next(iter(available.values()))


def plain_target(name: str, triple: str) -> Target:
    """Return a level of an architecture with usual caches and no extensions, for code that runs elsewhere."""
    target = next(each for each in _targets(triple) if each.name == name)
    return replace(target.of_level(), lookups=_lookups(target))


def _extended(target: Target, features: Collection[str], forced: Collection[str]) -> Target:
    """Return the target with the extensions that a host has; those of `forced` words are emulated where it has not."""

    def found(extension: str | None, without: str) -> str:
        return extension if extension and extension in features else without

    bfloat, tiles = (EMULATED if word in forced else "" for word in (FORCED_BFLOAT, FORCED_TILES))
    products = TILE_EXTENSIONS.get(target.name, NO_TILES) if TILE in features else NO_TILES
    return replace(
        target,
        dots=found(EXTENSIONS.get(target.name), PAIRS),
        lookups=found(TABLES.get(target.name), _lookups(target)),
        bfloat=found(BFLOAT_EXTENSIONS.get(target.name), bfloat),
        tiles=TileWays(*(found(extension, tiles) for extension in products)),
        halved=target.vector_bytes == 64 and HALVED in features,
    )


def _lookups(target: Target) -> str:
    """The way to look bytes up with nothing beyond the target's level."""
    return SHUFFLE if "ssse3" in _required(target) else LOADS


def _required(target: Target) -> tuple[str, ...]:
    return LEVELS.get(target.cpu, ())


def _targets(triple: str) -> tuple[Target, ...]:
    """Return the targets of an architecture, widest first."""
    l1_bytes, l2_bytes, l3_bytes = cache_sizes()
    sizes: dict[str, Any] = {"l1_bytes": l1_bytes, "l2_bytes": l2_bytes, "l3_bytes": l3_bytes}

    def level(name: str, cpu: str, vector_bytes: int, registers: int, rich: bool) -> Target:
        flags = ",".join(f"+{feature}" for feature in LEVELS.get(cpu, ()))
        return Target(name, cpu, flags, triple, vector_bytes, registers, rich, rich, **sizes)

    # "generic": 4 lanes on any x86-64 or aarch64, the baseline of the architecture, no optional feature.
    if triple.startswith(("aarch64", "arm64")):
        return (replace(level("generic", "generic", 16, 32, True), by_lane=True),)
    return (
        level("avx512", "x86-64-v4", 64, 32, True),
        level("avx2", "x86-64-v3", 32, 16, True),
        level("generic", "x86-64", 16, 16, False),
    )
