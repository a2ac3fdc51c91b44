"""What the first run of a new input size costs beside the runs that follow. `python -m bench.new_sizes --help`

Each engine loads a network that takes any size, in a process of its own, and is given seeded sizes, one after another
and turn about: the first run of the size, then more of the same, and one after a run of another size: this is what the
first one costs where the size is known, by caches and by chance. The largest size is run before all others, so that
what the process grows by afterwards is not the memory of a run but what is kept for each size. Pages of files are
counted apart: the weights of a class of sizes, in Cenote's cache, are mapped, and come in when its first size runs.

Cenote's cache is a fresh one, which another process has filled before: it has loaded the network and run it at other
sizes (`--prepare`). With `--prepare-same` it has run it at the very sizes that are measured, so that no kernel is
missing; what is kept of plans is then found as well.

`--classes` plans five sizes of each network, without compiling or running anything, and prints how many classes of
plans they need and which question of which file parts them; with `--zoo`, of every architecture in a folder.
"""

import argparse
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.any_size import ANY_SIZE, PIXELS, AnySize, Shape, chosen_networks
from bench.arguments import chosen_engines, output_folder, thread_counts
from bench.classes import classes_of, of_zoo, report
from bench.engines import MODEL_ENGINES, EngineSpec
from bench.machine import describe, describe_markdown
from bench.process import EngineError, EngineProcess
from bench.report import milliseconds, table
from bench.rounds import in_turn

SEED = 11
CLASS_SIZES = 5
OTHER_SEED = 12  # of the sizes that fill the cache
# Two engines that compute in float32, each within 1e-4 of the truth.
TOLERANCE = 2e-4


@dataclass
class Cost:
    """What one engine showed on one network. Times in seconds, one for each size in each round; memory in megabytes."""

    network: str
    threads: int
    engine: str
    sizes: int
    failure: str = ""
    first: list[float] = field(default_factory=list)
    steady: list[float] = field(default_factory=list)
    back: list[float] = field(default_factory=list)
    work_beyond: list[float] = field(default_factory=list)
    growth: list[float] = field(default_factory=list)
    mapped: list[float] = field(default_factory=list)
    compiled: int = 0
    error: float = 0.0
    foreign_cores: float = 0.0

    @property
    def beyond(self) -> np.ndarray:
        """First run - steady time, of each size: the median over the rounds."""
        return self.by_size(np.subtract(self.first, self.steady))

    @property
    def back_beyond(self) -> np.ndarray:
        """The same of the run after another size, when the size is known."""
        return self.by_size(np.subtract(self.back, self.steady))

    def by_size(self, values: Sequence[float] | np.ndarray) -> np.ndarray:
        """The median over the rounds for each size."""
        middle: np.ndarray = np.median(np.reshape(values, (-1, self.sizes)), axis=0)
        return middle

    @property
    def each(self) -> float:
        """Megabytes that the process has grown by for each size."""
        return median(self.growth) / self.sizes


class Contender:
    """One engine with one network loaded, in one round."""

    def __init__(self, spec: EngineSpec, network: AnySize, cost: Cost, cache: str) -> None:
        self.spec, self.network, self.cost = spec, network, cost
        self.process = EngineProcess(spec, cost.threads, {"CENOTE_CACHE": cache})
        self.memory = (0.0, 0.0)
        self.answers: list[tuple[np.ndarray, ...]] = []

    def start(self, warm_up: Sequence[np.ndarray]) -> None:
        """Load, and run these inputs, the last of which stays at hand."""
        self.process.call("start", self.spec, self.cost.threads)
        self.process.call("load", self.network, self.cost.threads)
        self.process.call("compiled")
        for x in warm_up:
            self.process.call("first", x)
        self.memory = self.process.call("memory")

    def meet(self, x: np.ndarray, seconds: float) -> None:
        """One new size."""
        seen = self.process.call("new_size", x, seconds)
        self.cost.first.append(seen["first"])
        self.cost.steady.append(median(seen["times"]))
        self.cost.back.append(seen["back"])
        self.cost.work_beyond.append(seen["work_beyond"])
        self.cost.foreign_cores = max(self.cost.foreign_cores, seen["foreign_cores"])
        self.answers.append(seen["outputs"])

    def finish(self) -> None:
        """What the sizes have left behind."""
        own, mapped = self.process.call("memory")
        self.cost.growth.append(own - self.memory[0])
        self.cost.mapped.append(mapped - self.memory[1])
        self.cost.compiled = max(self.cost.compiled, self.process.call("compiled"))


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
    os.mkdir(f"{cache}/prepared", 0o700)
    if any(spec.prepares for spec in specs):
        others = network.shapes(max(1, given.prepare), OTHER_SEED, given.pixels)
        fill = measured if given.prepare_same else arrays(others)[: given.prepare]
        prepare(network, [*warm_up, *fill], threads, f"{cache}/prepared")
    costs = [Cost(network.name, threads, spec.name, given.sizes) for spec in specs]
    for number in range(given.rounds):
        # What a round adds to the cache must not help the next one: the sizes would not be new to it.
        place = f"{cache}/round"
        shutil.copytree(f"{cache}/prepared", place)
        one_round(network, specs, costs, warm_up, measured, given.seconds, place, number)
        shutil.rmtree(place)
    return costs


def one_round(
    network: AnySize, specs: Sequence[EngineSpec], costs: Sequence[Cost], warm_up: Sequence[np.ndarray],
    measured: Sequence[np.ndarray], seconds: float, cache: str, number: int,
) -> None:  # fmt: skip
    """Every size once, in fresh processes, to which every size is new."""
    contenders: list[Contender] = []
    try:
        for spec, cost in zip(specs, costs, strict=True):
            contenders.append(Contender(spec, network, cost, cache))
            attempt(contenders[-1], lambda one: one.start(warm_up))
        for turn, x in enumerate(measured, number):
            for contender in in_turn(contenders, turn):
                attempt(contender, lambda one, x=x: one.meet(x, seconds))
        for contender in contenders:
            attempt(contender, lambda one: one.finish())
        judge(network, contenders)
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


def judge(network: AnySize, contenders: Sequence[Contender]) -> None:
    """The largest error of each engine against the last one's answers."""
    sound = [contender for contender in contenders if not contender.cost.failure]
    for contender in sound[:-1]:
        pairs = zip(contender.answers, sound[-1].answers, strict=True)
        errors = [
            network.error(found, truth) for mine, its in pairs for found, truth in zip(mine, its, strict=True)
        ]
        contender.cost.error = max(contender.cost.error, *errors)


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
        return [*head, *["-"] * 12]
    figures = [
        f"{1e3 * value:.2f}"
        for values in (cost.beyond, cost.back_beyond, cost.by_size(cost.work_beyond))
        for value in np.percentile(values, (50, 95))
    ]
    star = "*" if cost.error > TOLERANCE else ""
    return [
        *head,
        *figures,
        milliseconds(median(cost.steady)),
        f"{cost.each:.2f}",
        f"{median(cost.mapped):.0f}",
        str(cost.compiled),
        f"{cost.error:.1e}{star}",
        f"{cost.foreign_cores:.1f}",
    ]


def markdown(costs: Sequence[Cost], given: argparse.Namespace) -> str:
    """The report."""
    header = [
        "", "engine", "first - steady, ms: median", "95th percentile", "known size - steady: median", "95th percentile",
        "CPU time: median", "95th percentile",
        "steady, ms: median", "MB kept per size", "MB of files in all", "kernels compiled", "error", "others",
    ]  # fmt: skip
    filled = "the same sizes" if given.prepare_same else f"{given.prepare} other sizes"
    failures = "".join(
        f"\n- {cost.engine} on {cost.network} T={cost.threads}: {cost.failure}"
        for cost in costs
        if cost.failure
    )
    return (
        f"# New sizes\n\n{given.sizes} sizes (seed {given.seed}, at most {given.pixels:,} pixels in a batch), each run "
        f"once and then for {given.seconds:g} s; medians over {given.rounds} round(s) in fresh processes; caches "
        f"filled by {filled}. Known size: a later run, after one of another size. CPU time of the first run: the same "
        "difference in processor time of the process, which other processes "
        "disturb less (of all threads; LLVM in worker processes is not in it). Error: largest difference from the last "
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
    parser.add_argument("--rounds", type=int, default=3, help="how often every size is new (default: 3)")
    parser.add_argument(
        "--prepare", type=int, default=10, help="other sizes that fill the cache (default: 10)"
    )
    parser.add_argument("--prepare-same", action="store_true", help="the sizes themselves fill the cache")
    parser.add_argument(
        "--classes",
        action="store_true",
        help="no times: how many classes of plans five sizes need, and who parts them",
    )
    parser.add_argument("--zoo", type=Path, help="with --classes: the folder that bench.zoo.export wrote")
    parser.add_argument("--output", type=Path, help="folder for the reports (default: bench/.results/TIME)")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = command_line()
    given = parser.parse_args(arguments)
    if given.classes and given.zoo:
        print(report(of_zoo(given.zoo, CLASS_SIZES, given.seed)))
        return
    networks = chosen_networks(parser, given.models)
    if given.classes:
        shapes = {each.name: each.shapes(CLASS_SIZES, given.seed, given.pixels) for each in networks}
        print(report(classes_of(each.name, each.onnx, shapes[each.name]) for each in networks))
        return
    specs = chosen_engines(parser, given.engines, MODEL_ENGINES)
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
