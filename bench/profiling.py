"""Whether profiles can be trusted: `python -m bench.profiling --help`. Run it on a machine that does nothing else.

closure   per network and number of threads: accounts beside the latency of ordinary calls, recorded calls beside
          ordinary ones, the step that comes nearest to its roof (2 minutes)
hook      the hook while it is off: this checkout beside a copy of it without the hook, or beside another one
          (--before), in turns (6 minutes)
roofs     the roofs, measured several times: how far they differ (half a minute)
compare   profiles of one network beside each other: false alarms, and planted changes of 5 % (a minute per network)

Each line that stands for a promise ends with "holds" or "FAILED"; the last line counts them.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.arguments import thread_counts
from bench.files import ALL_MODELS, MODEL_FOLDER, ModelFiles

CLOSES, RECORDING, RECORDING_SHORT, SHORT_MS = 0.02, 0.01, 0.03, 1.0
HOOK, ROOFS_REPEAT, ABOVE_ROOF, FOUND = 0.003, 0.03, 0.02, 0.95
PAIRS = 9  # turns of two checkouts
FEW_MODELS = "lenet5,mobilenet_v2,googlenet,resnet50"  # on which the hook is measured
SECONDS = 1.5  # of a process that measures


def profile_of(name: str, folder: Path, threads: int, seconds: float) -> Any:
    """A profile of a network, on the inputs that belong to it."""
    import cenote

    files = ModelFiles(name, folder)
    model = cenote.load(files.onnx, threads=threads)
    return model.profile(files.read("x"), seconds=seconds)


def closures(names: list[str], folder: Path, threads: list[int], seconds: float) -> Iterator[dict[str, Any]]:
    """Per network and number of threads: latency, accounts, closure, overhead, the step nearest to its roof."""
    for name in names:
        for count in threads:
            begin = time.perf_counter()
            found = profile_of(name, folder, count, seconds)
            nearest = max(found.steps, key=lambda step: step.roof_share or 0.0)
            yield {
                "network": name, "threads": count, "wall_ms": found.wall_ms, "closure": found.closure,
                "overhead": found.recorded_ms / found.wall_ms - 1, "spread": found.spread,
                "accounts": found.to_dict()["accounts"], "foreign_cores": found.environment.foreign_cores,
                "nearest": [nearest.title, nearest.algorithm, nearest.bound, nearest.roof_share],
                "seconds": time.perf_counter() - begin,
            }  # fmt: skip


class Verdicts:
    """Says of promises whether they hold."""

    def __init__(self) -> None:
        self.held = self.failed = 0

    def of(self, holds: bool) -> str:
        """The word for it, counted."""
        self.held, self.failed = self.held + holds, self.failed + (not holds)
        return "holds" if holds else "FAILED"

    def __str__(self) -> str:
        return f"{self.held} hold, {self.failed} FAILED"


def closure(names: list[str], folder: Path, threads: list[int], seconds: float, verdicts: Verdicts) -> None:
    """Print what profiles say of themselves."""
    print(f"{'network':18} T  {'wall ms':>9} closure overhead  spread  nearest to its roof")
    for row in closures(names, folder, threads, seconds):
        title, algorithm, bound, share = row["nearest"]
        allowed = RECORDING if row["wall_ms"] >= SHORT_MS else RECORDING_SHORT
        words = (
            f"{row['closure']:6.2%} {verdicts.of(row['closure'] <= CLOSES)}, "
            f"{row['overhead']:+7.2%} {verdicts.of(row['overhead'] <= allowed)}, {row['spread']:6.2%}, "
            f"{share or 0:.0%} of {bound} {verdicts.of((share or 0) <= 1 + ABOVE_ROOF)}: {title} ({algorithm})"
        )
        others = f"; others kept {row['foreign_cores'] or 0:.1f} cores busy" * (
            (row["foreign_cores"] or 0) > 0.1
        )
        print(f"{row['network']:18} {row['threads']}  {row['wall_ms']:9.4f} {words}{others}", flush=True)


_LATENCY = """
import json, sys, time
import numpy as np
import cenote
path, inputs, threads, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
model = cenote.load(path, threads=threads)
x = np.load(inputs)["x"]
times, end = [], time.perf_counter() + seconds
while time.perf_counter() < end:
    begin = time.perf_counter_ns()
    model(x)
    times.append(time.perf_counter_ns() - begin)
times.sort()
print(json.dumps([times[0], times[len(times) // 10], times[len(times) // 2]]))
"""


_WITHOUT_HOOK = """

def note(f, *_):
    return f.integer(0)


def log_of(f, *_):
    return f.null()


ticks_if = note
"""


def without_hook(checkout: Path, folder: Path) -> Path:
    """A copy of a checkout's package whose driver notes nothing."""
    shutil.copytree(checkout / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    notes = folder / "src" / "cenote" / "kernels" / "driver" / "notes.py"
    notes.write_text(notes.read_text(encoding="utf-8") + _WITHOUT_HOOK, encoding="utf-8")
    return folder


def hook(names: list[str], folder: Path, threads: list[int], before: Path | None, verdicts: Verdicts) -> None:
    """The hook while it is off: processes in turns, with it and without; least and median latencies."""
    here = Path(__file__).resolve().parents[1]
    middles = []
    with tempfile.TemporaryDirectory() as room:
        other = before or without_hook(here, Path(room))
        for name in names:
            for count in threads:
                for checkout in (here, other):
                    latency(name, folder, count, checkout)  # compiles what has to be
                ratios: list[list[float]] = []
                for turn in range(PAIRS):
                    order = (here, other) if turn % 2 else (other, here)
                    found = {checkout: latency(name, folder, count, checkout) for checkout in order}
                    ratios.append([a / b - 1 for a, b in zip(found[here], found[other], strict=True)])
                least, low, middle = (statistics.median(column) for column in zip(*ratios, strict=True))
                middles.append(low)
                print(
                    f"{name:18} {count}  least {least:+.2%}  tenth percentile {low:+.2%}  median {middle:+.2%}",
                    flush=True,
                )
    middle = statistics.median(middles)
    print(f"tenth percentiles, median of all lines: {middle:+.2%} {verdicts.of(middle <= HOOK)}")


def latency(name: str, folder: Path, threads: int, checkout: Path) -> list[float]:
    """Least, tenth percentile and median nanoseconds of a call, in a process of its own."""
    files = ModelFiles(name, folder)
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    command = [sys.executable, "-c", _LATENCY, str(files.onnx), str(files.arrays), str(threads), str(SECONDS)]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: list[float] = json.loads(answer.stdout)
    return found


def repeat_roofs(threads: int, times: int, verdicts: Verdicts) -> None:
    """Measure the roofs several times."""
    from cenote.profile.measure_roofs import roofs

    found = [roofs(threads, fresh=True) for _ in range(times)]
    figures: dict[str, list[float]] = {}
    for each in found:
        figures.setdefault("clock GHz", []).append(each.clock_ghz.value)
        figures.setdefault("page fault us", []).append(each.page_fault_us.value)
        for one in each.compute:
            figures.setdefault(f"{one.dtype} T={one.threads} Gop/s", []).append(one.gigaops.value)
        for level in each.bandwidth:
            figures.setdefault(f"{level.level} T={level.threads} read GB/s", []).append(level.read.value)
            figures.setdefault(f"{level.level} T={level.threads} copy GB/s", []).append(level.copy.value)
        for barrier in each.barriers:
            figures.setdefault(f"barrier T={barrier.threads} us", []).append(barrier.us.value)
    for name, values in figures.items():
        middle = statistics.median(values)
        away = max(abs(value - middle) for value in values) / middle
        print(
            f"{name:28} {middle:9.3f}   at most {away:.1%} off the median of {times}: "
            f"{verdicts.of(away <= ROOFS_REPEAT)}"
        )
    print(f"measured in {statistics.median(each.seconds for each in found):.2f} s")


def comparisons(
    name: str, folder: Path, threads: int, seconds: float, count: int, verdicts: Verdicts
) -> None:
    """Profiles of one network in processes of their own: false alarms, and planted changes that are found."""
    from dataclasses import replace

    from cenote.profile.comparison import compare_profiles
    from cenote.profile.data import Profile

    code = (
        "import json, sys; from pathlib import Path; from bench.profiling import profile_of; "
        "print(json.dumps(profile_of(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])).to_dict()))"
    )
    command = [sys.executable, "-c", code, name, str(folder), str(threads), str(seconds)]
    profiles = [
        Profile.from_dict(
            json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        )
        for _ in range(count)
    ]
    pairs = [(a, b) for index, a in enumerate(profiles) for b in profiles[index + 1 :]][:100]
    alarms = sum(bool(compare_profiles(a, b).changes) for a, b in pairs)
    said = verdicts.of(alarms <= 0.01 * len(pairs))
    print(f"{name}: {alarms} false alarms in {len(pairs)} comparisons of {count} profiles: {said}")
    found = planted = 0
    for a, b in pairs:
        for step in [each for each in b.steps if each.share > 0.02]:
            slow = replace(step, blocks_ms=tuple(1.05 * value for value in step.blocks_ms))
            steps = tuple(slow if each is step else each for each in b.steps)
            changes = compare_profiles(a, replace(b, steps=steps)).changes
            found, planted = found + any(each.indices[1] == step.index for each in changes), planted + 1
    said = verdicts.of(found >= FOUND * planted)
    print(
        f"{name}: {found} of {planted} planted changes of 5 % found (steps of 2 % of the time or more): {said}"
    )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.profiling", description="Whether profiles can be trusted."
    )
    parser.add_argument("what", choices=("closure", "hook", "roofs", "compare"))
    parser.add_argument("--models", help=f"names (default: {ALL_MODELS}; hook: {FEW_MODELS})")
    parser.add_argument("--folder", type=Path, default=MODEL_FOLDER, help="where bench.export wrote them")
    parser.add_argument("--threads", default="1,2", help="numbers of threads (default: 1,2)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each profile (default: 2)")
    parser.add_argument("--before", type=Path, help="hook: another checkout to compare with")
    parser.add_argument("--times", type=int, default=15, help="roofs: how often; compare: how many profiles")
    arguments = parser.parse_args()
    usual = FEW_MODELS if arguments.what == "hook" else ALL_MODELS
    names, threads = (arguments.models or usual).split(","), thread_counts(arguments.threads)
    folder, verdicts = arguments.folder.resolve(), Verdicts()
    if arguments.what == "closure":
        closure(names, folder, threads, arguments.seconds, verdicts)
    elif arguments.what == "hook":
        hook(names, folder, threads, arguments.before and arguments.before.resolve(), verdicts)
    elif arguments.what == "roofs":
        repeat_roofs(max(threads), arguments.times, verdicts)
    else:
        for name in names:
            comparisons(name, folder, max(threads), arguments.seconds, arguments.times, verdicts)
    print(verdicts)


if __name__ == "__main__":
    main()
