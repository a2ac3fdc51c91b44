"""HTML of models and plans for notebooks: plain tables, which take the notebook's own style."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Protocol

from cenote.core.types import Declared

_LEFT = "style='text-align:left'"


class Shown(Protocol):
    """Protocol of objects that a notebook can show."""

    def _repr_html_(self) -> str: ...


def plan_html(
    head: Sequence[str],
    steps: Iterable[Sequence[str]],
    notes: Sequence[str],
    kernels: Iterable[tuple[str, int]],
) -> str:
    """Return the HTML of a plan: its head, its steps (node, algorithm, output, operator), notes, kernels with
    launches."""
    rows = ((number, *step) for number, step in enumerate(steps))
    lines = escape("\n".join(notes))
    launches = _table(("launches", "kernel"), ((count, symbol) for symbol, count in kernels))
    return (
        f"<p>{'<br>'.join(map(escape, head))}</p>"
        f"{_table(('', 'node', 'algorithm', 'output', 'operator'), rows)}"
        f"<pre>{lines}</pre>{_folded('kernels', launches)}"
    )


def model_html(
    title: str, inputs: Sequence[Declared], outputs: Sequence[Declared], plans: Sequence[Shown]
) -> str:
    """Return the HTML of a model: inputs and outputs, and below them each plan, folded."""
    sides = (("input", inputs), ("output", outputs))
    rows = ((side, *str(declared).split(": ", 1)) for side, values in sides for declared in values)
    folded = "".join(_folded("plan", plan._repr_html_()) for plan in plans)
    return f"<p><b>{escape(title)}</b></p>{_table(('', 'name', 'type'), rows)}{folded}"


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f"<th {_LEFT}>{escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td {_LEFT}>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _folded(title: str, content: str) -> str:
    """Return a line that opens when it is clicked."""
    return f"<details><summary>{escape(title)}</summary>{content}</details>"
