"""What many processes with one model take in memory: `python -m bench.sharing --help`

Servers start a process per core, or per client. Each engine loads the model in ten processes, runs it once in each,
and all stay; then the kernel is asked how much memory they have. PSS (proportional set size) divides a page by the
number of processes that map it, so its sum is what the processes take of the machine.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.arguments import chosen_engines, output_folder
from bench.engines import MODEL_ENGINES, EngineSpec
from bench.files import MODEL_FOLDER, ModelFiles
from bench.process import EngineProcess

FIELDS = ("Rss", "Pss", "Private_Clean", "Private_Dirty")


@dataclass(frozen=True)
class Usage:
    """Memory of several processes, in megabytes: sums of what the kernel says of each."""

    model: str
    engine: str
    processes: int
    resident: float
    proportional: float
    private: float

    @property
    def each(self) -> float:
        """The share of one process."""
        return self.proportional / self.processes

    @staticmethod
    def of(model: str, engine: str, rollups: Sequence[str]) -> "Usage":
        """From the texts of /proc/PID/smaps_rollup."""
        found = [parse(text) for text in rollups]
        total = {field: sum(one[field] for one in found) for field in FIELDS}
        private = total["Private_Clean"] + total["Private_Dirty"]
        return Usage(model, engine, len(found), total["Rss"], total["Pss"], private)


def parse(rollup: str) -> dict[str, float]:
    """The fields of a smaps_rollup, in megabytes."""
    words = [line.split() for line in rollup.splitlines()]
    return {line[0].rstrip(":"): int(line[1]) / 1024 for line in words if line[0].rstrip(":") in FIELDS}


def measure(spec: EngineSpec, files: ModelFiles, processes: int) -> Usage:
    """So many processes at once, each with the model, each having run it."""
    if spec.prepares:
        maker = EngineProcess(spec, 1)
        maker.call("start", spec, 1)
        maker.call("prepare", files)
        maker.close()
    started: list[EngineProcess] = []
    try:
        for _ in range(processes):
            process = EngineProcess(spec, 1)
            started.append(process)
            process.call("start", spec, 1)
            process.call("load", files, 1)
            process.call("first", files.read("x"))
        rollups = [Path(f"/proc/{one.process.pid}/smaps_rollup").read_text() for one in started]
    finally:
        for process in started:
            process.close()
    return Usage.of(files.name, spec.name, rollups)


def markdown(rows: Sequence[Usage]) -> str:
    """The table."""
    lines = [
        "| model | engine | processes | sum of RSS, MB | sum of PSS, MB | private, MB | PSS of each, MB |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {row.model} | {row.engine} | {row.processes} | {row.resident:.0f} | {row.proportional:.0f} | "
        f"{row.private:.0f} | {row.each:.0f} |"
        for row in rows
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m bench.sharing", description=__doc__)
    parser.add_argument("--models", default="resnet50", help="of bench/.models (default: resnet50)")
    parser.add_argument("--engines", default="cenote,onnxruntime", help="default: cenote,onnxruntime")
    parser.add_argument("--processes", type=int, default=10)
    parser.add_argument("--output", type=Path, help="folder for sharing.md (default: bench/.results/TIME)")
    given = parser.parse_args(arguments)
    specs = chosen_engines(parser, given.engines, MODEL_ENGINES)
    rows = []
    for name in given.models.split(","):
        for spec in specs:
            rows.append(measure(spec, ModelFiles(name, MODEL_FOLDER), given.processes))
            print(markdown(rows[-1:]).splitlines()[-1], flush=True)
    (output_folder(given.output) / "sharing.md").write_text(markdown(rows) + "\n")


if __name__ == "__main__":
    main()
