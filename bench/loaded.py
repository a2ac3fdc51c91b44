"""How much a busy machine slows each engine. `python -m bench.loaded --help`

In every other slice as many endless loops as the machine has cores (`--loops`) run beside the engine. A fair share
of the machine would be half of it; an engine whose threads wait for one another by spinning gets much less, because
the one that is waited for may not be running.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean, median

from bench.arguments import chosen_engines, output_folder, shared_parser, thread_counts
from bench.engines import MODEL_ENGINES, EngineSpec
from bench.files import ALL_MODELS, MODEL_FOLDER, ModelFiles, require
from bench.pool_reference import error
from bench.report import milliseconds
from bench.rounds import Contender, Plan, in_turn

LOOP = (sys.executable, "-c", "while True: pass")


@dataclass(frozen=True)
class Slowdown:
    """Medians of one engine on one model, in seconds; `failure` says why there are none."""

    model: str
    threads: int
    engine: str
    quiet: float = float("nan")
    loaded: float = float("nan")
    failure: str = ""

    @property
    def factor(self) -> float:
        """How many times longer a run takes on the loaded machine."""
        return self.loaded / self.quiet


@contextlib.contextmanager
def endless_loops(count: int) -> Iterator[None]:
    """So many processes that never rest."""
    processes = [subprocess.Popen(LOOP) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGKILL)
            process.wait()


def measure(files: ModelFiles, specs: list[EngineSpec], plan: Plan, loops: int) -> list[Slowdown]:
    """One model with one number of threads: a quiet and a loaded slice of every engine in every round."""
    truth, x = files.read("y64"), files.read("x")
    contenders: list[Contender] = []
    try:
        for spec in specs:
            contenders.append(Contender(spec, plan))
            contenders[-1].enter(files, x, lambda found: error(found, (truth,)))
        for number in range(plan.rounds):
            order = in_turn(contenders, number)
            for count in (0, loops):
                with endless_loops(count):
                    for contender in order:
                        contender.finished = False  # every round must have both its slices
                        contender.work()
        return [summary(contender, files.name, plan.threads) for contender in contenders]
    finally:
        for contender in contenders:
            contender.process.close()


def summary(contender: Contender, model: str, threads: int) -> Slowdown:
    """Every other slice was measured beside the loops."""
    name, failure = contender.spec.name, contender.outcome.failure
    if failure:
        return Slowdown(model, threads, name, failure=failure)
    quiet, loaded = (
        median(seconds for sample in contender.samples[start::2] for seconds in sample["times"])
        for start in (0, 1)
    )
    return Slowdown(model, threads, name, quiet, loaded)


def markdown(results: list[Slowdown], loops: int) -> str:
    """A line per model and thread count, and the geometric mean of each engine's factors."""
    engines = list(dict.fromkeys(result.engine for result in results))
    lines = [
        "# A loaded machine\n",
        f"Median ms alone -> beside {loops} endless loops (how many times longer).\n",
        f"|  | T | {' | '.join(engines)} |",
        f"| --- | ---: |{' ---: |' * len(engines)}",
    ]
    for model, threads in dict.fromkeys((result.model, result.threads) for result in results):
        cells = [cell(result) for result in results if (result.model, result.threads) == (model, threads)]
        lines.append(f"| {model} | {threads} | {' | '.join(cells)} |")
    for threads in dict.fromkeys(result.threads for result in results):
        means = []
        for engine in engines:
            factors = [
                result.factor
                for result in results
                if (result.engine, result.threads) == (engine, threads) and not result.failure
            ]
            means.append(f"{geometric_mean(factors):.2f}" if factors else "-")
        lines.append(f"| geometric mean of factors | {threads} | {' | '.join(means)} |")
    failures = [
        f"\n{result.engine} on {result.model}: {result.failure}" for result in results if result.failure
    ]
    return "\n".join(lines + failures) + "\n"


def cell(result: Slowdown) -> str:
    """One engine's part of a line."""
    if result.failure:
        return "-"
    return f"{milliseconds(result.quiet)} -> {milliseconds(result.loaded)} ({result.factor:.2f})"


def main() -> None:
    """Command line."""
    parser = shared_parser("python -m bench.loaded", "Measure engines on a loaded machine.", MODEL_ENGINES)
    parser.set_defaults(engines="cenote,onnxruntime")
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--models", default=ALL_MODELS, help=f"names (default: {ALL_MODELS})")
    parser.add_argument("--folder", type=Path, default=MODEL_FOLDER, help="where bench.export wrote them")
    parser.add_argument("--loops", type=int, default=cores, help=f"endless loops (default: {cores})")
    arguments = parser.parse_args()
    specs = chosen_engines(parser, arguments.engines, MODEL_ENGINES)
    models = [ModelFiles(name, arguments.folder.resolve()) for name in arguments.models.split(",")]
    require(parser, models)
    run(models, specs, arguments)


def run(models: list[ModelFiles], specs: list[EngineSpec], arguments: argparse.Namespace) -> None:
    """Measures everything that was asked for and writes the report after every line."""
    folder = output_folder(arguments.output)
    results: list[Slowdown] = []
    for files in models:
        for threads in thread_counts(arguments.threads):
            plan = Plan(threads, arguments.seconds, arguments.rounds)
            results += measure(files, specs, plan, arguments.loops)
            text = markdown(results, arguments.loops)
            (folder / "loaded.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
