"""How much of two cores a matrix product gets while somebody else uses one of them. `python -m bench.disturbed --help`

A process that never rests, or rests every other slice (`--slice`), is bound to the second of the cores. Use is what the
product gets done, beside what it gets done undisturbed on the share of the cores that the other process leaves:
(quiet time * cores) / (disturbed time * (cores - share of the other process)).
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.operator_cases.products import product

OTHER = (
    "import os, sys, time\n"
    "os.sched_setaffinity(0, {int(sys.argv[1])})\n"
    "rest = float(sys.argv[2])\n"
    "while True:\n"
    "    end = time.perf_counter() + (rest or 1)\n"
    "    while time.perf_counter() < end: pass\n"
    "    time.sleep(rest)\n"
)


def processor_seconds(process: subprocess.Popen[bytes]) -> float:
    """What a process has used of processors so far."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def times(run: Callable[[], Any], seconds: float) -> list[float]:
    """Times of calls for so long."""
    taken, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return taken


def disturbed(run: Callable[[], Any], seconds: float, cpu: int, rest: float) -> tuple[float, float]:
    """Mean time of a call beside the other process, and the share of a core that this one had."""
    other = subprocess.Popen((sys.executable, "-c", OTHER, str(cpu), str(rest)))
    try:
        time.sleep(0.5)
        used, start = processor_seconds(other), time.perf_counter()
        taken = times(run, seconds)
        share = (processor_seconds(other) - used) / (time.perf_counter() - start)
    finally:
        other.kill()
        other.wait()
    return float(np.mean(taken)), share


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=1024, help="of the square matrices (default 1024)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a slice (default 2)")
    parser.add_argument(
        "--rounds", type=int, default=3, help="quiet and disturbed slices of each engine (default 3)"
    )
    parser.add_argument(
        "--slice", type=float, default=0.0, help="seconds the other works and rests; 0: never rests"
    )
    parser.add_argument(
        "--engines", default="cenote,numpy,torch", help="comma-separated (default cenote,numpy,torch)"
    )
    chosen = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, cores)
    case = product("square", (chosen.size, chosen.size), (chosen.size, chosen.size))
    inputs = case.inputs()
    for engine in chosen.engines.split(","):
        run, uses, quiet_times, loaded_times = case.engines[engine](inputs, len(cores)), [], [], []
        run()
        for _ in range(chosen.rounds):
            quiet = float(np.mean(times(run, chosen.seconds)))
            loaded, share = disturbed(run, chosen.seconds, cores[-1], chosen.slice)
            uses.append(quiet * len(cores) / (loaded * (len(cores) - share)))
            quiet_times.append(quiet)
            loaded_times.append(loaded)
        quiet, loaded = median(quiet_times) * 1e3, median(loaded_times) * 1e3
        print(
            f"{engine:12} quiet {quiet:7.2f} ms, disturbed {loaded:7.2f} ms, use of the cores {median(uses):.0%}"
        )


if __name__ == "__main__":
    main()
