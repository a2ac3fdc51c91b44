"""The installation and its machine: target, kernel cache, versions, settings. `cenote info` prints it."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cenote.about.stored import cache_contents
from cenote.codegen import bundle, cache
from cenote.codegen.jit import host_target, llvm_version, named_target
from cenote.core import settings
from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, MissingPackageError
from cenote.core.machine.topology import allowed_cpus
from cenote.core.settings import Setting
from cenote.core.target import cache_sizes, physical_cores, processor
from cenote.core.version import __version__
from cenote.runtime.threads import resolve_threads

_PACKAGES = ("numpy", "llvmlite", "onnx", "ml_dtypes", "pillow", "typer", "rich")


@dataclass(frozen=True)
class Machine:
    """The computer, as this process may use it. Caches and memory in bytes; `memory` is 0 where unknown."""

    system: str
    processor: str
    physical_cores: int
    logical_cores: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    memory: int


@dataclass(frozen=True)
class TargetInfo:
    """The target of generated code: instruction set, LLVM's name of the CPU, float32 lanes, vector registers, and what
    of the processor's extensions for narrow types it uses (`bfloat` and `tiles` may be emulated): for products of
    bytes and of bfloat16, and for products on tiles of bytes, bfloat16 and float16, empty where there are none."""

    name: str
    cpu: str
    lanes: int
    registers: int
    dots: str = ""
    bfloat: str = ""
    tiles: tuple[str, str, str] = ("", "", "")


@dataclass(frozen=True)
class CacheInfo:
    """The cache: `files` and `nbytes` are those of compiled kernels, `plans` and `plan_bytes` those of compiled models.

    `bundled` kernels came with the package, in a file of `bundled_bytes`; both are 0 where it was built without.
    `folder` is empty when caching is off; `problem` says why the cache is neither read nor written, if so.
    """

    folder: str
    files: int
    nbytes: int
    plans: int = 0
    plan_bytes: int = 0
    problem: str = ""
    bundled: int = 0
    bundled_bytes: int = 0


@dataclass(frozen=True)
class SettingInfo:
    """An environment variable: its value now, its default, its meaning; `problem` says why the value cannot be used."""

    variable: str
    value: str
    default: str
    help: str
    problem: str = ""


@dataclass(frozen=True)
class Info:
    """The output of `cenote info`."""

    version: str
    machine: Machine
    target: TargetInfo
    cache: CacheInfo
    versions: dict[str, str]
    settings: tuple[SettingInfo, ...]
    # The fault of the installation.
    problem: str = ""

    def __repr__(self) -> str:
        where = f"{self.machine.processor}, {self.target.name}"
        return f"<Info: cenote {self.version} on {where}; `cenote info` prints all>"

    def as_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return asdict(self)


def info() -> Info:
    """Return the machine, the target, the kernel cache, the versions and the settings in force.

    A setting that cannot be used has the reason in `problem`; the target is then the host's best.
    """
    problems = {item.variable: _problem(item) for item in settings.SETTINGS}
    target = named_target("") if problems[settings.TARGET.variable] else host_target()
    return Info(
        version=__version__,
        machine=_machine(),
        target=TargetInfo(
            target.name,
            target.cpu,
            target.lanes(),
            target.registers,
            target.dots,
            target.bfloat,
            (target.tiles.int8, target.tiles.bf16, target.tiles.f16),
        ),
        cache=_cache(settings.cache_folder()),
        versions=_versions(),
        settings=tuple(
            SettingInfo(item.variable, item.text(), item.default, item.help, problems[item.variable])
            for item in settings.SETTINGS
        ),
        problem=_installed_twice(),
    )


def _problem(item: Setting) -> str:
    """Return why a setting cannot be used; "" when it can."""
    try:
        if item is settings.TARGET:
            host_target()
        elif item is settings.THREADS:
            resolve_threads(None)
        elif item.most is not None:
            item.integer()
        elif item.choices:
            item.choice()
    except ArgumentError as error:
        return str(error)
    return ""


def _machine() -> Machine:
    l1_bytes, l2_bytes, l3_bytes = cache_sizes()
    allowed = len(allowed_cpus())
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    return Machine(system, processor(), physical_cores(), allowed, l1_bytes, l2_bytes, l3_bytes, _memory())


def _memory() -> int:
    """Return the bytes of main memory; 0 where unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 0


def _cache(folder: Path | None) -> CacheInfo:
    bundled, bundled_bytes = bundle.size()
    if folder is None:
        return CacheInfo("", 0, 0, bundled=bundled, bundled_bytes=bundled_bytes)
    files = cache_contents()
    plans = [each.nbytes for each in files if each.kind == "model"]
    others = [each.nbytes for each in files if each.kind != "model"]
    return CacheInfo(
        str(folder), len(others), sum(others), len(plans), sum(plans), cache.problem(), bundled, bundled_bytes
    )


def _versions() -> dict[str, str]:
    # Imported here: it takes 40 ms, a sixth of what importing cenote may take.
    from importlib import metadata

    versions = {"python": platform.python_version()}
    try:
        versions["llvm"] = llvm_version()
    except MissingPackageError:
        versions["llvm"] = "not installed"
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return versions


def _installed_twice() -> str:
    """Return a warning if both distributions are installed: they hold the same files, so that removing one breaks the
    other; "" otherwise."""
    from importlib import metadata

    try:
        versions = [f"{name} {metadata.version(name)}" for name in ("cenote", "cenote-runtime")]
    except metadata.PackageNotFoundError:
        return ""
    return f"both {versions[0]} and {versions[1]} are installed: uninstall both, then install one"
