"""What `cenote diagnose --apply` predicts, and what it leaves behind: `python -m bench.treatments --help`

planted   of each cause that can be treated, on its planted sample: the predicted gain beside the measured one
models    the networks and real models: diagnosed, treated, written as a plan file; then model and plan, loaded in fresh
          processes, call by call in turns. Ends with exit code 1 where a plan is slower than its model.

Run it on a machine that does nothing else.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.arguments import output_folder, thread_counts
from bench.files import ALL_MODELS, FURTHER_MODELS, MODEL_FOLDER, RECURRENT_MODELS, ModelFiles
from bench.report import table

PROCESSES = 3  # fresh ones, in which model and plan are compared: each has its own places in memory
PAIR_SECONDS = 3.0
SLOWER = 0.01  # of the latency: what a plan may be slower by, as two loads of one model are
TOLERANCE = 0.05  # with which planted samples are treated: what is asked is how well gains are predicted
CLOSE, POINTS = 0.25, 0.02  # how far a prediction may be off: of the measured gain, or of the latency
ASKED = 0.9  # of the intervals that hold what is measured


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.treatments", description=(__doc__ or "").split("\n\n")[1]
    )
    parser.add_argument("what", choices=("planted", "models", "pair"), help="pair: for this program itself")
    parser.add_argument("--causes", default="", help="planted: names (default: all that can be treated)")
    parser.add_argument("--runs", type=int, default=3, help="planted: diagnoses of each sample (default: 3)")
    names = f"{ALL_MODELS},{FURTHER_MODELS},{RECURRENT_MODELS}"
    parser.add_argument(
        "--models", default=names, help=f"names, also of bench.real_models (default: {names})"
    )
    parser.add_argument("--folder", type=Path, default=MODEL_FOLDER, help="where bench.export wrote them")
    parser.add_argument("--threads", type=thread_counts, default=[2], help="models: counts (default: 2)")
    parser.add_argument("--output", type=Path, help="folder for the reports (default: bench/.results/TIME)")
    parser.add_argument("--pair", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.what == "pair":
        print(json.dumps(pair(**arguments.pair)))
        return
    folder = output_folder(arguments.output)
    if arguments.what == "planted":
        planted(folder, [name for name in arguments.causes.split(",") if name], arguments.runs)
    elif not models(folder, arguments.models.split(","), arguments.folder, arguments.threads):
        sys.exit("a plan is slower than the model that it was made from, or there is none")


# ---- predicted and measured ------------------------------------------------------------------------------------------


def planted(folder: Path, names: list[str], runs: int) -> None:
    """A row for each treated finding of each run of each cause, and how many predictions hold."""
    from cenote.diagnosis.registry import CAUSES

    rows: list[dict[str, Any]] = []
    for cause in CAUSES:
        if names and cause.name not in names:
            continue
        for _ in range(runs):
            found = predicted(cause.name)
            rows += found
            for row in found:
                print(_line(row), flush=True)
            if not found:
                break  # nothing can be done about it, or it is not found here
        write_predictions(folder, rows)


def predicted(cause: str) -> list[dict[str, Any]]:
    """The findings of a planted sample that can be treated, each treated alone."""
    from bench.causes import callers, loaded
    from cenote.diagnosis.diagnose import Diagnosis, diagnose
    from cenote.diagnosis.treat import treat
    from cenote.diagnosis.tried import Tried
    from cenote.profile.measure import profile
    from tests.diagnosis.causes import SAMPLES

    sample, rows = SAMPLES[cause].planted(), []
    if sample.recorded:
        return []  # what cannot be brought about here cannot be mended here
    with sample.around():
        model = loaded(sample)
        model.run(sample.inputs)
        with callers(model, sample):
            found = profile(model, sample.inputs, seconds=1.0)
            environment = replace(found.environment, **sample.recorded)
            found = replace(found, environment=environment, steps=tuple(map(sample.told, found.steps)))
            diagnosis = diagnose(model, sample.inputs, between=sample.between, measured=found)
            for finding in diagnosis.findings:
                if not finding.treatments or finding.gain_ms is None:
                    continue
                first = replace(finding, treatments=finding.treatments[:1])
                alone = Diagnosis(replace(diagnosis.profile, findings=(first,)))
                treated, _ = treat(alone, model, sample.inputs, TOLERANCE)
                rows.append(_row(cause, found.wall_ms, first, treated.treatments[0]))
    if sample.callers:  # the others have the treated model, too
        for row, finding in zip(rows, (each for each in diagnosis.findings if each.treatments), strict=True):
            gained = replayed(model, model.changed(**finding.treatments[0]), sample)
            tried = Tried(
                finding.treatments[0], (gained.low, gained.middle, gained.high), 0.0, gained.certain
            )
            row |= _row(cause, found.wall_ms, finding, tried)
    return rows


def replayed(model: Any, other: Any, sample: Any) -> Any:
    """What a call gains where all callers have the other model."""
    from bench.causes import callers
    from cenote.diagnosis.context import Difference

    took: dict[int, list[float]] = {0: [], 1: []}
    for turn in range(10):
        for place in (0, 1) if turn % 2 else (1, 0):
            tried = (model, other)[place]
            with callers(tried, sample):
                for _ in range(20):
                    begin = time.perf_counter()
                    tried.run(sample.inputs)
                    took[place].append((time.perf_counter() - begin) * 1e3)
    return Difference.of(took[0], took[1])


def _row(sample: str, wall: float, finding: Any, tried: Any) -> dict[str, Any]:
    """A prediction, and what came of it."""
    row = {
        "sample": sample, "cause": finding.cause, "latency ms": wall, "predicted ms": list(finding.gain_ms),
        "measured ms": None if tried.gain_ms is None else list(tried.gain_ms), "kept": tried.kept, "why": tried.why,
        "treatment": str(tried.treatment),
    }  # fmt: skip
    if tried.gain_ms is not None:
        low, middle, high = finding.gain_ms
        measured = tried.gain_ms[1]
        row["inside"] = low <= measured <= high
        row["close"] = abs(middle - measured) <= max(CLOSE * abs(measured), POINTS * wall)
    return row


def write_predictions(folder: Path, rows: list[dict[str, Any]]) -> None:
    """The reports so far."""
    (folder / "predictions.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    columns = [
        "sample",
        "cause",
        "latency ms",
        "predicted ms",
        "measured ms",
        "inside",
        "close",
        "kept",
        "why",
    ]
    cells = [[_shown(row.get(name)) for name in columns] for row in rows]
    text = f"# Predicted and measured gains\n\n{table(columns, cells)}\n{verdict(rows)}\n"
    (folder / "predictions.md").write_text(text, encoding="utf-8")
    print(verdict(rows), flush=True)


def verdict(rows: list[dict[str, Any]]) -> str:
    """How many predictions hold."""
    tried = [row for row in rows if "inside" in row]
    if not tried:
        return "no prediction was tried"
    inside, close = (sum(row[name] for row in tried) for name in ("inside", "close"))
    return (
        f"{len(tried)} predictions tried: measured inside the interval {inside / len(tried):.0%} (asked {ASKED:.0%}), "
        f"off by at most {CLOSE:.0%} or {POINTS:.0%} of the latency {close / len(tried):.0%}"
    )


def _line(row: Mapping[str, Any]) -> str:
    predicted, measured = _shown(row["predicted ms"]), _shown(row["measured ms"])
    told = f"predicted {predicted}, measured {measured}"
    return f"{row['sample']:14} {row['cause']:14} {row['latency ms']:8.3g} ms, {told}"


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return " / ".join(f"{each:.3g}" for each in value)
    return f"{value:.3g}" if isinstance(value, float) else str(value)


# ---- networks --------------------------------------------------------------------------------------------------------


def models(folder: Path, names: list[str], files: Path, threads: list[int]) -> bool:
    """A row for each network; whether no plan is slower."""
    rows: list[dict[str, Any]] = []
    predictions: list[dict[str, Any]] = []
    for name in names:
        for count in threads:
            begin = time.perf_counter()
            with network(name, files) as (path, inputs):
                row, found = treated(name, path, inputs, count)
            row["seconds"] = time.perf_counter() - begin
            rows.append(row)
            predictions += found
            print(json.dumps(row), flush=True)
            (folder / "treated.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    columns = [
        "model",
        "threads",
        "latency ms",
        "findings",
        "kept",
        "gain",
        "largest difference",
        "slower",
        "seconds",
    ]
    text = table(columns, [[_shown(row[column]) for column in columns] for row in rows])
    (folder / "treated.md").write_text(
        f"# Networks before and after `cenote diagnose --apply`\n\n{text}", encoding="utf-8"
    )
    print(text)
    write_predictions(folder, predictions)
    return not any(row["slower"] or row["failed"] for row in rows)


@contextmanager
def network(name: str, folder: Path) -> Iterator[tuple[Path, Path]]:
    """A model's file, and one with its inputs."""
    from bench.real_inputs import MODELS, SEED

    with tempfile.TemporaryDirectory() as place:
        files, inputs = ModelFiles(name, folder), Path(place) / "inputs.npz"
        if name in MODELS:
            np.savez(inputs, **MODELS[name].inputs(np.random.default_rng(SEED)))  # type: ignore[arg-type]  # takes allow_pickle for one
            yield MODELS[name].file(folder), inputs
        else:
            np.savez(inputs, x=files.read("x"))
            yield files.onnx, inputs


def treated(name: str, path: Path, inputs: Path, threads: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The row of a network as a user gets it, and its predictions."""
    plan = inputs.with_name("best.cenote")
    command = [sys.executable, "-m", "cenote", "diagnose", str(path), "--input", str(inputs)]
    command += ["--threads", str(threads), "--apply", "-o", str(plan), "--json"]
    answer = subprocess.run(command, capture_output=True, text=True)
    row = {
        "model": name,
        "threads": threads,
        "gain": 0.0,
        "largest difference": 0.0,
        "slower": False,
        "failed": False,
    }
    if answer.returncode:
        said = answer.stderr.strip().splitlines()[-1]
        return row | {"latency ms": None, "findings": f"failed: {said}", "kept": "-", "failed": True}, []
    said = json.loads(answer.stdout)
    kept = [each for each in said["treatments"] if each["kept"]]
    changed = {
        key: value
        for each in kept
        for key, value in each["options"].items()
        if key in ("threads", "denormals")
    }
    row |= {
        "latency ms": said["wall_ms"],
        "foreign cores": said["environment"]["foreign_cores"],
        "findings": ", ".join(f"{each['cause']} {each['share']:.0%}" for each in said["findings"]) or "none",
        "kept": "; ".join(str(each["options"]) for each in kept) or "nothing",
        "tried": said["treatments"],
    }
    if kept:
        before = {"path": str(path), "threads": threads}
        after = {"path": str(plan), "threads": threads, **changed}
        pairs = [fresh(before, after, str(inputs)) for _ in range(PROCESSES)]
        gains = sorted(each["gain"] for each in pairs)
        row |= {
            "gain": statistics.median(gains), "gains": gains,
            "largest difference": max(each["difference"] for each in pairs),
            "slower": statistics.median(gains) < -SLOWER,
        }  # fmt: skip
    return row, _predictions(name, said)


def _predictions(name: str, said: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Predicted gains of findings whose first treatment was measured."""
    from cenote.diagnosis.tried import Tried
    from cenote.profile.data import Profile

    found = Profile.from_dict(said)
    rows, measured = [], {json.dumps(each["options"]): each for each in said["treatments"] if each["gain_ms"]}
    for finding in found.findings:
        first = finding.treatments[0] if finding.treatments else None
        each = measured.get(json.dumps(first)) if first is not None else None
        if first is not None and each is not None and finding.gain_ms is not None:
            tried = Tried(first, tuple(each["gain_ms"]), each["difference"], each["kept"], each["why"])
            rows.append(_row(name, found.wall_ms, finding, tried))
    return rows


def fresh(before: dict[str, Any], after: dict[str, Any], inputs: str) -> dict[str, float]:
    """Model and plan beside each other in a process of their own."""
    given = json.dumps({"before": before, "after": after, "inputs": inputs})
    command = [sys.executable, "-m", "bench.treatments", "pair", "--pair", given]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(answer.stdout)
    return found


def pair(before: dict[str, Any], after: dict[str, Any], inputs: str) -> dict[str, float]:
    """The gain of one load over another, relative, with an interval; the largest difference of their answers."""
    import cenote
    from cenote.diagnosis.context import paired
    from cenote.diagnosis.treat import largest_difference

    with np.load(inputs) as archive:
        arrays = dict(archive)
    first, second = (cenote.load(each.pop("path"), **each) for each in (before, after))
    difference = largest_difference(first.run(arrays), second.run(arrays))
    found = paired(lambda: first.run(arrays), lambda: second.run(arrays), PAIR_SECONDS)
    low, middle, high = (each / found.before_ms for each in (found.low, found.middle, found.high))
    return {"low": low, "gain": middle, "high": high, "difference": difference, "before_ms": found.before_ms}


if __name__ == "__main__":
    main()
