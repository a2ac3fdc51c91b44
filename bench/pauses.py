"""Calls after a pause, as requests come: the first ones, and those that follow. `python -m bench.pauses --help`

A loop of calls shows an engine at its best: caches are warm, its threads awake and spread over the cores. A server
calls once in a while. Here each engine rests for 5, 40 and 200 ms, then makes a burst of calls that are timed one by
one; between the rests it runs in a loop, as in the other benchmarks. `--loops 2` does all of it beside as many endless
loops.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np

from bench.arguments import chosen_engines, output_folder, shared_parser, thread_counts
from bench.cases import INPUT_SEED, POOL_CASES, PoolCase
from bench.engines import MODEL_ENGINES, POOL_ENGINES, EngineSpec
from bench.files import MODEL_FOLDER, ModelFiles, require
from bench.loaded import endless_loops
from bench.machine import describe, describe_markdown
from bench.pool_reference import error, reference
from bench.process import EngineError
from bench.report import milliseconds, table
from bench.rounds import Contender, Plan, in_turn
from bench.verdict import TOLERANCE

MODELS = "lenet5,squeezenet1_1,mobilenet_v2,resnet18"
CASES = "max k3 s2 p1 1x64x112x112,max k5 s1 p2 1x512x20x20,max k2 s2 p0 1x64x224x224"
CALLS = 20


@dataclass
class Pauses:
    """What one engine did on one piece of work. Seconds; `bursts` has a list of calls for each pause's every burst."""

    work: str
    threads: int
    engine: str
    loop: list[float] = field(default_factory=list)
    bursts: dict[float, list[list[float]]] = field(default_factory=dict)
    foreign_cores: float = 0.0
    wrong: bool = False
    failure: str = ""

    def call(self, pause: float, first: int, last: int | None = None, *, at: float = 50) -> float:
        """The median (or another percentile) over bursts of the calls first..last, counted from 1; all to the end
        where `last` is None: of each burst their median."""
        rows = self.bursts[pause]
        return float(np.percentile([median(row[first - 1 : last]) for row in rows], at))

    def steady(self, at: float = 50) -> float:
        """The time of a call in a loop."""
        return float(np.percentile(self.loop, at))


@dataclass(frozen=True)
class Rests:
    """How an engine rests: seconds of each kind of pause, bursts after each in a round, calls of a burst."""

    pauses: tuple[float, ...] = (0.005, 0.04, 0.2)
    bursts: int = 6
    calls: int = CALLS


Job = tuple[str, Any, np.ndarray, Any, list[EngineSpec]]
"""What is measured: its name, the work, its input, what judges the outputs, and the engines."""


def measure(
    name: str,
    work: Any,
    x: np.ndarray,
    judge: Any,
    specs: list[EngineSpec],
    plan: Plan,
    rests: Rests,
    loops: int,
) -> list[Pauses]:
    """One piece of work with one number of threads: in every round each engine's loop, then its pauses."""
    contenders: list[Contender] = []
    results = [Pauses(name, plan.threads, spec.name) for spec in specs]
    try:
        for spec in specs:
            contenders.append(Contender(spec, plan))
            contenders[-1].enter(work, x, judge)
        with endless_loops(loops):
            for number in range(plan.rounds):
                for contender in in_turn(contenders, number):
                    contender.finished = False  # every round must have both its parts
                    contender.work()
                    rest(contender, results[contenders.index(contender)], rests)
        for contender, result in zip(contenders, results, strict=True):
            conclude(contender, result)
        return results
    finally:
        for contender in contenders:
            contender.process.close()


def rest(contender: Contender, result: Pauses, rests: Rests) -> None:
    """The bursts of one round."""
    for pause in rests.pauses:
        if contender.outcome.failure:
            return
        try:
            rows, same = contender.process.call("after_pauses", pause, rests.bursts, rests.calls)
        except EngineError as problem:
            contender.fail(problem)
            return
        result.bursts.setdefault(pause, []).extend(rows)
        result.wrong |= not same


def conclude(contender: Contender, result: Pauses) -> None:
    """What the contender has to say at the end."""
    outcome = contender.leave()
    result.failure = outcome.failure
    result.loop = [seconds for sample in contender.samples for seconds in sample["times"]]
    result.foreign_cores = outcome.foreign_cores
    result.wrong |= not outcome.error <= TOLERANCE


def cells(result: Pauses, pause: float) -> list[str]:
    """One line: the loop, then calls after the pause, medians and lower quartiles; the third and later ones beside the
    loop."""

    def times(*calls: int) -> str:
        both = (result.call(pause, *calls, at=at) if calls else result.steady(at) for at in (50, 25))
        return "{} ({})".format(*map(milliseconds, both))

    def ratio(*calls: int) -> str:
        both = (result.call(pause, *calls, at=at) / result.steady(at) for at in (50, 25))
        return "{:.2f} ({:.2f})".format(*both)

    mark = "*" if result.wrong else ""
    return [
        result.work,
        str(result.threads),
        f"{pause * 1e3:g}",
        result.engine + mark,
        times(),
        *(times(place, place) for place in (1, 2, 3)),
        times(3),
        ratio(3, 3),
        ratio(3),
        f"{result.foreign_cores:.1f}",
    ]


def summary(results: list[Pauses]) -> Iterator[str]:
    """For each engine and pause: geometric means over all work."""
    good = [result for result in results if not result.failure and not result.wrong]
    for engine in dict.fromkeys(result.engine for result in good):
        mine = [result for result in good if result.engine == engine]
        for pause in mine[0].bursts:
            first, third, later = (
                geometric_mean(result.call(pause, *calls) / result.steady() for result in mine)
                for calls in ((1, 1), (3, 3), (3,))
            )
            yield (
                f"- {engine} after {pause * 1e3:g} ms, beside its loop: first call {first:.2f} times as long, third "
                f"{third:.2f}, third and later {later:.2f}"
            )


def markdown(results: list[Pauses], loops: int, machine: dict[str, Any]) -> str:
    """The report."""
    header = ["", "T", "pause, ms", "engine", "loop", "first", "second", "third", "third and later"]
    header += ["third / loop", "later / loop", "others"]
    lines = [cells(each, pause) for each in results if not each.failure for pause in each.bursts]
    failures = [f"- {each.engine} on {each.work}: {each.failure}" for each in results if each.failure]
    beside = f", beside {loops} endless loops" if loops else ""
    return (
        f"# Calls after a pause{beside}\n\n"
        "Medians (lower quartiles) over all bursts, ms: of a call in a loop and of the first, second, third call after "
        "a pause; third and later: the median of a burst from its third call on. Star: a wrong answer. Others: cores "
        "that other processes kept busy during the loops.\n\n"
        f"{table(header, lines)}\n"
        + "\n".join([*summary(results), *failures])
        + f"\n\n{describe_markdown(machine)}"
    )


def jobs(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> Iterator[Job]:
    """Everything to measure: name, work, input, judge, engines."""
    names = [name for name in arguments.models.split(",") if name]
    models = [ModelFiles(name, arguments.folder.resolve()) for name in names]
    require(parser, models)
    wanted = arguments.cases.split(",") if arguments.cases else []
    by_name = {case.name: case for case in POOL_CASES}
    if unknown := [name for name in wanted if name not in by_name]:
        parser.error(f"no such case: {', '.join(unknown)}; there are: {'; '.join(by_name)}")
    engines = [name for name in arguments.engines.split(",") if name in POOL_ENGINES]
    for case in (by_name[name] for name in wanted):
        yield pool_job(case, chosen_engines(parser, ",".join(engines), POOL_ENGINES))
    for files in models:
        truth = files.read("y64")
        specs = chosen_engines(parser, arguments.engines, MODEL_ENGINES)
        yield files.name, files, files.read("x"), partial(judged, (truth,)), specs


def pool_job(case: PoolCase, specs: list[EngineSpec]) -> Job:
    """A pooling case as a job."""
    x = np.random.default_rng(INPUT_SEED).standard_normal(case.shape, dtype=np.float32)
    return case.name, case, x, partial(judged, reference(case, x)), specs


def judged(truth: tuple[np.ndarray, ...], found: tuple[np.ndarray, ...]) -> float:
    """The error of an answer."""
    return error(found, truth)


def main() -> None:
    """Command line."""
    parser = shared_parser("python -m bench.pauses", "Measure calls after a pause.", MODEL_ENGINES)
    parser.set_defaults(engines="cenote,onnxruntime", threads="2", seconds=1.0)
    parser.add_argument("--models", default=MODELS, help=f"names, or empty (default: {MODELS})")
    parser.add_argument("--cases", default=CASES, help=f"pooling cases, or empty (default: {CASES})")
    parser.add_argument(
        "--folder", type=Path, default=MODEL_FOLDER, help="where bench.export wrote the models"
    )
    parser.add_argument("--pauses", default="5,40,200", help="milliseconds (default: 5,40,200)")
    parser.add_argument("--bursts", type=int, default=6, help="per pause and round (default: 6)")
    parser.add_argument("--calls", type=int, default=CALLS, help=f"of a burst, at least 3 (default: {CALLS})")
    parser.add_argument("--loops", type=int, default=0, help="endless loops that run meanwhile (default: 0)")
    arguments = parser.parse_args()
    if arguments.calls < 3 or arguments.bursts < 1:
        parser.error("a burst has at least 3 calls, and there is at least one")
    pauses = tuple(float(text) / 1e3 for text in arguments.pauses.split(","))
    rests = Rests(pauses, arguments.bursts, arguments.calls)
    run(list(jobs(arguments, parser)), rests, arguments)


def run(work: list[Job], rests: Rests, arguments: argparse.Namespace) -> None:
    """Measures everything that was asked for and writes the report after every line."""
    threads = thread_counts(arguments.threads)
    machine, folder = describe(), output_folder(arguments.output)
    results: list[Pauses] = []
    text = ""
    for job in work:
        for count in threads:
            plan = Plan(count, arguments.seconds, arguments.rounds)
            results += measure(*job, plan, rests, arguments.loops)
            text = markdown(results, arguments.loops, machine)
            (folder / "pauses.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
