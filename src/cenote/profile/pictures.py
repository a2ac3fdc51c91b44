"""Pictures of a profile as SVG: the roofline, the threads' actions over time, the places of buffers in memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from cenote.profile.fields import ProfileFields, Span, StepStats
from cenote.profile.roofs import Roofs
from cenote.profile.style import ACCOUNTS, HOST, WAIT, colours
from cenote.profile.table import milliseconds

_WIDTH = 960
# Least values of the roofline: smaller ones are drawn at the edge.
_LEFTMOST, _LOWEST = 0.03, 0.5
# Most steps of the roofline, and most buffers.
_MOST_POINTS, _MOST_BLOCKS = 250, 800
# Letters of a label.
_LONGEST = 100
# Most spans on a page; neighbours of one step are drawn as one.
_MOST_SPANS = 2500
_BUFFERS = ("#2a9d8f", "#3d85c6", "#7aa95c", "#a9714b", "#b5638f", "#5f9ea8")


def roofline(profile: ProfileFields) -> str:
    """Draw operations per second over operations per byte. Rings: those of the operator; discs: those executed."""
    roofs = profile.roofs
    heaviest = sorted(profile.steps, key=lambda step: -step.ms)[:_MOST_POINTS]
    points = [each for step in heaviest for each in _points(step)]
    if roofs is None or not points:
        return ""
    peak = roofs.gigaops("float32", profile.threads) or max(y for _, y, *_ in points)
    axes = _Axes(
        (_LEFTMOST, max(300.0, *(x for x, *_ in points))),
        (_LOWEST, 2 * max(peak, *(y for _, y, *_ in points))),
    )
    parts = [*axes.frame(), *_roof_lines(roofs, profile.threads, peak, axes)]
    colour = colours(profile)
    for x, y, executed, step in points:
        size = 2.5 + 14 * math.sqrt(step.share)
        style = (
            f"fill:{colour[step.how]};fill-opacity:.75"
            if executed
            else f"fill:none;stroke:{colour[step.how]}"
        )
        kind = "executed" if executed else "effective"
        label = (
            f"{step.title}, {step.algorithm}: {y:.1f} Gop/s {kind}, {x:.2f} per byte, {milliseconds(step.ms)}"
        )
        parts.append(
            f'<circle cx="{axes.x(x):.1f}" cy="{axes.y(y):.1f}" r="{size:.1f}" style="{style}">{_title(label)}</circle>'
        )
    return _svg(_WIDTH, _Axes.HEIGHT + 40, parts)


def _points(step: StepStats) -> Iterator[tuple[float, float, bool, StepStats]]:
    if not step.bytes or step.kernels_ms <= 0:
        return
    for operations, executed in ((step.operations, False), (step.executed_operations, True)):
        if operations:
            yield operations / step.bytes, operations / step.kernels_ms / 1e6, executed, step


class _Axes:
    """Two logarithmic axes."""

    HEIGHT, LEFT = 380, 60

    def __init__(self, across: tuple[float, float], up: tuple[float, float]) -> None:
        self.across, self.up = across, up

    def x(self, value: float) -> float:
        low, high = map(math.log, self.across)
        place = (math.log(max(value, self.across[0])) - low) / (high - low)
        return self.LEFT + (_WIDTH - self.LEFT - 10) * place

    def y(self, value: float) -> float:
        low, high = map(math.log, self.up)
        return 10 + (self.HEIGHT - 10) * (1 - (math.log(max(value, self.up[0])) - low) / (high - low))

    def frame(self) -> Iterator[str]:
        for value in _decades(*self.across):
            yield _line(self.x(value), 10, self.x(value), self.HEIGHT, "grid")
            yield _text(self.x(value) - 8, self.HEIGHT + 16, f"{value:g}")
        for value in _decades(*self.up):
            yield _line(self.LEFT, self.y(value), _WIDTH - 10, self.y(value), "grid")
            yield _text(8, self.y(value) + 4, f"{value:g}")
        yield _text(self.LEFT, self.HEIGHT + 34, "operations per byte →")
        yield _text(self.LEFT + 6, 22, "↑ 1e9 operations per second", kind="label")


def _roof_lines(roofs: Roofs, threads: int, peak: float, axes: _Axes) -> Iterator[str]:
    yield _line(axes.LEFT, axes.y(peak), _WIDTH - 10, axes.y(peak), "roof")
    yield _text(_WIDTH - 12, axes.y(peak) - 6, f"multiply-adds {peak:.0f} Gop/s", "text-anchor:end", "label")
    lines = [each for each in roofs.bandwidth if each.threads == threads]
    # At different places of the lines, so that close names stay apart.
    for each, part in zip(lines, (0.7, 0.4, *(0.3,) * len(lines)), strict=False):
        low, high = axes.across
        speed = each.read.value
        start, end = max(low, axes.up[0] / speed), min(high, peak / speed)
        if start < end:
            yield _line(axes.x(start), axes.y(start * speed), axes.x(end), axes.y(end * speed), "roof")
            place = start * (end / start) ** part
            name = f"{each.level} {speed:.0f} GB/s"
            yield _text(axes.x(place), axes.y(place * speed) + 4, name, "text-anchor:middle", "label")


def _decades(low: float, high: float) -> Iterator[float]:
    for exponent in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1):
        yield 10.0**exponent


def threads(profile: ProfileFields) -> str:
    """Draw the actions of every thread in one call, from left to right."""
    spans = joined(profile.timeline, _MOST_SPANS)
    if not spans:
        return ""
    end = max(span.end_us for span in spans)
    count = 1 + max(span.thread for span in spans)
    colour = colours(profile)
    parts = [_text(0, 22 + 34 * thread, f"thread {thread}") for thread in range(count)]
    for span in spans:
        step = profile.steps[span.step]
        x, width = (
            70 + (_WIDTH - 70) * span.begin_us / end,
            (_WIDTH - 70) * (span.end_us - span.begin_us) / end,
        )
        filled = WAIT if span.what == "wait" else ACCOUNTS[HOST] if span.what == HOST else colour[step.how]
        what = "waits at" if span.what == "wait" else step.algorithm
        label = f"{what} {step.title}: {span.end_us - span.begin_us:.1f} µs from {span.begin_us:.1f}"
        # Neighbouring steps of one algorithm can be distinguished; a fainter one would have no colour of the key.
        parts.append(_rect(x, 4 + 34 * span.thread, width - min(0.6, width / 4), 28, filled, label))
    parts.append(_text(70, 20 + 34 * count, "0"))
    parts.append(_text(_WIDTH, 20 + 34 * count, milliseconds(end / 1e3), "text-anchor:end"))
    return _svg(_WIDTH, 26 + 34 * count, parts)


def joined(spans: Sequence[Span], most: int) -> list[Span]:
    """Return at most so many spans: neighbours of one thread and step become one; then the longest are kept."""
    result: list[Span] = []
    for span in spans:
        last = result[-1] if result else None
        same = last is not None and (last.thread, last.step, last.what) == (span.thread, span.step, span.what)
        if last is not None and same:
            result[-1] = Span(last.thread, last.step, last.what, last.begin_us, span.end_us, last.cpu)
        else:
            result.append(span)
    if len(result) > most:
        limit = sorted((span.end_us - span.begin_us for span in result), reverse=True)[most - 1]
        result = [span for span in result if span.end_us - span.begin_us >= limit][:most]
    return result


def arena(profile: ProfileFields) -> str:
    """Draw buffers over the steps that they exist in, upwards by their place."""
    if not profile.arena:
        return ""
    top = max(block.offset + block.nbytes for block in profile.arena) or 1
    steps, height, parts = len(profile.steps), 300, []
    largest = sorted(profile.arena, key=lambda block: -block.nbytes)[:_MOST_BLOCKS]
    for index, block in enumerate(largest):
        x, width = _WIDTH * block.first / steps, _WIDTH * (block.last + 1 - block.first) / steps
        y, tall = height * (1 - (block.offset + block.nbytes) / top), height * block.nbytes / top
        label = (
            f"{block.name}: {block.nbytes:,} bytes at {block.offset:,}, steps {block.first} to {block.last}"
        )
        parts.append(_rect(x, y, width, max(tall, 0.5), _BUFFERS[index % len(_BUFFERS)], label, 0.75))
    parts.append(_text(0, height + 16, f"steps 0 to {steps - 1}; {top:,} bytes in all"))
    return _svg(_WIDTH, height + 24, parts)


def _svg(width: int, height: int, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {width} {height}" width="100%" role="img">{"".join(parts)}</svg>'


def _rect(
    x: float, y: float, width: float, height: float, colour: str, label: str, opacity: float = 1.0
) -> str:
    style = "" if opacity == 1 else f' fill-opacity="{opacity}"'
    place = f'x="{x:.2f}" y="{y:.1f}" width="{max(width, 0.3):.2f}" height="{height:.1f}"'
    return f'<rect {place} fill="{colour}"{style}>{_title(label)}</rect>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _text(x: float, y: float, text: str, style: str = "", kind: str = "") -> str:
    attributes = "".join(f' {name}="{value}"' for name, value in (("style", style), ("class", kind)) if value)
    return f'<text x="{x:.1f}" y="{y:.1f}"{attributes}>{escape(text)}</text>'


def _title(text: str) -> str:
    return f"<title>{escape(text if len(text) <= _LONGEST else f'{text[:_LONGEST]}…')}</title>"
