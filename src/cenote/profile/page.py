"""A profile as one HTML page without external files, and as a fragment for notebooks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from html import escape

from cenote.profile import pictures
from cenote.profile.fields import Finding, ProfileFields, StepStats
from cenote.profile.metrics.counters import summary
from cenote.profile.style import ACCOUNTS, STYLE, WAIT, colours, document, key
from cenote.profile.table import (
    HEADS,
    METRIC_HEADS,
    RowOf,
    accounts_of,
    disturbances,
    metric_row,
    milliseconds,
    row,
    step_rows,
)

# Rows of the table of a page; those that are not folded away.
_MOST_STEPS, _SHOWN_STEPS = 600, 20
# Letters of an operator.
_LONGEST = 120
# Steps in a notebook.
_FEW_STEPS = 15


def page(profile: ProfileFields) -> str:
    """Return the whole page."""
    body = "".join(
        f"<section><h2>{escape(name)}</h2>{content}</section>"
        for name, content in _sections(profile)
        if content
    )
    return document(f"{profile.model}: where the time goes", _head(profile) + body)


def fragment(profile: ProfileFields) -> str:
    """Return the accounts, the findings and the heaviest steps."""
    steps = step_rows(profile.steps)[:_FEW_STEPS]
    content = (
        f"<h1>{escape(profile.model)}</h1>" + _head(profile) + _findings(profile.findings) + _table(steps)
    )
    return f'<style>{STYLE}</style><div class="cenote">{content}</div>'


def _sections(profile: ProfileFields) -> Iterator[tuple[str, str]]:
    yield "Findings", _findings(profile.findings)
    yield (
        "Roofline",
        _picture(
            pictures.roofline(profile),
            "Discs: operations that the kernel of a step executes. Rings: those of its operator, of which Winograd's "
            "algorithm needs fewer. Lines: what this machine can do. Large marks take more time.",
            colours(profile).items(),
        ),
    )
    yield (
        "Threads, in one call of median length",
        _picture(pictures.threads(profile), "", [*colours(profile).items(), ("waiting", WAIT)]),
    )
    yield "Steps, heaviest first", _steps(profile)
    yield (
        "Memory over time",
        _picture(
            pictures.arena(profile),
            "Buffers of intermediate values: from left to right the steps that need them, upwards their place.",
            (),
        ),
    )
    yield "Measures", _measures(profile)
    yield "Environment while it was measured", _environment(profile)


def _head(profile: ProfileFields) -> str:
    warnings = "".join(f'<p class="warn">{escape(line)}</p>' for line in disturbances(profile))
    notes = "".join(f"<p>{escape(note)}</p>" for note in profile.notes)
    what = f"{', '.join(profile.inputs)}; {profile.threads} thread(s), precision {profile.precision}"
    where = f"{profile.processor}, {profile.target}; cenote {profile.version}"
    total = profile.accounts.total
    measured = f"±{profile.spread:.1%}, {profile.calls} calls; the parts add up to {milliseconds(total)}"
    accounts = [
        (f"{name} {milliseconds(value)} ({value / total:.1%})", ACCOUNTS[name])
        for name, value in accounts_of(profile)
        if value
    ]
    return (
        f'<p class="faint">{escape(what)}<br>{escape(where)}</p>'
        f'<p><span class="big">{escape(milliseconds(profile.wall_ms))}</span> '
        f'<span class="faint">{escape(measured)}</span></p>'
        f"{warnings}{notes}{_bar(profile)}{key(accounts)}"
    )


def _bar(profile: ProfileFields) -> str:
    """Return the accounts side by side."""
    parts = "".join(
        f'<i style="flex:{value / profile.accounts.total:.5f};background:{ACCOUNTS[name]}">{name}</i>'
        for name, value in accounts_of(profile)
        if value
    )
    return f'<div class="bar">{parts}</div>'


def _picture(svg: str, words: str, meaning: Collection[tuple[str, str]]) -> str:
    """Return a picture that stays readable on a narrow screen, with its explanation and the meaning of its
    colours."""
    if not svg:
        return ""
    explanation = f'<p class="faint">{escape(words)}</p>' if words else ""
    return f'{explanation}<div class="scroll" tabindex="0">{svg}</div>{key(meaning)}'


def _findings(findings: tuple[Finding, ...]) -> str:
    items = "".join(
        f"<li><b>{escape(found.cause)}</b>: {found.share:.0%} of the latency, confidence {found.confidence:.0%}"
        f"{_gain(found)}<br>{escape(found.evidence)}<br>Do: {escape(found.action)}</li>"
        for found in findings
    )
    return f"<ol>{items}</ol>" if items else ""


def _gain(found: Finding) -> str:
    measured = found.measured_gain_ms
    tried = "" if measured is None else f"; tried: <b>{_signed(measured)}</b>"
    if found.gain_ms is None:
        return tried
    low, middle, high = map(_signed, found.gain_ms)
    return f"; would gain <b>{middle}</b> ({low} to {high}){tried}"


def _signed(value: float) -> str:
    return f"{'-' if value < 0 else ''}{milliseconds(abs(value))}"


def _steps(profile: ProfileFields) -> str:
    """Return the heaviest steps, then the others folded away."""
    steps = step_rows(profile.steps)[:_MOST_STEPS]
    first, rest = steps[:_SHOWN_STEPS], steps[_SHOWN_STEPS:]
    share = sum(step.share for step in rest)
    more = f"<details><summary>{len(rest)} more steps, {share:.1%} of the latency</summary>{_table(rest)}</details>"
    return _table(first) + (more if rest else "")


def _table(steps: Sequence[StepStats], names: Sequence[str] = HEADS, row_of: RowOf = row) -> str:
    heads = "".join(f"<th>{name}</th>" for name in names)
    most = max((step.share for step in steps), default=0.0) or 1.0
    whole = row_of is not row  # all columns on narrow screens too, and no bars behind shares of the latency
    rows = "".join(
        f'<tr title="{escape(step.op[:_LONGEST])}" style="--part:{0 if whole else 100 * step.share / most:.0f}%">'
        f"{''.join(f'<td>{escape(cell)}</td>' for cell in row_of(step))}</tr>"
        for step in steps
    )
    kind = "steps whole" if whole else "steps"
    table = f'<table class="{kind}"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>'
    return f'<div class="scroll" tabindex="0">{table}</div>'


def _measures(profile: ProfileFields) -> str:
    """Return the measures of the heaviest steps, and what the processor counted."""
    steps = [step for step in step_rows(profile.steps) if step.metrics.levels][:_SHOWN_STEPS]
    if not steps:
        return ""
    lines = "".join(f"<p>{escape(line)}</p>" for line in summary(profile.counters))
    words = (
        "Estimates from the time, the step's work and the machine's roofs. Computing and bandwidth: shares of the time "
        "that their roofs allow; cache hits: bytes that caches deliver; pipeline: both shares together."
    )
    return f'<p class="faint">{words}</p>{lines}{_table(steps, METRIC_HEADS, metric_row)}'


def _environment(profile: ProfileFields) -> str:
    environment = profile.environment
    rows = "".join(
        f"<div><dt>{escape(name.replace('_', ' '))}</dt><dd>{escape(_shown(getattr(environment, name)))}</dd></div>"
        for name in environment.__dataclass_fields__
    )
    return f'<dl class="pairs">{rows}</dl>'


def _shown(value: object) -> str:
    if value is None:
        return "unavailable"
    if isinstance(value, tuple):
        return " → ".join(map(_shown, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
