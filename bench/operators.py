"""Functions on arrays: cenote.functional beside its peers. `python -m bench.operators --help`"""

from pathlib import Path
from typing import Any

import numpy as np

from bench.arguments import chosen_engines, output_folder, shared_parser, thread_counts
from bench.engines.base import Arrays
from bench.engines.operator import as_arrays
from bench.engines.registry import OPERATOR_ENGINES, EngineSpec
from bench.machine import survey
from bench.operator_cases import OperatorCase, cases_of, families
from bench.report import closing, legend, say, times_table, value_table, verdict_lines, write_json
from bench.rounds import Plan, compare
from bench.verdict import OURS, TOLERANCE, Row

NO_INPUT = np.empty(0)  # a case makes its own in the process of its engine


def truth_of(case: OperatorCase) -> Arrays:
    """The answer that others are compared with: NumPy's, else that of the first other engine than Cenote."""
    order = sorted(case.engines, key=lambda name: (name != "numpy", name == OURS))
    return as_arrays(case.engines[order[0]](case.inputs(), 1)())


def error(found: Arrays, wanted: Arrays, tolerance: float) -> float:
    """Largest error / largest output; 0 where it is within the tolerance, infinite for another shape."""
    worst = 0.0
    for y, want in zip(found, wanted, strict=True):
        if y.shape != want.shape:
            return float("inf")
        if not y.size:
            continue
        a, b = y.astype(np.float64), want.astype(np.float64)
        both = np.isfinite(b)
        if not np.array_equal(a[~both], b[~both], equal_nan=True):
            return float("inf")
        scale = np.abs(b[both]).max(initial=0.0) or 1.0
        worst = max(worst, float(np.abs(a[both] - b[both]).max(initial=0.0) / scale))
    if worst <= tolerance:
        return 0.0
    return max(worst, 10 * TOLERANCE)  # which no difference may pass for right, however small


def measure(family: str, case: OperatorCase, specs: list[EngineSpec], plans: list[Plan]) -> list[Row]:
    """One case, for every number of threads."""
    wanted = truth_of(case)
    rows = []
    for plan in plans:
        outcomes = compare(
            specs, (family, case.name), NO_INPUT, lambda found: error(found, wanted, case.tolerance), plan
        )
        rows.append(Row(case.name, plan.threads, outcomes, bytes_moved=case.bytes_moved))
        say(rows[-1])
    return rows


def markdown(rows: list[Row], plan: Plan, machine: dict[str, Any]) -> str:
    """The whole report."""
    sections = [
        f"# Functions on arrays\n\n{legend(plan)}\n{verdict_lines(rows)}",
        "## Time, ms\n\nInputs lie ready in each engine's own form, and results go to memory that is there where the "
        "engine takes that. Minimum, or GB/s, in brackets.\n\n" + times_table(rows, lambda row: row.work),
        "## Error: largest error / largest output, against NumPy or the first peer\n\n"
        + value_table(rows, lambda row: row.work, lambda o: f"{o.error:.1e}"),
        closing(rows, machine),
    ]
    return "\n".join(sections)


def write(folder: Path, rows: list[Row], plan: Plan, machine: dict[str, Any]) -> None:
    """Both reports; called after every case, so that a run that is cut short leaves what it has."""
    write_json(folder / "operators.json", "operators", rows, plan, machine)
    (folder / "operators.md").write_text(markdown(rows, plan, machine))


def main() -> None:
    """Command line."""
    parser = shared_parser("python -m bench.operators", "Measure functions on arrays.", OPERATOR_ENGINES)
    parser.add_argument("--families", default=",".join(families()), help="files of bench/operator_cases")
    parser.add_argument("--cases", default="", help="only cases whose name contains this")
    parser.add_argument(
        "--no-survey", action="store_true", help="leave out the machine's ceilings (a minute)"
    )
    arguments = parser.parse_args()
    specs = chosen_engines(parser, arguments.engines, OPERATOR_ENGINES)
    chosen = [
        (family, case)
        for family in arguments.families.split(",")
        for case in cases_of(family)
        if arguments.cases in case.name
    ]
    if not chosen:
        parser.error("no such case")
    threads = thread_counts(arguments.threads)
    plans = [Plan(count, arguments.seconds, arguments.rounds) for count in threads]
    machine = survey([] if arguments.no_survey else threads)
    folder = output_folder(arguments.output)
    rows: list[Row] = []
    for family, case in chosen:
        rows += measure(family, case, specs, plans)
        write(folder, rows, plans[0], machine)
    print(verdict_lines(rows) + f"reports: {folder}")


if __name__ == "__main__":
    main()
