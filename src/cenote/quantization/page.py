"""A report of a quantisation as one HTML page without external files, in the style of profiles' pages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from cenote.profile.style import ACCOUNTS, WAIT, document
from cenote.quantization.table import LayerErrors

# Pixels of a layer's row, of its name, and of the bars.
_ROW, _NAMES, _BARS = 22, 260, 620
# Ratios beyond are drawn at the end: ten bits.
_MOST_DECIBELS = 60.0
# Letters of a name in the picture.
_LONGEST = 34
# Layers whose result keeps less are marked: four bits.
_POOR = 25.0


def page(
    path: str, summary: Sequence[str], cells: Sequence[Sequence[str]], layers: Sequence[LayerErrors]
) -> str:
    """Return the whole page: the account before and after, a bar per layer, the table of cells."""
    lines = "".join(f"<p>{escape(line)}</p>" for line in summary)
    body = (
        f"{lines}<section><h2>Signal to noise of each layer's result, dB</h2>"
        '<p class="faint">Wide bars: in the quantised model, with the errors of all layers before. Lines: rounded and '
        "clipped alone. 6 dB are a bit.</p>"
        f'<div class="scroll" tabindex="0">{_picture(layers)}</div></section>'
        f"<section><h2>Layers</h2>{_table(cells)}</section>"
    )
    return document(f"{path}: what 8 bits cost", body)


def _picture(layers: Sequence[LayerErrors]) -> str:
    height = _ROW * len(layers) + 24
    parts = []
    for tens in range(0, int(_MOST_DECIBELS) + 1, 10):
        x = _NAMES + _across(tens)
        parts.append(f'<line class="grid" x1="{x:.0f}" x2="{x:.0f}" y1="0" y2="{height - 20}"/>')
        parts.append(f'<text x="{x:.0f}" y="{height - 4}" text-anchor="middle">{tens}</text>')
    for place, layer in enumerate(layers):
        top = _ROW * place
        name = layer.name if len(layer.name) <= _LONGEST else f"…{layer.name[1 - _LONGEST :]}"
        colour = WAIT if layer.sqnr < _POOR else ACCOUNTS["kernels"]
        parts.append(
            f'<text x="{_NAMES - 8}" y="{top + 15}" text-anchor="end">{escape(name)}</text>'
            f'<rect x="{_NAMES}" y="{top + 3}" width="{_across(layer.sqnr):.1f}" height="{_ROW - 7}" '
            f'style="fill:{colour}"><title>{escape(f"{layer.name}: {layer.sqnr:.1f} dB")}</title></rect>'
        )
        if layer.own_sqnr is not None:
            x = _NAMES + _across(layer.own_sqnr)
            parts.append(
                f'<line class="roof" x1="{x:.1f}" x2="{x:.1f}" y1="{top + 1}" y2="{top + _ROW - 2}"/>'
            )
    size = f'viewBox="0 0 {_NAMES + _BARS + 20} {height}" width="100%"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(parts)}</svg>'


def _across(decibels: float) -> float:
    """Pixels of a ratio; nothing for one that is no number."""
    if math.isnan(decibels):
        return 0.0
    return _BARS * min(max(decibels, 0.0), _MOST_DECIBELS) / _MOST_DECIBELS


def _table(cells: Sequence[Sequence[str]]) -> str:
    head, *rows = cells
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{top}</tr>{body}</table>"
