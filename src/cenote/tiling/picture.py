"""Pictures of plans as SVG, and a page of them as HTML, without libraries, scripts or anything to download.

A picture has three panels: the tiles over one input map, shaded by how often each element is read; the content of the
first core's buffer over time; and the actions of the cores over time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby
from typing import NamedTuple

import numpy as np

from cenote.core.types import Array
from cenote.tiling.axis import Axis
from cenote.tiling.execution.clock import Event
from cenote.tiling.network import NetworkPlan
from cenote.tiling.problem import TilingPlan
from cenote.tiling.reduction import ReductionPlan
from cenote.tiling.timeline import timeline

_WIDTH, _MAP, _LINE = 920, 300, 16
# The most tile borders of an axis that are drawn, and their least distance.
_MOST_LINES, _CLOSEST = 64, 7.0
# Height that a line of text needs.
_LABEL = 12.0
# Elements that are read once, twice, ... five times and more.
_SHADES = ("#dbeafe", "#93c5fd", "#3b82f6", "#1d4ed8", "#1e3a8a")
_UNREAD = "#f3f4f6"
_KINDS = {"load": "#0d9488", "compute": "#d97706", "store": "#7c3aed"}


def svg(plan: TilingPlan) -> str:
    """Return a picture of one plan, as the text of an SVG file; of a plan in several passes, that of the first, which
    reads the whole input."""
    if isinstance(plan, ReductionPlan):
        return svg(plan.passes[0])
    events = timeline(plan)
    map_part, map_height = _map(plan)
    buffer_part, buffer_height = _buffer(plan, [event for event in events if event.core == 0])
    cores_part, cores_height = _cores(events)
    top = 40
    second = top + map_height + 30
    third = second + buffer_height + 30
    height = third + cores_height + 20
    title = f"{plan.layer.title} on {plan.hardware.name}: {plan.stage}, {plan.tasks:,} tasks, {plan.cycles:,} cycles"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="12">\n'
        f"<title>{escape(title)}</title>\n"
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>\n'
        f'<text x="20" y="24" font-size="15">{escape(title)}</text>\n'
        f'<g transform="translate(20,{top})">\n{map_part}</g>\n'
        f'<g transform="translate(20,{second})">\n{buffer_part}</g>\n'
        f'<g transform="translate(20,{third})">\n{cores_part}</g>\n'
        "</svg>\n"
    )


def page(model: NetworkPlan | Sequence[TilingPlan], title: str = "") -> str:
    """Return an HTML page: a table of all layers with totals and the worst ones, then one picture per different
    plan."""
    plans = model.plans if isinstance(model, NetworkPlan) else tuple(model)
    title = title or (model.name if isinstance(model, NetworkPlan) else "Tiling")
    total = sum(plan.cycles for plan in plans)
    moved = sum(plan.cost.bytes_in + plan.cost.bytes_out for plan in plans)
    shown: dict[tuple[object, ...], list[int]] = {}
    for number, plan in enumerate(plans):
        layer = plan.layer
        key = layer.op, layer.inputs, layer.fused, plan.tile, plan.hardware, plan.policy
        shown.setdefault(key, []).append(number)
    figure = {number: numbers[0] for numbers in shown.values() for number in numbers}
    rows = "\n".join(_row(figure[number], plan, total) for number, plan in enumerate(plans))
    worst = ", ".join(
        f'<a href="#p{figure[number]}">{escape(plans[number].layer.title)}</a> ({_share(plans[number], total)})'
        for number in sorted(range(len(plans)), key=lambda number: -plans[number].cycles)[:3]
    )
    pictures = "\n".join(_figure([plans[n] for n in numbers], numbers[0]) for numbers in shown.values())
    heads = "layer|operator|input|stage|tile nc,d,h,w|tasks|buffer, bytes|moved, bytes|cycles|share"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>'
        f"{escape(title)}</title><style>body{{font-family:sans-serif;margin:2em}}td,th{{padding:2px 8px;"
        "text-align:right}td:nth-child(-n+4),th:nth-child(-n+4){text-align:left}tfoot td{border-top:1px solid}"
        "figure{margin:2em 0}table{border-collapse:collapse}</style></head>\n"
        f"<body><h1>{escape(title)}</h1><p>{len(plans)} layers, {total:,} cycles. Most: {worst}</p>\n<table><thead><tr>"
        + "".join(f"<th>{head}</th>" for head in heads.split("|"))
        + f"</tr></thead>\n<tbody>{rows}</tbody>\n<tfoot><tr><td>total</td><td></td><td></td><td></td><td></td>"
        f"<td>{sum(plan.tasks for plan in plans):,}</td><td></td><td>{moved:,}</td><td>{total:,}</td><td></td></tr>"
        f"</tfoot></table>\n{pictures}\n</body></html>\n"
    )


def _figure(plans: list[TilingPlan], number: int) -> str:
    """Return equal plans as one figure, under the names of all."""
    names = escape(", ".join(plan.layer.title for plan in plans))
    return (
        f'<figure id="p{number}"><figcaption>{names}</figcaption>{svg(plans[0])}<details><summary>decisions</summary>'
        f"<pre>{escape(chr(10).join(plans[0].trace))}</pre></details></figure>"
    )


def _row(figure: int, plan: TilingPlan, total: int) -> str:
    tile = ",".join(map(str, (plan.tile.nc, *plan.tile.spatial)))
    cells = (
        f'<a href="#p{figure}">{escape(plan.layer.title)}</a>',
        escape(plan.layer.op.name),
        escape(str(plan.layer.inputs[0])),
        plan.stage,
        tile,
        f"{plan.tasks:,}",
        f"{plan.bytes:,}",
        f"{plan.cost.bytes_in + plan.cost.bytes_out:,}",
        f"{plan.cycles:,}",
        _share(plan, total),
    )
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _share(plan: TilingPlan, total: int) -> str:
    return f"{plan.cycles / max(1, total):.1%}"


class _Run(NamedTuple):
    """Neighbouring inputs of an axis that are read by equally many tiles."""

    first: int
    length: int
    reads: int


def _runs(axis: Axis, outputs: int) -> list[_Run]:
    """Return how many tiles read each input, as runs."""
    steps: Array = np.zeros(axis.size + 1, np.int64)
    starts = np.arange(0, axis.out, outputs)
    stops = np.minimum(starts + outputs, axis.out)
    np.add.at(steps, axis.low[starts], 1)
    np.add.at(steps, axis.high[stops - 1], -1)
    runs, first = [], 0
    for reads, group in groupby(np.cumsum(steps[:-1]).tolist()):
        count = len(list(group))
        runs.append(_Run(first, count, reads))
        first += count
    return runs


def _map(plan: TilingPlan) -> tuple[str, int]:
    """Draw one input map in tiles: elements shaded by how many tiles read them."""
    _, high, wide = plan.layer.axes
    scale = min((_WIDTH - 320) / wide.size, _MAP / high.size, 40.0)
    height = max(12.0, high.size * scale)
    up = height / high.size
    parts = []
    for row in _merged(_runs(high, plan.tile.h)):
        for column in _merged(_runs(wide, plan.tile.w)):
            reads = row.reads * column.reads
            colour = _SHADES[min(reads, len(_SHADES)) - 1] if reads else _UNREAD
            parts.append(
                f'<rect x="{column.first * scale:.1f}" y="{row.first * up:.1f}" width="{column.length * scale:.1f}" '
                f'height="{row.length * up:.1f}" fill="{colour}"><title>read {reads} times</title></rect>'
            )
    parts += [_border(high, plan.tile.h, up, wide.size * scale, across=True)]
    parts += [_border(wide, plan.tile.w, scale, height, across=False)]
    legend_x = wide.size * scale + 24
    _, deep, h_parts, w_parts = plan.parts
    across_depth = f", {deep} of the depth" if plan.layer.axes[0].out > 1 else ""
    words = [
        f"input map {high.size} x {wide.size}, output {high.out} x {wide.out}",
        f"tile {plan.tile.h} x {plan.tile.w} outputs of {plan.tile.nc} plane{'s' if plan.tile.nc > 1 else ''}",
        f"{h_parts} x {w_parts} tiles of the map{across_depth}",
        f"{plan.bytes:,} of {plan.hardware.ub_bytes:,} bytes",
        "read how often, per map:",
    ]
    for number, text in enumerate(words):
        parts.append(f'<text x="{legend_x:.0f}" y="{12 + 17 * number}">{escape(text)}</text>')
    for number, colour in enumerate(_SHADES):
        x = legend_x + 46 * number
        name = f"{number + 1}{'+' if number + 1 == len(_SHADES) else ''}"
        parts.append(f'<rect x="{x:.0f}" y="90" width="16" height="14" fill="{colour}"/>')
        parts.append(f'<text x="{x + 20:.0f}" y="102">{name}</text>')
    return "\n".join(parts) + "\n", round(max(height, 110))


def _merged(runs: list[_Run]) -> list[_Run]:
    """Return at most about a hundred runs: of more, neighbours are shown as the one that is read most."""
    group = -(-len(runs) // 100)
    return [
        _Run(part[0].first, sum(run.length for run in part), max(run.reads for run in part))
        for part in (runs[start : start + group] for start in range(0, len(runs), group))
    ]


def _border(axis: Axis, outputs: int, scale: float, length: float, across: bool) -> str:
    """Draw the places where tiles begin to read, as dashed lines."""
    starts = [int(axis.low[first]) for first in range(0, axis.out, outputs)][1:]
    if len(starts) > _MOST_LINES or (starts and scale * axis.size / len(starts) < _CLOSEST):
        return ""
    lines = []
    for start in starts:
        at = start * scale
        ends = f'x1="0" x2="{length:.1f}" y1="{at:.1f}" y2="{at:.1f}"'
        if not across:
            ends = f'y1="0" y2="{length:.1f}" x1="{at:.1f}" x2="{at:.1f}"'
        lines.append(f'<line {ends} stroke="#111827" stroke-width="0.7" stroke-dasharray="3 2"/>')
    return "\n".join(lines)


def _scale(events: Iterable[Event]) -> float:
    return (_WIDTH - 140) / max((event.end for event in events), default=1.0)


def _buffer(plan: TilingPlan, events: list[Event]) -> tuple[str, int]:
    """Draw the spaces of the first core's buffer, as high as their bytes but no lower than their names, and the times
    in which each holds a tile."""
    taken = plan.problem.footprint(plan.tile)
    scale = _scale(events)
    stays = _stays(events, taken.copies)
    inputs, outputs = taken.input + taken.weights, taken.output + taken.indices
    always = [(0.0, (_WIDTH - 140) / scale, None)]
    spaces: list[tuple[str, int, str, Sequence[tuple[float, float, int | None]]]] = []
    for name, size, colour in (("input", inputs, "#5eead4"), ("output", outputs, "#c4b5fd")):
        spaces += [(f"{name} {copy}", size, colour, stays[name, copy]) for copy in range(taken.copies)]
    if taken.scratch:
        spaces.append(("sums, scratch", taken.scratch, "#fca5a5", always))
    spaces.append(("free", max(0, plan.hardware.ub_bytes - taken.total), "none", ()))
    parts = [f'<text x="0" y="-6">buffer of core 0: {plan.hardware.ub_bytes:,} bytes, over time</text>']
    top = 0.0
    for name, size, colour, times in spaces:
        tall = max(_LABEL, size * 120.0 / plan.hardware.ub_bytes)
        middle = top + tall / 2 + 3.5
        parts.append(
            f'<rect x="120" y="{top:.1f}" width="{_WIDTH - 140}" height="{tall:.1f}" fill="{_UNREAD}"/>'
            f'<text x="0" y="{middle:.1f}" font-size="10">{name}</text>'
            f'<text x="114" y="{middle:.1f}" font-size="10" text-anchor="end">{size:,}</text>'
        )
        for start, end, task in times:
            title = "" if task is None else f"<title>tile {task}: {size:,} bytes</title>"
            parts.append(
                f'<rect x="{120 + start * scale:.1f}" y="{top:.1f}" width="{max(0.5, (end - start) * scale):.1f}" '
                f'height="{tall:.1f}" fill="{colour}" stroke="white">{title}</rect>'
            )
        top += tall
    return "\n".join(parts) + "\n", round(top)


def _stays(events: list[Event], copies: int) -> dict[tuple[str, int], list[tuple[float, float, int | None]]]:
    """Return when each space holds tiles: inputs from load to computation, outputs from computation to store."""
    times: dict[tuple[str, int], list[tuple[float, float, int | None]]] = {
        (name, copy): [] for name in ("input", "output") for copy in range(copies)
    }
    loads = [event for event in events if event.kind == "load"]
    computes = [event for event in events if event.kind == "compute"]
    stores = [event for event in events if event.kind == "store"]
    for number, (load, compute) in enumerate(zip(loads, computes, strict=True)):
        times["input", number % copies].append((load.start, compute.end, load.task))
    for number, store in enumerate(stores):
        start = min(event.start for event in computes if event.task == store.task)
        times["output", number % copies].append((start, store.end, store.task))
    return times


def _cores(events: list[Event]) -> tuple[str, int]:
    """Draw a line per core with its DMA engine above its vector unit."""
    cores = sorted({event.core for event in events})
    scale = _scale(events)
    last = max((event.end for event in events), default=0.0)
    parts = ['<text x="0" y="-6">first tasks of cores:</text>']
    for number, (kind, colour) in enumerate(_KINDS.items()):
        x = 130 + 80 * number
        parts.append(f'<rect x="{x}" y="-17" width="14" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{x + 19}" y="-6">{kind}</text>')
    parts.append(f'<text x="{_WIDTH - 20}" y="-6" text-anchor="end">0 to {last:,.0f} cycles</text>')
    for core in cores:
        y = core * (2 * _LINE + 6)
        parts.append(f'<text x="0" y="{y + _LINE + 4}">core {core}</text>')
        for event in (event for event in events if event.core == core):
            lane = y + (_LINE if event.kind == "compute" else 0)
            label = f"tile {event.task} {event.kind} {event.start:.0f} to {event.end:.0f}"
            parts.append(
                f'<rect x="{120 + event.start * scale:.1f}" y="{lane}" '
                f'width="{max(0.5, (event.end - event.start) * scale):.1f}" height="{_LINE - 2}" '
                f'fill="{_KINDS[event.kind]}"><title>{label}</title></rect>'
            )
    return "\n".join(parts) + "\n", len(cores) * (2 * _LINE + 6)
