"""A profile as one HTML page that needs nothing else, and as a piece of a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from cenote.profile import pictures
from cenote.profile.fields import Finding, ProfileFields, StepStats
from cenote.profile.table import accounts_of, head, milliseconds, row

_MOST_STEPS = 600  # rows of the table of a page
_LONGEST = 120  # letters of an operator
_FEW_STEPS = 15  # of a notebook's
_COLUMNS = ("step", "node", "algorithm", "ms", "share", "busy", "Gop/s", "executed", "GB/s", "roof")
_STYLE = """
:root { color-scheme: light dark }
.cenote { font: 14px/1.45 system-ui, sans-serif; max-width: 1000px; margin: 1.5em auto; padding: 0 1em }
.cenote h1 { font-size: 1.3em } .cenote h2 { font-size: 1.05em; margin: 1.6em 0 .4em }
.cenote pre { font: 13px/1.5 ui-monospace, monospace; white-space: pre-wrap }
.cenote table { border-collapse: collapse; font-size: 13px; width: 100% }
.cenote th, .cenote td { text-align: left; padding: .15em .6em .15em 0; border-bottom: 1px solid #8884;
  overflow-wrap: anywhere }
.cenote th:nth-child(n+4), .cenote td:nth-child(n+4) { text-align: right; white-space: nowrap }
.cenote .key span { display: inline-block; width: .8em; height: .8em; margin: 0 .4em 0 1em; border-radius: 2px }
.cenote svg text { font: 12px system-ui, sans-serif; fill: currentColor }
.cenote svg .grid { stroke: #8883 } .cenote svg .roof { stroke: currentColor; stroke-width: 1.5 }
"""


def page(profile: ProfileFields) -> str:
    """The whole page."""
    title = escape(f"{profile.model}: where the time goes")
    body = "".join(f"<h2>{escape(name)}</h2>{content}" for name, content in _sections(profile) if content)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f'</head><body><main class="cenote"><h1>{title}</h1>{_head(profile)}{body}</main></body></html>\n'
    )


def fragment(profile: ProfileFields) -> str:
    """The accounts, the findings and the heaviest steps."""
    steps = sorted(profile.steps, key=lambda step: -step.ms)[:_FEW_STEPS]
    content = _head(profile) + _findings(profile.findings) + _table(steps)
    return f'<style>{_STYLE}</style><div class="cenote">{content}</div>'


def _sections(profile: ProfileFields) -> Iterator[tuple[str, str]]:
    yield "Findings", _findings(profile.findings)
    yield "Roofline (rings: operations of the operator, discs: executed)", pictures.roofline(profile)
    yield "Threads, in one call of median length", pictures.threads(profile)
    steps = sorted(profile.steps, key=lambda step: -step.ms)
    yield "Steps, heaviest first", _table(steps[:_MOST_STEPS])
    yield "Memory over time", pictures.arena(profile)
    yield "Environment while it was measured", _environment(profile)


def _head(profile: ProfileFields) -> str:
    keys = "".join(
        f'<span style="background:{pictures.COLOURS[name]}"></span>{name} {milliseconds(value)}'
        for name, value in accounts_of(profile)
    )
    text = escape("\n".join(head(profile)))
    return f'<pre>{text}</pre>{pictures.bar(profile)}<p class="key">{keys}</p>'


def _findings(findings: tuple[Finding, ...]) -> str:
    items = "".join(
        f"<li><b>{escape(found.cause)}</b> ({found.share:.1%}, confidence {found.confidence:.0%}): "
        f"{escape(found.evidence)}<br>{escape(found.action)}{_gain(found)}</li>"
        for found in findings
    )
    return f"<ul>{items}</ul>" if items else ""


def _gain(found: Finding) -> str:
    measured = found.measured_gain_ms
    tried = "" if measured is None else f"; measured {milliseconds(measured)}"
    if found.gain_ms is None:
        return tried
    low, middle, high = map(milliseconds, found.gain_ms)
    return escape(f" — gain {middle} ({low} to {high}){tried}")


def _table(steps: list[StepStats]) -> str:
    heads = "".join(f"<th>{name}</th>" for name in _COLUMNS)
    rows = "".join(
        f'<tr title="{escape(step.op[:_LONGEST])}">{"".join(f"<td>{escape(cell)}</td>" for cell in row(step))}</tr>'
        for step in steps
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"


def _environment(profile: ProfileFields) -> str:
    found = profile.environment
    rows = "".join(
        f"<tr><td>{escape(name.replace('_', ' '))}</td><td>{escape(_shown(getattr(found, name)))}</td></tr>"
        for name in found.__dataclass_fields__
    )
    return f"<table>{rows}</table>"


def _shown(value: object) -> str:
    if value is None:
        return "unavailable"
    if isinstance(value, tuple):
        return " → ".join(map(_shown, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
