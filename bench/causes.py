"""Every cause, planted in a sample, and its healthy twin: what is diagnosed? `python -m bench.causes --help`

Of each cause the table says in how many runs the first finding of the planted sample named it, by how much the plant
slows the sample beside its twin, what was predicted and measured where the finding can be treated, and what the
healthy twin was told. A plant that slows this machine by less than 5 % is "not reproducible here".
"""

import argparse
import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import cenote
from bench.arguments import output_folder
from bench.report import table
from cenote.diagnosis.cause import Cause, Sample
from cenote.diagnosis.diagnose import Diagnosis, diagnose
from cenote.diagnosis.registry import CAUSES
from cenote.loading import load_treated
from cenote.profile.measure import profile

LEAST_SLOWDOWN = 0.05
LEAST_SHARE = 0.05


def main() -> None:
    arguments = parser().parse_args()
    folder = output_folder(arguments.output)
    chosen = [each for each in CAUSES if not arguments.causes or each.name in arguments.causes.split(",")]
    results = []
    for cause in chosen:
        results.append(measured(cause, arguments.runs, arguments.seconds, arguments.busy))
        print(json.dumps(results[-1]), flush=True)
        write(folder, results)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    made.add_argument("--causes", default="", help="names (default: all)")
    made.add_argument("--runs", type=int, default=10, help="diagnoses of each sample (default: 10)")
    made.add_argument(
        "--busy", action="store_true", help="the machine is busy with other work: count it as none"
    )
    made.add_argument("--seconds", type=float, default=1.0, help="of each profile (default: 1)")
    made.add_argument("--output", type=Path, help="folder for the reports (default: bench/.results/TIME)")
    return made


def measured(cause: Cause, runs: int, seconds: float, busy: bool = False) -> dict[str, Any]:
    """One row of the table."""
    busy = busy and cause.name != "foreign"
    sick = [look(cause.planted(), seconds, busy) for _ in range(runs)]
    well = [look(cause.healthy(), seconds, busy) for _ in range(runs)]
    first = [each.findings[0].cause if each.findings else "" for each in sick]
    found = [finding for each in sick for finding in each.findings if finding.cause == cause.name]
    alarms = [
        finding.cause for each in well for finding in each.findings
        if finding.share >= LEAST_SHARE and finding.cause == cause.name
    ]  # fmt: skip
    others = {f.cause for each in well for f in each.findings if f.share >= LEAST_SHARE}
    gains = [finding.gain_ms for finding in found if finding.gain_ms]
    return {
        "cause": cause.name,
        "named first": first.count(cause.name),
        "named": len(found),
        "runs": runs,
        "instead": sorted({each for each in first if each != cause.name}),
        "planted ms": median(each.profile.wall_ms for each in sick),
        "healthy ms": median(each.profile.wall_ms for each in well),
        "predicted gain ms": [median(each[i] for each in gains) for i in range(3)] if gains else None,
        "false alarms": len(alarms),
        "healthy twin is told": sorted(others),
        "evidence": found[0].evidence if found else "",
    }


def look(sample: Sample, seconds: float, busy: bool) -> Diagnosis:
    """One diagnosis of a sample, in a model of its own. `busy`: what others do is not told to the rules."""
    recorded = {**({"foreign_cores": 0.0, "steal_cores": 0.0} if busy else {}), **sample.recorded}
    with sample.around():
        model = loaded(sample)
        model.run(sample.inputs)
        with callers(model, sample):
            found = profile(model, sample.inputs, seconds=seconds)
            found = replace(found, environment=replace(found.environment, **recorded))
            found = replace(found, steps=tuple(sample.told(step) for step in found.steps))
            return diagnose(
                model, sample.inputs, changed=model._changed, between=sample.between, measured=found
            )


def loaded(sample: Sample) -> cenote.Model:
    """The sample's model under its options."""
    return load_treated(sample.model.SerializeToString(), **sample.options)


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


def write(folder: Path, results: list[dict[str, Any]]) -> None:
    """The reports, as far as they are."""
    (folder / "causes.json").write_text(json.dumps(results, indent=1), encoding="utf-8")
    columns = ["cause", "named first", "named", "runs", "instead", "planted ms", "healthy ms", "false alarms"]
    rows = [[_shown(each[name]) for name in columns] for each in results]
    (folder / "causes.md").write_text("# Causes\n\n" + table(columns, rows) + "\n", encoding="utf-8")


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
