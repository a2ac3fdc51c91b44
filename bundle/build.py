"""Compiles the kernels of common networks for each level of x86-64 into the package: `make wheel` then packs them.

    python -m bundle                   writes src/cenote/data/kernels.bundle
    python -m bundle --list            what it would hold

Any x86-64 machine will do, whatever its own level. Which kernels a network takes depends on the sizes of caches, in few
ways; the networks are planned for those of several processors.
"""

from __future__ import annotations

import argparse
import importlib
import os
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import cenote
from bundle.networks import names, network, shapes
from cenote.codegen import bundle, jit, worker
from cenote.codegen.worker import KernelSource
from cenote.compiler.constants import Constants
from cenote.core.formulas.instructions import ASK
from cenote.core.target import LEVELS, Target, choose_target, physical_cores
from cenote.runtime import formulas

TRIPLE = "x86_64-unknown-linux-gnu"
LEVEL_NAMES = ("avx2", "avx512")
KIB, MIB = 1 << 10, 1 << 20


class Machine(NamedTuple):
    """What decides between kernels: level 1, 2 and 3 as one core sees them, and whether AVX-512 computes in halves."""

    l1: int
    l2: int
    l3: int
    halved: bool = False


MACHINES = (
    Machine(32 * KIB, 256 * KIB, 8 * MIB),  # Haswell to Coffee Lake
    Machine(32 * KIB, 512 * KIB, 32 * MIB),  # Zen 2 and 3
    Machine(32 * KIB, 1 * MIB, 32 * MIB),  # Skylake servers
    Machine(32 * KIB, 1 * MIB, 32 * MIB, halved=True),  # Zen 4
    Machine(48 * KIB, 1280 * KIB, 48 * MIB),  # Ice Lake servers and Alder Lake
    Machine(48 * KIB, 2 * MIB, 105 * MIB),  # Sapphire Rapids and later
)

LARGEST = 10_000_000  # bytes of the file: the whole wheel may have 12 MB


def described(level: str, machine: Machine) -> Target:
    """The target for a machine, at a level of instructions."""
    target = choose_target(LEVELS["x86-64-v4"], TRIPLE, level)
    halved = machine.halved and target.vector_bytes == 64
    return replace(target, l1_bytes=machine.l1, l2_bytes=machine.l2, l3_bytes=machine.l3, halved=halved)


@contextmanager
def noted(target: Target) -> Iterator[dict[str, KernelSource]]:
    """Whatever is compiled meanwhile is for this target, and only noted: kernels by symbol."""
    found: dict[str, KernelSource] = {}

    def addresses(
        sources: Iterable[KernelSource], _: Target, rest: Iterable[KernelSource] = ()
    ) -> dict[str, int]:
        wanted = {source.symbol: source for source in (*sources, *rest)}
        found.update(wanted)
        return dict.fromkeys(wanted, 64)

    driver = importlib.import_module("cenote.kernels.driver")
    driver.driver_abi.cache_clear()
    with (
        mock.patch.object(jit, "addresses", addresses),
        mock.patch.object(jit, "host_target", return_value=target),
        mock.patch.object(jit, "prepare"),
        mock.patch.object(Constants, "packing", return_value=nullcontext()),  # nobody reads them
        mock.patch.object(formulas, "carry_out", return_value=(ASK, None, [])),  # there is no driver
        mock.patch.dict(os.environ, CENOTE_CACHE="off"),
    ):
        found["cenote_call"] = driver.CALL_ON_ARRAYS
        yield found
    driver.driver_abi.cache_clear()


def kernels_of(name: str, content: bytes, target: Target) -> dict[str, KernelSource]:
    """The kernels of a network, given as an ONNX file, on such a machine."""
    with noted(target) as found:
        # One thread: the kernels are nowhere, so nothing may run, not even a worker's end.
        model = cenote.load(content, threads=1)
        for shape in shapes(name):
            model.plan_for({model.inputs[0].name: shape})
    return found


def kernels_of_all(only: Iterable[str]) -> dict[str, dict[str, KernelSource]]:
    """Kernels by level and symbol."""
    wanted: dict[str, dict[str, KernelSource]] = {level: {} for level in LEVEL_NAMES}
    with ProcessPoolExecutor(physical_cores(), mp_context=get_context("spawn")) as pool:
        for name, found in zip(only, pool.map(_kernels_by_level, only), strict=True):
            new = {level: len(found[level].keys() - wanted[level].keys()) for level in LEVEL_NAMES}
            for level in LEVEL_NAMES:
                wanted[level].update(found[level])
            print(
                f"{name}: {', '.join(f'{count} more for {level}' for level, count in new.items())}",
                flush=True,
            )
    return wanted


def _kernels_by_level(name: str) -> dict[str, dict[str, KernelSource]]:
    found: dict[str, dict[str, KernelSource]] = {level: {} for level in LEVEL_NAMES}
    content = network(name)
    for level in LEVEL_NAMES:
        for machine in MACHINES:
            found[level].update(kernels_of(name, content, described(level, machine)))
    return found


def compiled(wanted: dict[str, dict[str, KernelSource]]) -> dict[bytes, bytes]:
    """Object code by the key under which the package looks for it. Raises CodegenError where LLVM refuses a kernel."""
    objects: dict[bytes, bytes] = {}
    for level, sources in wanted.items():
        target = described(level, MACHINES[0])

        def done(symbol: str, code: bytes, target: Target = target) -> None:
            objects[bundle.key(symbol, target)] = code

        left = worker.compile_in_processes(list(sources.values()), target, done)
        if left:
            raise cenote.CodegenError(f"{len(left)} kernels were left: no process could be started")
    return objects


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bundle", description="Compile the kernels of common networks."
    )
    parser.add_argument("--output", type=Path, default=bundle.PATH, help="file (default: inside the package)")
    parser.add_argument("--networks", nargs="*", default=names(), help="networks (default: all)")
    parser.add_argument("--list", action="store_true", help="only list the kernels")
    chosen = parser.parse_args()
    start = time.perf_counter()
    wanted = kernels_of_all(chosen.networks)
    if chosen.list:
        print("\n".join(sorted(f"{level} {symbol}" for level in wanted for symbol in wanted[level])))
        return
    print(f"planned in {time.perf_counter() - start:.0f} s", flush=True)
    objects = compiled(wanted)
    bundle.write(chosen.output, objects)
    size, raw = chosen.output.stat().st_size, sum(map(len, objects.values()))
    took = time.perf_counter() - start
    print(
        f"{chosen.output}: {len(objects)} kernels, {size / 1e6:.1f} MB ({raw / 1e6:.1f} unpacked), {took:.0f} s"
    )
    if size > LARGEST:
        chosen.output.unlink()
        raise SystemExit(
            f"that is too large: the wheel has room for {LARGEST / 1e6:.0f} MB; leave networks out"
        )
