"""What the first run of a new input size costs beside the runs that follow. `python -m bench.new_sizes --help`

Each engine loads a network that takes any size, in a process of its own, and is given seeded sizes, one after another
and turn about: the first run of the size, then more of the same. The largest size is run before all others, so that
what the process grows by afterwards is not the memory of a run but what is kept for each size.

Cenote's cache is a fresh one, which another process has filled before: it has loaded the network and run it at other
sizes (`--prepare`). With `--prepare-same` it has run it at the very sizes that are measured, so that no kernel is
missing; what is kept of plans is then found as well.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.any_size import ANY_SIZE, PIXELS, AnySize, Shape, chosen_networks
from bench.arguments import chosen_engines, output_folder, thread_counts
from bench.engines import MODEL_ENGINES, EngineSpec
from bench.machine import describe, describe_markdown
from bench.process import EngineError, EngineProcess
from bench.report import milliseconds, table
from bench.rounds import in_turn

SEED = 11
OTHER_SEED = 12  # of the sizes that fill the cache
# Two engines that compute in float32, each within 1e-4 of the truth.
TOLERANCE = 2e-4


@dataclass
class Cost:
    """What one engine showed on one network. Times in seconds, one for each size; memory in megabytes."""

    network: str
    threads: int
    engine: str
    failure: str = ""
    first: list[float] = field(default_factory=list)
    steady: list[float] = field(default_factory=list)
    load_seconds: float = 0.0
    growth: float = 0.0
    compiled: int = 0
    error: float = 0.0
    foreign_cores: float = 0.0

    @property
    def beyond(self) -> list[float]:
        """First run - steady time, of each size."""
        return [first - steady for first, steady in zip(self.first, self.steady, strict=True)]

    @property
    def each(self) -> float:
        """Megabytes that the process has grown by for each size."""
        return self.growth / max(1, len(self.first))


class Contender:
    """One engine with one network loaded."""

    def __init__(self, spec: EngineSpec, network: AnySize, threads: int, cache: str) -> None:
        self.cost = Cost(network.name, threads, spec.name)
        self.spec, self.network, self.threads = spec, network, threads
        self.process = EngineProcess(spec, threads, {"CENOTE_CACHE": cache})
        self.answers: list[tuple[np.ndarray, ...]] = []

    def start(self, warm_up: Sequence[np.ndarray]) -> float:
        """Load, and run these inputs, the last of which stays at hand; megabytes of the process after that."""
        self.process.call("start", self.spec, self.threads)
        self.cost.load_seconds = self.process.call("load", self.network, self.threads)
        self.process.call("compiled")
        for x in warm_up:
            self.process.call("first", x)
        memory: float = self.process.call("memory")
        return memory

    def meet(self, x: np.ndarray, seconds: float) -> None:
        """One new size."""
        seen = self.process.call("new_size", x, seconds)
        self.cost.first.append(seen["first"])
        self.cost.steady.append(median(seen["times"]))
        self.cost.foreign_cores = max(self.cost.foreign_cores, seen["foreign_cores"])
        self.answers.append(seen["outputs"])

    def finish(self, before: float) -> None:
        """What the sizes have left behind."""
        self.cost.growth = self.process.call("memory") - before
        self.cost.compiled = self.process.call("compiled")


def arrays(shapes: Sequence[Shape]) -> list[np.ndarray]:
    """Inputs of these shapes."""
    rng = np.random.default_rng(SEED)
    return [rng.standard_normal(shape, np.float32) for shape in shapes]


def measure(
    network: AnySize, specs: Sequence[EngineSpec], threads: int, given: argparse.Namespace, cache: str
) -> list[Cost]:
    """One network with one number of threads: all engines at all sizes, turn about."""
    shapes = network.shapes(given.sizes + 2, given.seed, given.pixels)
    ordered = sorted(shapes, key=lambda shape: (np.prod(shape), shape))
    warm_up = arrays([ordered[-1], ordered[0]])
    measured = arrays([shape for shape in shapes if shape not in (ordered[0], ordered[-1])])
    if any(spec.prepares for spec in specs):
        others = network.shapes(max(1, given.prepare), OTHER_SEED, given.pixels)
        prepare(network, [*warm_up, *(measured if given.prepare_same else arrays(others))], threads, cache)
    contenders: list[Contender] = []
    try:
        for spec in specs:
            contenders.append(Contender(spec, network, threads, cache))
        before: dict[str, float] = {}
        for contender in contenders:
            attempt(contender, lambda one: before.update({one.spec.name: one.start(warm_up)}))
        for number, x in enumerate(measured):
            for contender in in_turn(contenders, number):
                attempt(contender, lambda one, x=x: one.meet(x, given.seconds))
        for contender in contenders:
            attempt(contender, lambda one: one.finish(before[one.spec.name]))
        return judged(network, contenders)
    finally:
        for contender in contenders:
            contender.process.close()


def attempt(contender: Contender, action: Any) -> None:
    """An engine that fails takes no further part."""
    if not contender.cost.failure:
        try:
            action(contender)
        except EngineError as problem:
            contender.cost.failure = str(problem)


def judged(network: AnySize, contenders: Sequence[Contender]) -> list[Cost]:
    """The costs, with the largest error of each engine against the last one's answers."""
    sound = [contender for contender in contenders if not contender.cost.failure]
    for contender in sound[:-1]:
        pairs = zip(contender.answers, sound[-1].answers, strict=True)
        contender.cost.error = max(
            network.error(found, truth) for mine, its in pairs for found, truth in zip(mine, its, strict=True)
        )
    return [contender.cost for contender in contenders]


def prepare(network: AnySize, inputs: Sequence[np.ndarray], threads: int, cache: str) -> None:
    """Fill Cenote's cache, in a process that ends before anything is measured."""
    spec = MODEL_ENGINES["cenote"]
    process = EngineProcess(spec, threads, {"CENOTE_CACHE": cache})
    try:
        process.call("start", spec, threads)
        process.call("load", network, threads)
        for x in inputs:
            process.call("first", x)
    finally:
        process.close()


def row(cost: Cost) -> list[str]:
    """A line of the table."""
    head = [f"{cost.network} T={cost.threads}", cost.engine]
    if cost.failure:
        return [*head, *["-"] * 7]
    beyond = np.percentile(cost.beyond, (50, 95))
    star = "*" if cost.error > TOLERANCE else ""
    return [
        *head,
        *(f"{1e3 * value:.2f}" for value in beyond),
        milliseconds(median(cost.steady)),
        f"{cost.each:.2f}",
        str(cost.compiled),
        f"{cost.error:.1e}{star}",
        f"{cost.foreign_cores:.1f}",
    ]


def markdown(costs: Sequence[Cost], given: argparse.Namespace) -> str:
    """The report."""
    header = [
        "", "engine", "first - steady, ms: median", "95th percentile", "steady, ms: median", "MB kept per size",
        "kernels compiled", "error", "others",
    ]  # fmt: skip
    filled = "the same sizes" if given.prepare_same else f"{given.prepare} other sizes"
    failures = "".join(
        f"\n- {cost.engine} on {cost.network} T={cost.threads}: {cost.failure}"
        for cost in costs
        if cost.failure
    )
    return (
        f"# New sizes\n\n{given.sizes} sizes (seed {given.seed}, at most {given.pixels:,} pixels in a batch), each run "
        f"once and then for {given.seconds:g} s; caches filled by {filled}. Error: largest difference from the last "
        f"engine's answer / its largest value; starred above {TOLERANCE:g}.\n\n"
        f"{table(header, [row(cost) for cost in costs])}{failures}\n{describe_markdown(describe())}"
    )


def write(folder: Path, costs: Sequence[Cost], given: argparse.Namespace) -> None:
    """Both reports; called after every network."""
    (folder / "new_sizes.md").write_text(markdown(costs, given))
    (folder / "new_sizes.json").write_text(json.dumps([asdict(cost) for cost in costs], indent=1) + "\n")


def command_line() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(prog="python -m bench.new_sizes", description=__doc__)
    parser.add_argument(
        "--models", default=",".join(ANY_SIZE), help=f"of {', '.join(ANY_SIZE)} (default: all)"
    )
    parser.add_argument("--engines", default="cenote,onnxruntime", help="default: cenote,onnxruntime")
    parser.add_argument("--threads", default="1", help="thread counts (default: 1)")
    parser.add_argument("--sizes", type=int, default=50, help="how many (default: 50)")
    parser.add_argument("--seed", type=int, default=SEED, help=f"of the sizes (default: {SEED})")
    parser.add_argument(
        "--pixels", type=int, default=PIXELS, help=f"most of batch x height x width (default: {PIXELS})"
    )
    parser.add_argument("--seconds", type=float, default=0.2, help="of runs after the first (default: 0.2)")
    parser.add_argument(
        "--prepare", type=int, default=10, help="other sizes that fill the cache (default: 10)"
    )
    parser.add_argument("--prepare-same", action="store_true", help="the sizes themselves fill the cache")
    parser.add_argument("--output", type=Path, help="folder for the reports (default: bench/.results/TIME)")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = command_line()
    given = parser.parse_args(arguments)
    specs = chosen_engines(parser, given.engines, MODEL_ENGINES)
    networks = chosen_networks(parser, given.models)
    folder = output_folder(given.output)
    costs: list[Cost] = []
    for network in networks:
        for threads in thread_counts(given.threads):
            with tempfile.TemporaryDirectory(prefix="cenote-new-sizes-") as cache:
                costs += measure(network, specs, threads, given, cache)
            for cost in costs[-len(specs) :]:
                print(f"| {' | '.join(row(cost))} |{cost.failure}", flush=True)
            write(folder, costs, given)
    print(f"reports: {folder}")


if __name__ == "__main__":
    main()
