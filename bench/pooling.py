"""Pooling operators: Cenote beside its peers. `python -m bench.pooling --help`"""

from pathlib import Path
from typing import Any

import numpy as np

from bench.arguments import chosen_engines, output_folder, shared_parser, thread_counts
from bench.cases import INPUT_SEED, POOL_CASES, PoolCase
from bench.chart import draw
from bench.engines import POOL_ENGINES, EngineSpec
from bench.machine import survey
from bench.pool_reference import error, reference
from bench.report import closing, legend, say, times_table, value_table, verdict_lines, write_json
from bench.rounds import Plan, compare
from bench.verdict import Row


def measure(case: PoolCase, specs: list[EngineSpec], plans: list[Plan]) -> list[Row]:
    """One case, for every number of threads."""
    x = np.random.default_rng(INPUT_SEED).standard_normal(case.shape, dtype=np.float32)
    truth = reference(case, x)
    rows = []
    for plan in plans:
        outcomes = compare(specs, case, x, lambda found: error(found, truth), plan)
        rows.append(Row(case.name, plan.threads, outcomes, bytes_moved=case.bytes_moved))
        say(rows[-1])
    return rows


def markdown(rows: list[Row], plan: Plan, machine: dict[str, Any]) -> str:
    """The whole report."""
    sections = [
        f"# Pooling\n\n{legend(plan)}\n{verdict_lines(rows)}",
        "## Time, ms (GB/s)\n\nBytes: input and output, each once. Where a peer takes a bound or "
        "preallocated output, it has one; inputs lie ready in each engine's own form.\n\n"
        + times_table(rows, lambda row: row.work),
        "## Error: largest error / largest output, against float64\n\n"
        + value_table(rows, lambda row: row.work, lambda o: f"{o.error:.1e}"),
        closing(rows, machine),
    ]
    return "\n".join(sections)


def write(folder: Path, rows: list[Row], plan: Plan, machine: dict[str, Any]) -> None:
    """All reports; called after every case, so that a run that is cut short leaves what it has."""
    write_json(folder / "pooling.json", "pooling", rows, plan, machine)
    (folder / "pooling.md").write_text(markdown(rows, plan, machine))
    draw(rows, folder / "pooling.png", "Pooling operators")


def main() -> None:
    """Command line."""
    parser = shared_parser("python -m bench.pooling", "Measure pooling operators.", POOL_ENGINES)
    parser.add_argument("--cases", default="", help="only cases whose name contains this")
    arguments = parser.parse_args()
    specs = chosen_engines(parser, arguments.engines, POOL_ENGINES)
    cases = [case for case in POOL_CASES if arguments.cases in case.name]
    if not cases:
        parser.error(f"no such case; there are: {'; '.join(case.name for case in POOL_CASES)}")
    threads = thread_counts(arguments.threads)
    plans = [Plan(count, arguments.seconds, arguments.rounds) for count in threads]
    machine = survey(threads)
    folder = output_folder(arguments.output)
    rows: list[Row] = []
    for case in cases:
        rows += measure(case, specs, plans)
        write(folder, rows, plans[0], machine)
    print(verdict_lines(rows) + f"reports: {folder}")


if __name__ == "__main__":
    main()
