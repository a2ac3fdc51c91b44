"""A model's steps as one HTML page without external files: a box for each, lines for what each reads, its time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from cenote.compiler.barriers import COMPUTE
from cenote.compiler.report import PlanDescription, StepDescription
from cenote.core.deferred import dataclass
from cenote.profile.fields import ProfileFields
from cenote.profile.graph_layout import BOX_HEIGHT, BOX_WIDTH, Drawing, Place, laid_out
from cenote.profile.style import document, key, ranked_colours
from cenote.profile.table import milliseconds

# Boxes of the largest graph that is drawn: some 100,000 pixels of height, 5 MB.
_MOST_BOXES = 2000
# Letters of a box's lines.
_NAME, _KIND = 29, 26
_MARGIN = 8
_ENDS = "#7a8794"
_OWN_STYLE = """
.cenote .graph rect { fill-opacity: .2; stroke-width: 1.2 } .cenote .graph .time { fill-opacity: .9; stroke: none }
.cenote .graph path { fill: none; stroke: currentColor; stroke-opacity: .45 }
.cenote .graph g:focus rect, .cenote .graph g:target rect { stroke-width: 3 }
.cenote .graph .small { font-size: 11px; opacity: .8 }
.cenote .rows td:first-child { text-align: right; padding-right: 1em }
.cenote .rows a { color: inherit }
"""


@dataclass(frozen=True)
class Drawn:
    """Texts and time of the box of a step, an input or an output. `share` of the latency; `how` has a colour."""

    title: str
    kind: str
    how: str
    said: str
    number: int | None = None
    ms: float | None = None
    share: float | None = None


# Where the lines of many boxes meet, as in a Concat.
_POINT = Drawn("", "", "", "joined")
_JOINED = 3  # boxes or more


def graph_page(model: str, plans: Sequence[PlanDescription], profile: ProfileFields | None) -> str:
    """Return the page. The times are the profile's; None: there are none on it."""
    times = [_times(profile, stage, plan) for stage, plan in enumerate(plans)]
    colour = _colours(plans, times)
    sections = "".join(
        _section(plan, measured, colour, f"Stage {number + 1}: " if len(plans) > 1 else "", number)
        for number, (plan, measured) in enumerate(zip(plans, times, strict=True))
    )
    timed = ""
    if profile is not None:
        timed = (
            f'<p><span class="big">{escape(milliseconds(profile.wall_ms))}</span> '
            f'<span class="faint">a call: {escape(", ".join(profile.inputs))}; {profile.threads} thread(s); '
            f"{escape(profile.processor)}, {escape(profile.target)}</span></p>"
        )
    return document(f"{model}: its graph", f"{timed}{key(colour.items())}{sections}", _OWN_STYLE)


def _times(
    profile: ProfileFields | None, stage: int, plan: PlanDescription
) -> list[tuple[float, float] | None]:
    """Milliseconds and share of each step of a stage."""
    if profile is None:
        return [None] * len(plan.steps)
    measured = [step for step in profile.steps if step.stage == stage and step.kind != "between"]
    if len(measured) != len(plan.steps):
        return [None] * len(plan.steps)
    return [(step.ms, step.share) for step in measured]


def _colours(
    plans: Sequence[PlanDescription], times: Sequence[Sequence[tuple[float, float] | None]]
) -> dict[str, str]:
    took: dict[str, float] = {}
    for plan, measured in zip(plans, times, strict=True):
        for step, time in zip(plan.steps, measured, strict=True):
            if step.kind in COMPUTE:
                took[_how(step)] = took.get(_how(step), 0.0) + (step.seconds if time is None else time[0])
    return ranked_colours(took)


def _how(step: StepDescription) -> str:
    return step.algorithm if step.kind == "kernel" else str(step.kind)


def _section(
    plan: PlanDescription,
    times: Sequence[tuple[float, float] | None],
    colour: Mapping[str, str],
    prefix: str,
    stage: int,
) -> str:
    graph = _Boxes(plan, times)
    if len(graph.boxes) > _MOST_BOXES:
        drawn = f'<p class="warn">{len(graph.boxes):,} steps are too many to draw; the table has them.</p>'
    else:
        layout = laid_out(graph.reads, frozenset(graph.points.values()))
        picture = _picture(graph.boxes, layout, colour, stage)
        drawn = f'<div class="scroll" tabindex="0" role="region" aria-label="graph">{picture}</div>'
    head = escape(f"{prefix}{plan.head[1]}")
    return f"<section><h2>{head}</h2>{drawn}<h2>Steps</h2>{_table(plan, times, stage)}</section>"


class _Boxes:
    """Boxes of the inputs, the steps that compute and the outputs, and the boxes that each reads from.

    Zeros around an input and checks take next to nothing: their times are in the table alone.
    """

    def __init__(self, plan: PlanDescription, times: Sequence[tuple[float, float] | None]) -> None:
        self.boxes: list[Drawn] = []
        self.reads: list[list[int]] = []
        self.points: dict[frozenset[int], int] = {}
        self._place_of: dict[int, int] = {}
        for number, text in enumerate(plan.inputs):
            self._place_of[-1 - number] = self._add(_end_box(text), ())
        for number, (step, time) in enumerate(zip(plan.steps, times, strict=True)):
            if step.kind in COMPUTE:
                self._place_of[number] = self._add(_step_box(number, step, time), step.reads)
        for text, makers in zip(plan.outputs, plan.made_by, strict=True):
            self._add(_end_box(text), makers)

    def _add(self, box: Drawn, steps: Sequence[int]) -> int:
        sources = frozenset(self._place_of[step] for step in steps if step in self._place_of)
        read = [self._point(sources)] if len(sources) >= _JOINED else sorted(sources)
        self.boxes.append(box)
        self.reads.append(read)
        return len(self.boxes) - 1

    def _point(self, sources: frozenset[int]) -> int:
        """The point where the lines of many boxes meet; it reads from that of most of them, if there is one."""
        if sources not in self.points:
            inner = max((known for known in self.points if known < sources), key=len, default=None)
            rest = sources if inner is None else sources - inner
            through = [] if inner is None else [self.points[inner]]
            self.boxes.append(_POINT)
            self.reads.append(sorted([*through, *rest]))
            self.points[sources] = len(self.boxes) - 1
        return self.points[sources]


def _end_box(text: str) -> Drawn:
    """An input or output, `%x: f32[1,3,8,8]`."""
    name, _, type = text.partition(": ")
    return Drawn(name, type, "", text)


def _step_box(number: int, step: StepDescription, time: tuple[float, float] | None) -> Drawn:
    ms, share = time or (None, None)
    said = "\n".join(filter(None, (step.op, step.output, _how(step), step.kernel, step.reason)))
    return Drawn(
        step.node, f"{step.op.partition('(')[0]} · {_how(step)}", _how(step), said, number, ms, share
    )


def _picture(boxes: Sequence[Drawn], layout: Drawing, colour: Mapping[str, str], stage: int) -> str:
    most = max((box.share or 0.0 for box in boxes), default=0.0) or 1.0
    parts = [f'<path d="{_path(line)}"/>' for line in layout.lines]
    for box, place in zip(boxes, layout.boxes, strict=True):
        if box is _POINT:
            parts.append(f'<path d="M{place.x:.0f} {place.top:.0f}v{BOX_HEIGHT}"/>')
            continue
        parts.append("".join(_box(box, place, colour.get(box.how, _ENDS), most, stage)))
    width, height = layout.width + 2 * _MARGIN, layout.height + 2 * _MARGIN
    view = f"{-_MARGIN} {-_MARGIN} {width:.0f} {height:.0f}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="graph" viewBox="{view}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img" aria-label="steps and what each reads; the table below lists them">'
        f"{''.join(parts)}</svg>"
    )


def _path(line: Sequence[Place]) -> str:
    """A curve from the bottom of a box to the top of another, straight through the rows between."""
    start = line[0]
    parts = [f"M{start.x:.0f} {start.top + BOX_HEIGHT:.0f}"]
    x, y = start.x, start.top + BOX_HEIGHT
    for place in line[1:]:
        middle = (y + place.top) / 2
        parts.append(f"C{x:.0f} {middle:.0f} {place.x:.0f} {middle:.0f} {place.x:.0f} {place.top:.0f}")
        x, y = place.x, place.top
        if place.box < 0:
            y = place.top + BOX_HEIGHT
            parts.append(f"V{y:.0f}")
    return "".join(parts)


def _box(box: Drawn, place: Place, colour: str, most: float, stage: int) -> Iterator[str]:
    left = place.x - BOX_WIDTH / 2
    corner = f'x="{left:.0f}" y="{place.top:.0f}"'
    mark = "" if box.number is None else f' id="s{stage}-{box.number}"'
    yield f"<g{mark}><title>{escape(box.said)}</title>"
    yield f'<rect {corner} width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="4" style="fill:{colour};stroke:{colour}"/>'
    if box.share is not None:
        width = BOX_WIDTH * box.share / most
        bar = f'x="{left:.0f}" y="{place.top + BOX_HEIGHT - 3:.0f}" width="{width:.1f}" height="3"'
        yield f'<rect class="time" {bar} style="fill:{colour}"/>'
    yield f'<text x="{left + 7:.0f}" y="{place.top + 15:.0f}">{escape(_end(box.title, _NAME))}</text>'
    yield f'<text class="small" x="{left + 7:.0f}" y="{place.top + 30:.0f}">{escape(box.kind[:_KIND])}</text>'
    if box.ms is not None and box.share is not None:
        time = f"{milliseconds(box.ms)} {box.share:.0%}" if box.share >= 0.005 else milliseconds(box.ms)
        yield (
            f'<text class="small" text-anchor="end" x="{left + BOX_WIDTH - 6:.0f}" y="{place.top + 30:.0f}">'
            f"{escape(time)}</text>"
        )
    yield "</g>"


def _end(text: str, length: int) -> str:
    """The end of a name, which tells more than its beginning."""
    return text if len(text) <= length else f"…{text[1 - length :]}"


def _table(plan: PlanDescription, times: Sequence[tuple[float, float] | None], stage: int) -> str:
    rows = []
    for number, (step, row, time) in enumerate(zip(plan.steps, plan.rows, times, strict=True)):
        title, how, output, op = map(escape, row)
        link = f'<a href="#s{stage}-{number}">{title}</a>' if step.kind in COMPUTE else title
        took = "" if time is None else escape(milliseconds(time[0]))
        rows.append(
            f"<tr><td>{number}</td><td>{link}</td><td>{took}</td><td>{how}</td><td>{output}</td><td>{op}</td></tr>"
        )
    heads = "".join(f"<th>{name}</th>" for name in ("", "node", "time", "algorithm", "output", "operator"))
    return (
        f'<div class="scroll" tabindex="0"><table class="rows"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
