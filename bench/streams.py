"""A stream of inputs of which each has another size, loading included. `python -m bench.streams --help`

For every network so many pictures (lines of text for the recogniser) of random sizes, one run each, in a fresh process:
onnxruntime, Cenote on an empty cache ("cold"), and Cenote once more on what that process left ("warm"). `pages`
reads pages of text with rapidocr, whose three models run on onnxruntime or on Cenote: all pages twice, the second time
in the same process. Whole streams take turns, `--rounds` times; tables give medians over the rounds. Importing an
engine is not part of a stream; loading the model is.
"""

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from statistics import median
from typing import Any

from bench.any_size import ANY_SIZE, AnySize, chosen_networks
from bench.arguments import output_folder, thread_counts
from bench.engines import MODEL_ENGINES, EngineSpec
from bench.machine import describe, describe_markdown
from bench.new_sizes import TOLERANCE
from bench.process import EngineError, EngineProcess
from bench.report import table

SEED = 13
PAGES = "pages"
OCR_ENGINES = {
    "cenote": EngineSpec("cenote", "bench.engines.ocr", "CenotePipeline"),
    "onnxruntime": EngineSpec("onnxruntime", "bench.engines.ocr", "OnnxRuntimePipeline"),
}
COLD, WARM, PEER = "cenote, cold", "cenote, warm", "onnxruntime"


@dataclass
class Run:
    """One stream by one engine: seconds to load, and seconds of each pass over the inputs."""

    way: str
    load: float = 0.0
    passes: list[float] = field(default_factory=list)
    compiled: int = 0
    foreign_cores: float | None = None  # not known of pages
    failure: str = ""
    answers: list[Any] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Load and first pass."""
        return self.load + self.passes[0]


@dataclass
class Line:
    """All runs of one stream with one number of threads."""

    work: str
    threads: int
    count: int
    runs: list[Run]
    agreement: str = ""

    def of(self, way: str) -> list[Run]:
        """The runs of one way that succeeded."""
        return [run for run in self.runs if run.way == way and not run.failure]

    def typical(self, way: str, value: Callable[[Run], float]) -> float:
        """Median over the rounds; not a number where there is none."""
        found = [value(run) for run in self.of(way)]
        return median(found) if found else float("nan")


def stream(process: EngineProcess, shapes: Sequence[Any], run: Run) -> None:
    """One run of each shape."""
    seen = process.call("stream", shapes, SEED)
    run.passes = [sum(seen["times"])]
    run.answers, run.foreign_cores = seen["outputs"], seen["foreign_cores"]


def read_pages(process: EngineProcess, pictures: Sequence[Any], run: Run) -> None:
    """All pages twice."""
    for _ in range(2):
        answers = [process.call("first", picture) for picture in pictures]
        run.passes.append(sum(seconds for seconds, _ in answers))
        run.answers = [lines for _, lines in answers]


def once(
    spec: EngineSpec, way: str, work: Any, inputs: Sequence[Any], threads: int, cache: str,
    action: Callable[[EngineProcess, Sequence[Any], Run], None],
) -> Run:  # fmt: skip
    """One engine in a fresh process with this cache, from loading to the last input."""
    run = Run(way)
    process = EngineProcess(spec, threads, {"CENOTE_CACHE": cache})
    try:
        process.call("start", spec, threads)
        process.call("compiled")
        run.load = process.call("load", work, threads)
        action(process, inputs, run)
        run.compiled = process.call("compiled")
    except EngineError as problem:
        run.failure = str(problem)
    finally:
        process.close()
    return run


def measure(work: AnySize | None, inputs: Sequence[Any], threads: int, rounds: int) -> Line:
    """All rounds of one stream; without a network, of the pages."""
    engines = OCR_ENGINES if work is None else MODEL_ENGINES
    action = read_pages if work is None else stream
    runs: list[Run] = []
    for number in range(rounds):
        with tempfile.TemporaryDirectory(prefix="cenote-streams-") as cache:
            ours = [(engines["cenote"], COLD), (engines["cenote"], WARM)]
            peer = [(engines["onnxruntime"], PEER)]
            for spec, way in ours[:1] + peer + ours[1:] if number % 2 == 0 else peer + ours:
                runs.append(once(spec, way, work, inputs, threads, cache, action))
    line = Line(PAGES if work is None else work.name, threads, len(inputs), runs)
    line.agreement = agreement(line, work)
    for run in runs:
        run.answers = []
    return line


def agreement(line: Line, work: AnySize | None) -> str:
    """How far Cenote's answers are from onnxruntime's: the largest error, or the share of equal letters."""
    pairs = [(ours, theirs) for way in (COLD, WARM) for ours in line.of(way) for theirs in line.of(PEER)[:1]]
    if not pairs:
        return "-"
    if work is None:
        return f"{min(equal_letters(ours.answers, theirs.answers) for ours, theirs in pairs):.1%}"
    worst = max(
        work.error(found, truth)
        for ours, theirs in pairs
        for mine, its in zip(ours.answers, theirs.answers, strict=True)
        for found, truth in zip(mine, its, strict=True)
    )
    return f"{worst:.1e}{'*' if worst > TOLERANCE else ''}"


def equal_letters(found: Sequence[Any], expected: Sequence[Any]) -> float:
    """The share of letters that two readings of the same pages have in common."""
    ours, theirs = ("\n".join(line[1] for page in pages for line in page) for pages in (found, expected))
    return SequenceMatcher(None, ours, theirs, autojunk=False).ratio()


def row(line: Line) -> list[str]:
    """A line of the table: load + first pass, its ratio; second passes where there are any."""
    peer = line.typical(PEER, lambda run: run.seconds)
    cells = [f"{line.work} T={line.threads}", str(line.count), f"{peer:.2f}"]
    for way in (COLD, WARM):
        ours = line.typical(way, lambda run: run.seconds)
        cells += [f"{ours:.2f} ({line.typical(way, lambda run: run.load):.2f})", f"{ours / peer:.2f}"]
        cells += [f"{line.typical(way, lambda run: run.compiled):.0f}"]
    again = [
        line.typical(way, lambda run: run.passes[1] if run.passes[1:] else float("nan"))
        for way in (WARM, PEER)
    ]
    cells += ["-" if again[0] != again[0] else f"{again[0]:.2f} / {again[1]:.2f} = {again[0] / again[1]:.2f}"]
    foreign = [run.foreign_cores for run in line.runs if run.foreign_cores is not None]
    return [*cells, line.agreement, f"{max(foreign):.1f}" if foreign else "-"]


def markdown(lines: Sequence[Line], rounds: int) -> str:
    """The report."""
    header = [
        "", "inputs", "onnxruntime, s", "cold, s (load)", "cold: ratio", "kernels compiled", "warm, s (load)",
        "warm: ratio", "kernels compiled", "second pass, s", "agreement", "others",
    ]  # fmt: skip
    failures = "".join(
        f"\n- {run.way} on {line.work} T={line.threads}: {run.failure}"
        for line in lines for run in line.runs if run.failure
    )  # fmt: skip
    return (
        f"# Streams\n\nSeconds to load and to run each input once (seed {SEED}), medians of {rounds} round(s). Ratio: "
        "Cenote's / onnxruntime's, below 1 Cenote is faster. Agreement: largest difference from onnxruntime's answers "
        f"/ largest value (starred above {TOLERANCE:g}); for pages the share of equal letters.\n\n"
        f"{table(header, [row(line) for line in lines])}{failures}\n{describe_markdown(describe())}"
    )


def write(folder: Path, lines: Sequence[Line], rounds: int) -> None:
    """Both reports; called after every line."""
    (folder / "streams.md").write_text(markdown(lines, rounds))
    (folder / "streams.json").write_text(json.dumps([asdict(line) for line in lines], indent=1) + "\n")


def command_line() -> argparse.ArgumentParser:
    """The options."""
    every = ",".join((*ANY_SIZE, PAGES))
    parser = argparse.ArgumentParser(prog="python -m bench.streams", description=__doc__)
    parser.add_argument("--models", default=every, help=f"of {every} (default: all)")
    parser.add_argument("--threads", default="1", help="thread counts (default: 1)")
    parser.add_argument("--pictures", type=int, default=200, help="inputs of a stream (default: 200)")
    parser.add_argument("--pages", type=int, default=12, help="pages of text (default: 12)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each stream runs (default: 3)")
    parser.add_argument("--output", type=Path, help="folder for the reports (default: bench/.results/TIME)")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = command_line()
    given = parser.parse_args(arguments)
    wanted = given.models.split(",")
    names = [name for name in wanted if name != PAGES]
    works: list[AnySize | None] = [*(chosen_networks(parser, ",".join(names)) if names else [])]
    works += [None] if PAGES in wanted else []
    folder = output_folder(given.output)
    lines: list[Line] = []
    for work in works:
        inputs = pages_of(given.pages) if work is None else work.pictures(given.pictures, SEED)
        for threads in thread_counts(given.threads):
            lines.append(measure(work, inputs, threads, given.rounds))
            print(f"| {' | '.join(row(lines[-1]))} |", flush=True)
            write(folder, lines, given.rounds)
    print(f"reports: {folder}")


def pages_of(count: int) -> list[Any]:
    """The pages; made only when they are wanted, because scikit-image and Pillow are needed."""
    from bench.pages import pages

    return [*pages(count)]


if __name__ == "__main__":
    main()
