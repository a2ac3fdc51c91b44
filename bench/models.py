"""Whole models: Cenote beside its peers. `python -m bench.models --help`"""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench.arguments import chosen_engines, chosen_models, model_parser, output_folder, thread_counts
from bench.chart import draw
from bench.engines import MODEL_ENGINES, EngineSpec
from bench.files import ALL_MODELS, ModelFiles
from bench.machine import survey
from bench.narrow import PACKAGES, narrowed
from bench.pool_reference import error
from bench.report import (
    closing,
    legend,
    milliseconds,
    say,
    times_table,
    value_table,
    verdict_lines,
    write_json,
)
from bench.rounds import Plan, compare
from bench.verdict import TOLERANCE, Row

OURS = "bench.engines.cenote"  # has CENOTE_TARGET


def measure(
    files: ModelFiles,
    specs: Iterable[EngineSpec],
    plan: Plan,
    tolerance: float = TOLERANCE,
    *,
    opened: bool = False,
) -> Row:
    """One model with one number of threads; `tolerance`: of models that have none of their own; `opened`: its file of
    open sizes, at the same size."""
    truth = files.read("y64")
    work = files.of_open_sizes if opened else files
    outcomes = compare(specs, work, files.read("x"), lambda found: error(found, (truth,)), plan)
    return Row(
        files.name, plan.threads, outcomes, int(files.read("macs")), tolerance=files.tolerance or tolerance
    )


def label(row: Row) -> str:
    """Name and size of the model."""
    return f"{row.work} ({row.multiply_adds / 1e9:.3g} GMAC)"


def markdown(rows: list[Row], plan: Plan, machine: dict[str, Any]) -> str:
    """The whole report."""
    sections = [
        f"# Models\n\n{legend(plan)}\n{verdict_lines(rows)}",
        f"## Latency, ms: median (minimum)\n\n{times_table(rows, label)}",
        "## Load + first inference, ms\n\nOnce the engine is imported and the model converted; kernel caches "
        "on disk are warm.\n\n"
        + value_table(
            rows, label, lambda o: f"{milliseconds(o.load_seconds)} + {milliseconds(o.first_seconds)}"
        ),
        "## Peak memory of the process, MB\n\n" + value_table(rows, label, lambda o: f"{o.peak_memory:.0f}"),
        "## Error: largest error / largest output, against float64\n\n"
        + value_table(rows, label, lambda o: f"{o.error:.1e}"),
        "## Import, ms (NumPy is imported already)\n\n"
        + value_table(rows[:1], label, lambda o: milliseconds(o.import_seconds)),
        closing(rows, machine),
    ]
    return "\n".join(sections)


def write(folder: Path, rows: list[Row], plan: Plan, machine: dict[str, Any]) -> None:
    """All three reports; called after every row, so that a run that is cut short leaves what it has."""
    write_json(folder / "models.json", "models", rows, plan, machine)
    (folder / "models.md").write_text(markdown(rows, plan, machine))
    draw(rows, folder / "models.png", "Latency of whole models")


def main() -> None:
    """Command line."""
    parser = model_parser("python -m bench.models", "Measure whole models.", MODEL_ENGINES, ALL_MODELS)
    arguments = parser.parse_args()
    specs = chosen_engines(parser, arguments.engines, MODEL_ENGINES)
    run(chosen_models(parser, arguments), specs, arguments)


def run(
    models: list[ModelFiles],
    specs: list[EngineSpec],
    arguments: argparse.Namespace,
    tolerance: float = TOLERANCE,
) -> tuple[list[Row], dict[str, Any]]:
    """Measures everything that was asked for and writes the reports; returns what they are made of."""
    threads = thread_counts(arguments.threads)
    machine = {**survey(threads), "narrowed": arguments.isa}
    specs = narrowing(specs, arguments.isa)
    folder = output_folder(arguments.output)
    rows: list[Row] = []
    with narrowed(arguments.isa):
        for files in models:
            for count in threads:
                plan = Plan(count, arguments.seconds, arguments.rounds)
                rows.append(measure(files, specs, plan, tolerance))
                say(rows[-1])
                write(folder, rows, plan, machine)
    print(verdict_lines(rows) + f"reports: {folder}")
    return rows, machine


def narrowing(specs: list[EngineSpec], isa: str) -> list[EngineSpec]:
    """The engines that can be narrowed to `isa`; tells which are left out. "" is the CPU as it is."""
    kept = [spec for spec in specs if not isa or spec.name in PACKAGES or spec.module == OURS]
    if left := [spec.name for spec in specs if spec not in kept]:
        print(f"left out, not narrowed to {isa}: {', '.join(left)}")
    return kept


if __name__ == "__main__":
    main()
