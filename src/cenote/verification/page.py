"""A report of `cenote.verify` as one HTML page without external files, in the style of profiles' pages."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from cenote.profile.style import ACCOUNTS, document, key
from cenote.verification.fields import SizesRun, ValueErrors, VerificationFields, shown, sizes_text

_INHERITED, _LOCAL, _FAULT = "#3d85c6", ACCOUNTS["kernels"], ACCOUNTS["host"]
# Pixels of the picture; decades of errors in it, the tolerance's included.
_WIDTH, _HEIGHT, _LEFT = 960, 300, 60
_LEAST, _MOST = -9, 2
# Rows that are not folded away.
_SHOWN_ROWS = 40


def page(found: VerificationFields, name: str) -> str:
    """Return the whole page: the verdict, the error of every value in the order of the plan, the values as a table."""
    verdict = f"<p{'' if found.ok else ' class=warn'}>{escape(found.verdict)}</p>"
    body = (
        f"{verdict}"
        "<section><h2>Errors of the values, in the order in which the plan makes them</h2>"
        '<p class="faint">Relative to the largest element. Inherited: the difference from the other engine, with all '
        "errors before it. Local: that of the layer's kernels from their reference in float64 on the same inputs.</p>"
        f'<div class="scroll" tabindex="0">{_picture(found)}</div>{key(_meaning(found))}</section>'
        f"{_sizes(found.sizes)}<section><h2>Values</h2>{_values(found)}</section>"
    )
    return document(f"{name} beside {found.against}", body)


def _meaning(found: VerificationFields) -> list[tuple[str, str]]:
    named = [("inherited", _INHERITED), ("local", _LOCAL)]
    return named if found.ok else [*named, ("first that is wrong", _FAULT)]


def _picture(found: VerificationFields) -> str:
    parts = [*_frame(found.tolerance)]
    step = (_WIDTH - _LEFT - 10) / max(1, len(found.values))
    for place, row in enumerate(found.values):
        x = _LEFT + step * (place + 0.5)
        label = f"{row.value} of {row.node}: inherited {shown(row.inherited)}, local {shown(row.local)}"
        wrong = found.first is not None and row.value == found.first.value
        for error, colour in ((row.inherited, _INHERITED), (row.local, _LOCAL)):
            if error is not None:
                y, radius = _up(error), 5 if wrong else 3
                parts.append(
                    f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" style="fill:{_FAULT if wrong else colour}">'
                    f"<title>{escape(label)}</title></circle>"
                )
    size = f'viewBox="0 0 {_WIDTH} {_HEIGHT + 24}" width="100%" role="img" aria-label="errors; the table has them"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(parts)}</svg>'


def _frame(tolerance: float) -> Iterator[str]:
    for exponent in range(_LEAST, _MOST + 1):
        y = _up(10.0**exponent)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - 10}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="8" y="{y + 4:.1f}">1e{exponent}</text>'
    if tolerance > 0:
        y = _up(tolerance)
        yield f'<line class="roof" x1="{_LEFT}" x2="{_WIDTH - 10}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield (
            f'<text class="label" x="{_WIDTH - 12}" y="{y - 5:.1f}" text-anchor="end">tolerance {tolerance:g}</text>'
        )
    yield f'<text x="{_LEFT}" y="{_HEIGHT + 18}">first value → last value</text>'


def _up(error: float) -> float:
    """Place of an error; none at all and what is too small lie on the lowest line, what is no number on the highest."""
    if error == 0:
        return float(_HEIGHT)
    exponent = math.log10(error) if math.isfinite(error) else float(_MOST)
    return _HEIGHT - (_HEIGHT - 12) * (min(max(exponent, _LEAST), _MOST) - _LEAST) / (_MOST - _LEAST)


def _sizes(runs: Sequence[SizesRun]) -> str:
    if not runs:
        return ""
    rows = [
        (
            sizes_text(run.shapes),
            run.output,
            f"refused: {run.refused}" if run.refused else shown(run.inherited),
        )
        for run in runs
    ]
    return (
        "<section><h2>The loaded model, at other sizes too</h2>"
        f"{_table(('sizes', 'output', 'inherited'), rows)}</section>"
    )


def _values(found: VerificationFields) -> str:
    heads = ("value", "node", "inherited", "local")
    rows = [_cells(row) for row in found.values]
    first, rest = rows[:_SHOWN_ROWS], rows[_SHOWN_ROWS:]
    more = (
        f"<details><summary>{len(rest)} more values</summary>{_table(heads, rest)}</details>" if rest else ""
    )
    return _table(heads, first) + more


def _cells(row: ValueErrors) -> tuple[str, ...]:
    return row.value, row.node, shown(row.inherited), shown(row.local)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="scroll" tabindex="0"><table><tr>{top}</tr>{body}</table></div>'
