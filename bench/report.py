"""The Markdown that both programs write: tables, verdict, what was run where."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.machine import describe_markdown
from bench.rounds import Outcome, Plan
from bench.verdict import OURS, TOLERANCE, Row, geometric_mean


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first column is text, the others are numbers."""
    rule = ["---"] + ["---:"] * (len(header) - 1)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *rows)) + "\n"


def milliseconds(seconds: float) -> str:
    """Three significant digits."""
    value = seconds * 1e3
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def say(row: Row) -> None:
    """One line on the terminal, as soon as a row is measured."""
    times = [f"{o.engine} {'-' if o.failure else milliseconds(o.median)}" for o in row.outcomes]
    ratio = row.ratio()
    verdict = f"; ratio {ratio:.3g}" if ratio else ""
    print(f"{row.work} T={row.threads}: {', '.join(times)} ms{verdict}", flush=True)


def times_cell(row: Row, outcome: Outcome) -> str:
    """Median and minimum; bold if it is the fastest correct one, starred if its answer is not right."""
    if outcome.failure:
        return "-"
    text = f"{milliseconds(outcome.median)} ({milliseconds(outcome.fastest)})"
    if row.bytes_moved:
        text = f"{milliseconds(outcome.median)} ({row.bytes_moved / outcome.median / 1e9:.2g})"
    if not row.counts(outcome):
        return f"{text}*"
    leader = min((o.median for o in row.outcomes if row.counts(o)), default=0.0)
    return f"**{text}**" if outcome.median == leader else text


def ratio_cells(row: Row) -> list[str]:
    """Fastest correct peer, ratio of medians (its range over rounds), ratio of minima, foreign load."""
    peer, limits = row.best_peer(), row.ratio_range()
    ratio, ratio_of_minima = row.ratio(), row.ratio("fastest")
    verdict = "-" if ratio is None or limits is None else f"{ratio:.3g} ({limits[0]:.3g}-{limits[1]:.3g})"
    minima = "-" if ratio_of_minima is None else f"{ratio_of_minima:.3g}"
    return ["-" if peer is None else peer.engine, verdict, minima, f"{row.foreign_cores():.1f}"]


def times_table(rows: Sequence[Row], label: Callable[[Row], str]) -> str:
    """The main table: a line per row, a column per engine, then the verdict."""
    engines = [outcome.engine for outcome in rows[0].outcomes]
    header = ["", "T", *engines, "fastest peer", "ratio", "ratio of minima", "others"]
    lines = []
    for row in rows:
        cells = [times_cell(row, outcome) for outcome in row.outcomes]
        lines.append([label(row), str(row.threads), *cells, *ratio_cells(row)])
    return table(header, lines)


def value_table(rows: Sequence[Row], label: Callable[[Row], str], value: Callable[[Outcome], str]) -> str:
    """A secondary table of one value per engine."""
    engines = [outcome.engine for outcome in rows[0].outcomes]
    lines = []
    for row in rows:
        cells = ["-" if outcome.failure else value(outcome) for outcome in row.outcomes]
        lines.append([label(row), str(row.threads), *cells])
    return table(["", "T", *engines], lines)


def verdict_lines(rows: Sequence[Row]) -> str:
    """Geometric means, one line per thread count."""
    lines = []
    for threads in sorted({row.threads for row in rows}):
        group = [row for row in rows if row.threads == threads]
        mean = geometric_mean(row.ratio() for row in group)
        mean_of_minima = geometric_mean(row.ratio("fastest") for row in group)
        with_ratio = sum(row.ratio() is not None for row in group)
        if mean is None or mean_of_minima is None:
            lines.append(f"- {threads} thread(s): {OURS} has no correct result to compare")
            continue
        against_all = geometric_mean(row.ratio(wrong_too=True) for row in group)
        ahead = sum((row.ratio() or 0) > 1 for row in group)
        lines.append(
            f"- {threads} thread(s): geometric mean of ratios **{mean:.3g}** "
            f"(of minima {mean_of_minima:.3g}); ahead in {ahead} of {with_ratio}; "
            f"{against_all:.3g} if peers' wrong answers counted too"
        )
    return "\n".join(lines) + "\n"


def failures(rows: Sequence[Row]) -> str:
    """Which engines could not do what, and why; one line per reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for outcome in row.outcomes:
            if outcome.failure:
                reasons.setdefault((outcome.engine, outcome.failure), []).append(
                    f"{row.work} T={row.threads}"
                )
    lines = []
    for (engine, reason), places in reasons.items():
        where = "everywhere" if len(places) == len(rows) else ", ".join(places)
        lines.append(f"- {engine}: {reason} ({where})")
    return "\n".join(lines) + "\n" if lines else "none\n"


def versions(rows: Sequence[Row]) -> str:
    """The engines that ran."""
    found = {o.engine: o.version for row in rows for o in row.outcomes if o.version}
    return ", ".join(f"{engine} {version}" for engine, version in found.items()) + "\n"


def legend(plan: Plan) -> str:
    """How to read the tables."""
    return (
        f"{plan.seconds:g} s per engine and line, in {plan.rounds} rounds, one engine at a time, each in its "
        "own process. **Bold**: the fastest correct one. Star: error above "
        f"{TOLERANCE:g} (largest error / largest output, against float64; of networks in 8 bits 1.5 times what "
        "these bits cost by themselves); does not count. Ratio: fastest "
        f"correct peer / {OURS}, of the medians, with the smallest and largest ratio of the rounds; above 1, "
        f"{OURS} is faster. Others: cores that other processes kept busy meanwhile; where threads + others "
        "exceed the machine's cores, the engines were disturbed, and minima are the better guide.\n"
    )


def closing(rows: Sequence[Row], machine: dict[str, Any]) -> str:
    """Sections that end every report."""
    return (
        f"## Could not run\n\n{failures(rows)}\n## Versions\n\n{versions(rows)}\n"
        f"## Machine\n\n{describe_markdown(machine)}"
    )


def write_json(path: Path, kind: str, rows: Sequence[Row], plan: Plan, machine: dict[str, Any]) -> None:
    """Everything that was measured, as data."""
    document = {
        "kind": kind,
        "seconds": plan.seconds,
        "rounds": plan.rounds,
        "machine": machine,
        "rows": [row.as_json() for row in rows],
    }
    path.write_text(json.dumps(document, indent=1) + "\n")
