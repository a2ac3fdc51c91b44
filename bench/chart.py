"""The picture: every engine's time relative to Cenote's, one line of dots per model or case."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib import pyplot
from matplotlib.axes import Axes

from bench.verdict import OURS, Row


def draw(rows: Sequence[Row], path: Path, title: str) -> None:
    """Writes a PNG with one panel per thread count."""
    pyplot.switch_backend("agg")  # needs no display
    groups = sorted({row.threads for row in rows})
    height = 1.8 + 0.34 * max(sum(row.threads == count for row in rows) for count in groups)
    figure, panels = pyplot.subplots(
        1, len(groups), figsize=(6.5 * len(groups), height), squeeze=False, layout="constrained"
    )
    for panel, count in zip(panels[0], groups, strict=True):
        draw_panel(panel, [row for row in rows if row.threads == count])
        panel.set_title(f"{title}, {count} thread(s)")
    handles, labels = panels[0][0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 8), frameon=False)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def draw_panel(panel: Axes, rows: Sequence[Row]) -> None:
    """Dots: solid where the answer counts, hollow where its error is too large."""
    for index, outcome in enumerate(rows[0].outcomes):
        colour = "black" if outcome.engine == OURS else f"C{index % 10}"
        points = [(yardstick(row), row.outcome(outcome.engine), row) for row in rows]
        shown = [
            (o.median / base, rows.index(row), row.counts(o))
            for base, o, row in points
            if base and o and not o.failure
        ]
        panel.scatter(
            [ratio for ratio, _, _ in shown],
            [place for _, place, _ in shown],
            label=outcome.engine,
            edgecolors=colour,
            facecolors=[colour if right else "none" for _, _, right in shown],
            marker="D" if outcome.engine == OURS else "o",
            zorder=3,
        )
    panel.axvline(1.0, color="black", linewidth=0.8)
    panel.set_xscale("log")
    panel.set_yticks(range(len(rows)), [row.work for row in rows])
    panel.invert_yaxis()
    panel.grid(axis="y", linewidth=0.3)
    base = OURS if rows[0].ours() else "the fastest"
    panel.set_xlabel(f"time relative to {base}\n(left is faster; hollow: wrong answer)")


def yardstick(row: Row) -> float | None:
    """Cenote's time, or the fastest engine's while Cenote has none."""
    reference = row.ours() or row.best_peer()
    return reference.median if reference else None
