"""Every cause, planted in a sample, and its healthy twin: what is diagnosed? `python -m bench.causes --help`

A line per cause says in how many runs the first finding of the planted sample named it, what was found instead, by how
much the plant slows the sample beside its twin, and what the twin was told. Each sample has a process of its own, so
that no thread, cache or affinity is left over from another. By how much a plant slows: its time beside the twin's for
the same work; of what happens between calls or at the start, what calls and loads lose by it. A plant that slows this
machine by less than 5 % is "not reproducible here".
"""

import argparse
import contextlib
import json
import multiprocessing
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import cenote
from bench.arguments import output_folder
from bench.report import table
from cenote.core.load_options import LoadOptions
from cenote.diagnosis.context import Context
from cenote.diagnosis.diagnose import diagnose
from cenote.diagnosis.registry import CAUSES
from cenote.models.loading import load_with
from cenote.profile.data import Profile
from cenote.profile.measure import profile
from tests.diagnosis.causes import SAMPLES
from tests.diagnosis.causes.sample import Sample

LEAST_SLOWDOWN = 0.05
LEAST_SHARE = 0.05
ENOUGH = 0.9  # of the runs in which the first finding names the cause
COLUMNS = [
    "cause",
    "named first",
    "runs",
    "slows by",
    "instead",
    "healthy twin is told",
    "seconds",
    "verdict",
]

TAKEN_AWAY = ("foreign", "throttled", "oversubscribed")  # the causes by which CPUs are
QUIET = {"foreign_cores": 0.0, "steal_cores": 0.0}

Run = dict[str, Any]


def main() -> None:
    arguments = parser().parse_args()
    folder = output_folder(arguments.output)
    wanted = arguments.causes.split(",") if arguments.causes else [cause.name for cause in CAUSES]
    if unknown := sorted(set(wanted) - {cause.name for cause in CAUSES}):
        parser().error(f"no such cause: {', '.join(unknown)}")
    results, begin = list[dict[str, Any]](), time.perf_counter()
    for name in wanted:
        results.append(measured(name, arguments.runs, arguments.seconds, arguments.busy))
        print(" | ".join(_shown(results[-1][column]) for column in COLUMNS), flush=True)
        write(folder, results)
    print(summary(results), f"{time.perf_counter() - begin:.0f} s; {folder}")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    made.add_argument("--causes", default="", help="names, comma-separated (default: all)")
    made.add_argument("--runs", type=int, default=10, help="diagnoses of each sample (default: 10)")
    made.add_argument(
        "--busy", action="store_true", help="the machine is busy with other work: count it as none"
    )
    made.add_argument("--seconds", type=float, default=0.5, help="of each profile (default: 0.5)")
    made.add_argument("--output", type=Path, help="folder for the reports (default: bench/.results/TIME)")
    return made


def measured(name: str, runs: int, seconds: float, busy: bool = False) -> dict[str, Any]:
    """One row of the table."""
    begin = time.perf_counter()
    sick, well = (
        _apart(name, kind, runs, seconds, busy and name != "foreign") for kind in ("planted", "healthy")
    )
    row = row_of(name, sick, well)
    return {**row, "seconds": time.perf_counter() - begin, "verdict": verdict(row)}


def _apart(name: str, kind: str, runs: int, seconds: float, busy: bool) -> list[Run]:
    """Diagnoses of a sample, in a process of their own."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as executor:
        return executor.submit(diagnoses, name, kind, runs, seconds, busy).result()


def diagnoses(name: str, kind: str, runs: int, seconds: float, busy: bool) -> list[Run]:
    """What so many diagnoses of a cause's sample find."""
    sample: Sample = getattr(SAMPLES[name], kind)()
    with sample.around():
        loads = []
        for _ in range(2):  # the first fills the cache, if there is one
            begin = time.perf_counter()
            model = loaded(sample)
            model.run(sample.inputs)
            loads.append((time.perf_counter() - begin) * 1e3)
        common = {"work": sample.work, "loads ms": loads, "lost between calls": lost_between(model, sample)}
        with callers(model, sample):
            return [{**common, **look(model, sample, seconds, busy)} for _ in range(runs)]


def lost_between(model: cenote.Model, sample: Sample) -> float | None:
    """What a call takes longer after what the program does in between, beside one that follows another at once."""
    if sample.between is None:
        return None
    context = Context(
        model, sample.inputs, profile(model, sample.inputs, seconds=0.1), between=sample.between
    )
    found = context.gain_hot()
    assert found is not None
    return found.middle / (found.before_ms - found.middle)


def look(model: cenote.Model, sample: Sample, seconds: float, busy: bool) -> Run:
    """One diagnosis of a sample. `busy`: what others do is not told to the rules."""
    found = profile(model, sample.inputs, seconds=seconds)
    recorded = {} if found.environment.throttled_periods else sample.recorded
    found = told(found, sample, {**(QUIET if busy else {}), **recorded})
    findings = diagnose(model, sample.inputs, between=sample.between, measured=found).findings
    return {
        "findings": [(each.cause, each.share, each.gain_ms, each.evidence) for each in findings],
        "wall ms": found.wall_ms,
        "call ms": found.environment.seconds * 1e3 / (2 * found.calls),  # ordinary and recorded ones
        "recorded": bool(recorded),
    }


def told(found: Profile, sample: Sample, environment: Mapping[str, Any]) -> Profile:
    """The profile as the rules see it."""
    steps = tuple(map(sample.told, found.steps))
    return replace(found, environment=replace(found.environment, **environment), steps=steps)


def loaded(sample: Sample) -> cenote.Model:
    """The sample's model under its options."""
    return load_with(sample.model.SerializeToString(), LoadOptions(**sample.options))


@contextlib.contextmanager
def callers(model: cenote.Model, sample: Sample) -> Iterator[None]:
    """Others that call the model meanwhile."""
    done = threading.Event()

    def call() -> None:
        while not done.is_set():
            model.run(sample.inputs)

    threads = [threading.Thread(target=call) for _ in range(sample.callers)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()


def row_of(name: str, sick: Sequence[Run], well: Sequence[Run]) -> dict[str, Any]:
    """What the runs of a cause's samples say."""
    first = [run["findings"][0][0] if run["findings"] else "nothing" for run in sick]
    named = [each for run in sick for each in run["findings"] if each[0] == name]
    gains = [each[2] for each in named if each[2]]
    alarms = [[each[0] for each in run["findings"] if each[1] >= LEAST_SHARE] for run in well]
    return {
        "cause": name,
        "runs": len(sick),
        "named first": first.count(name),
        "instead": sorted(set(first) - {name}),
        "slows by": slowdown(name, sick, well),
        "recorded": any(run["recorded"] for run in sick),
        "false alarms": sum(map(bool, alarms)),
        "healthy twin is told": sorted({each for run in alarms for each in run}),
        "planted ms": median(run["wall ms"] for run in sick),
        "healthy ms": median(run["wall ms"] for run in well),
        "predicted gain ms": [median(each[i] for each in gains) for i in range(3)] if gains else None,
        "evidence": named[0][3] if named else "",
    }


def slowdown(name: str, sick: Sequence[Run], well: Sequence[Run]) -> float:
    """The part by which the planted sample takes longer than its twin does for the same work."""
    lost = [run["lost between calls"] for run in sick if run["lost between calls"] is not None]
    if lost:
        return median(lost)
    if name == "start":
        return float(sick[0]["loads ms"][0] / well[0]["loads ms"][1]) - 1
    # Others and a quota take a CPU away for long whiles, which the middle of the calls does not show.
    took = [
        median(run["call ms" if name in TAKEN_AWAY else "wall ms"] / run["work"] for run in runs)
        for runs in (sick, well)
    ]
    return took[0] / took[1] - 1


def verdict(row: Mapping[str, Any]) -> str:
    """What a row says of the promise: named first in nine of ten runs, nothing of 5 % said of the healthy twin."""
    if row["slows by"] < LEAST_SLOWDOWN and not row["recorded"]:
        return f"not reproducible here: the plant slows by {row['slows by']:.1%}"
    problems = []
    if row["named first"] < ENOUGH * row["runs"]:
        problems.append(f"named first in {row['named first']} of {row['runs']} runs")
    if row["false alarms"]:
        problems.append(f"the healthy twin was told something in {row['false alarms']} of {row['runs']} runs")
    if problems:
        return f"FAILED: {', '.join(problems)}"
    return "holds: of a recorded environment" if row["recorded"] else "holds"


def summary(results: Sequence[Mapping[str, Any]]) -> str:
    """All rows in one."""
    said = [str(row["verdict"]).partition(":")[0] for row in results]
    return (
        ", ".join(f"{said.count(each)} {each}" for each in sorted(set(said))) + f" of {len(results)} causes;"
    )


def write(folder: Path, results: list[dict[str, Any]]) -> None:
    """The reports, as far as they are."""
    (folder / "causes.json").write_text(json.dumps(results, indent=1), encoding="utf-8")
    rows = [[_shown(each[name]) for name in COLUMNS] for each in results]
    (folder / "causes.md").write_text("# Causes\n\n" + table(COLUMNS, rows) + "\n", encoding="utf-8")


def _shown(value: Any) -> str:
    return (
        f"{value:.3g}"
        if isinstance(value, float)
        else ", ".join(value)
        if isinstance(value, list)
        else str(value)
    )


if __name__ == "__main__":
    main()
