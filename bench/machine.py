"""What the machine is, and how fast it can be at best: `python -m bench.machine`.

The ceilings are those that NumPy (and llvmlite, where it is installed) can reach without a C compiler:
copying and reading at several sizes, single-precision matrix products, a loop of multiply-adds.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.process import environment

KIB = 1024
# Bytes of one array; smaller ones would measure the interpreter.
SIZES = {"128 KiB": 128 * KIB, "2 MiB": 2048 * KIB, "128 MiB": 131072 * KIB}
ISA_FLAGS = (
    "avx",
    "fma",
    "avx2",
    "f16c",
    "avx512f",
    "avx512_bf16",
    "avx512_vnni",
    "amx_tile",
    "asimd",
    "sve",
)
TRIES = 5


def describe() -> dict[str, Any]:
    """Processor, caches, cores, memory, system."""
    lines = [line.partition(":") for line in read("/proc/cpuinfo").splitlines()]
    facts = {key.strip(): value.strip() for key, _, value in lines}
    flags = (facts.get("flags") or facts.get("Features") or "").split()
    memory = read("/proc/meminfo").split()
    return {
        "processor": facts.get("model name") or platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "isa": [flag for flag in ISA_FLAGS if flag in flags],
        "caches": caches(),
        "memory_gib": round(int(memory[1]) / KIB**2, 1) if len(memory) > 1 else None,
        "hypervisor": "hypervisor" in flags,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def read(path: str) -> str:
    """A file of the kernel's, or nothing where there is none."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def caches() -> dict[str, str]:
    """Sizes of the caches that the first core sees."""
    found = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = (read(str(folder / name)).strip() for name in ("level", "type", "size"))
        found[f"L{level} {kind.lower()}"] = size
    return found


def rate(tasks: Sequence[Callable[[], object]], amount: float, repeats: int) -> float:
    """Amount per second, over all tasks together, each on a thread of its own, so many times."""

    def many(task: Callable[[], object]) -> None:
        for _ in range(repeats):
            task()

    best = float("inf")
    with ThreadPoolExecutor(len(tasks)) as pool:
        for _ in range(TRIES):
            begin = time.perf_counter()
            list(pool.map(many, tasks))
            best = min(best, time.perf_counter() - begin)
    return amount * repeats * len(tasks) / best


def ceilings(threads: int) -> dict[str, float]:
    """Best rates seen: GB/s (read + written, counted once each) and GFLOP/s."""
    found = {}
    for label, size in SIZES.items():
        repeats = max(1, 32 * 1024 * KIB // size)
        pairs = [(np.ones(size // 4, np.float32), np.ones(size // 4, np.float32)) for _ in range(threads)]
        copied = rate([partial(np.copyto, *pair) for pair in pairs], 2 * size, repeats)
        found[f"copy {label}, GB/s (read + written)"] = copied / 1e9
        searched = rate([first.max for first, _ in pairs], size, repeats)
        found[f"read {label} (maximum), GB/s"] = searched / 1e9
    found["matrix product 1024, GFLOP/s"] = matrix_product_rate() / 1e9
    found.update(multiply_add_ceiling(threads))
    return found


def matrix_product_rate() -> float:
    """Operations per second of NumPy's sgemm, which takes its thread count from the environment."""
    n = 1024
    a, b = np.ones((n, n), np.float32), np.ones((n, n), np.float32)
    best = float("inf")
    for _ in range(TRIES):
        begin = time.perf_counter()
        a @ b
        best = min(best, time.perf_counter() - begin)
    return 2 * n**3 / best


def multiply_add_ceiling(threads: int) -> dict[str, float]:
    """Peak of the vector units, if llvmlite is there to generate the loop."""
    try:
        from bench.peak import multiply_add_peak
    except ImportError:
        return {}
    with ThreadPoolExecutor(threads) as pool:
        peaks = list(pool.map(lambda _: multiply_add_peak(), range(threads)))
    return {"multiply-adds, GFLOP/s": sum(peaks)}


def survey(thread_counts: list[int]) -> dict[str, Any]:
    """Description and ceilings; each thread count in a process of its own, for the sake of sgemm."""
    machine = describe()
    machine["ceilings"] = {}
    for threads in thread_counts:
        command = [sys.executable, "-m", "bench.machine", "--measure", str(threads)]
        answer = subprocess.run(
            command, env=environment(threads), capture_output=True, text=True, check=False
        )
        measured = json.loads(answer.stdout) if answer.returncode == 0 else {}
        machine["ceilings"][str(threads)] = measured
    return machine


def describe_markdown(machine: dict[str, Any]) -> str:
    """The survey as text and a table."""
    hardware = ", ".join(f"{name} {size}" for name, size in machine["caches"].items())
    narrow = machine.get("narrowed", "")
    virtual = ", virtual machine" if machine["hypervisor"] else ""
    lines = [
        f"{machine['processor']}, {machine['cores']} cores{virtual}; {' '.join(machine['isa'])}; {hardware}; "
        f"{machine['memory_gib']} GiB; {machine['system']}; "
        f"Python {machine['python']}, NumPy {machine['numpy']}"
        f"{narrow and f'; engines took it for a CPU with {narrow} at most (bench.narrow)'}.",
        "",
    ]
    counts = list(machine.get("ceilings", {}))
    if counts:
        lines += [f"| ceiling | {' | '.join(f'T={count}' for count in counts)} |"]
        lines += ["|---|" + "---:|" * len(counts)]
        for name in machine["ceilings"][counts[0]]:
            cells = [machine["ceilings"][count].get(name) for count in counts]
            lines.append(f"| {name} | {' | '.join('-' if c is None else f'{c:.1f}' for c in cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.machine", description="Describe this machine.")
    parser.add_argument("--measure", type=int, metavar="THREADS", help="only the ceilings, as JSON")
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(ceilings(arguments.measure)))
        return
    cores = len(os.sched_getaffinity(0))
    print(describe_markdown(survey(sorted({1, cores}))))


if __name__ == "__main__":
    main()
