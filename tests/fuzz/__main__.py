"""python -m tests.fuzz [--kind KIND ...] [--minutes N] [--cases N] [--seed N] [--jobs N] [--full]

Runs random cases and reports what must not happen: crashes, hangs, exceptions that are not Cenote's, wrong answers,
leaks. Each has a kind and a seed; `--kind KIND --seed SEED --cases 1` runs it again. The status is 1 when there is any.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

# Kinds by name: where they are, cases of a full run, and their share of the time of a bounded one.
KINDS = {
    "models": ("tests.fuzz.models", 200_000, 0.4),
    "functional": ("tests.fuzz.functional", 100_000, 0.25),
    "graphs": ("tests.fuzz.graphs.kind", 20_000, 0.2),
    "sizes": ("tests.fuzz.sizes.kind", 50_000, 0.2),
    "quantized": ("tests.fuzz.quantized.kind", 20_000, 0.2),
    "exports": ("tests.fuzz.exports", 5_000, 0.1),
    "calls": ("tests.fuzz.calls", 50_000, 0.1),
    "plans": ("tests.fuzz.plans", 20_000, 0.15),
    "callers": ("tests.fuzz.callers", 500, 0.05),
    "kills": ("tests.fuzz.kills", 500, 0.05),
    "forks": ("tests.fuzz.forks", 200, 0.05),
    "failures": ("tests.fuzz.failures", 2_000, 0.05),
}
REGRESSIONS = Path(__file__).parent / "regressions.txt"
_UNBOUNDED = 1 << 60


def regressions() -> dict[str, list[int]]:
    """Seeds by kind that once found something."""
    found: dict[str, list[int]] = {}
    for line in REGRESSIONS.read_text(encoding="utf-8").splitlines():
        kind, *seeds = line.partition("#")[0].split() or [""]
        if kind:
            found.setdefault(kind, []).extend(map(int, seeds))
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--kind", action="append", choices=KINDS, help="one or several; all by default")
    parser.add_argument("--minutes", type=float, help="how long, all kinds together")
    parser.add_argument("--cases", type=int, help="how many of each kind")
    parser.add_argument("--seed", type=int, help="the first seed; by default one that depends on the time")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="worker processes")
    parser.add_argument("--full", action="store_true", help="as many cases of each kind as a release wants")
    parser.add_argument("--regressions", action="store_true", help="the seeds that once found something")
    parser.add_argument("--cache", help="folder that keeps compiled kernels from run to run")
    return parser.parse_args()


def environment(folder: Path, cache: str | None) -> None:
    """A cache and a place for temporary files of the run's own; libraries on one thread, for forks are many."""
    os.environ.update(
        CENOTE_CACHE=cache or str(folder / "cache"), CENOTE_PLAN_CACHE="0", TMPDIR=str(folder), HOME=str(folder),
        OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore",
    )  # fmt: skip


def main() -> int:
    options = arguments()
    kinds = options.kind or list(KINDS)
    first = int(time.time()) * 1000 if options.seed is None else options.seed
    with TemporaryDirectory(prefix="cenote-fuzz-") as folder:
        environment(Path(folder), options.cache)
        if options.regressions:
            known = regressions()
            work = [(kind, known[kind], 1e9) for kind in kinds if kind in known]
        else:
            whole = sum(KINDS[kind][2] for kind in kinds)
            work = []
            for kind in kinds:
                cases = KINDS[kind][1] if options.full else options.cases or _UNBOUNDED
                seconds = 60 * options.minutes * KINDS[kind][2] / whole if options.minutes else 1e9
                work.append((kind, range(first, first + cases), seconds))
        return sum(report(*each, options.jobs) for each in work) and 1


def report(kind: str, seeds: Sequence[int], seconds: float, jobs: int) -> int:
    """Run cases of one kind and print what came out: how many findings."""
    from tests.fuzz import driver

    started = time.monotonic()
    made = driver.run(import_module(KINDS[kind][0]).KIND, seeds, seconds, min(jobs, len(seeds)))
    outcomes = ", ".join(f"{count} {name}" for name, count in made.outcomes.most_common())
    spent = time.monotonic() - started
    print(f"{kind}: {made.cases} cases from seed {seeds[0]} in {spent:.0f} s: {outcomes}", flush=True)
    return len(made.findings)


if __name__ == "__main__":
    sys.exit(main())
