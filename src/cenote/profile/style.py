"""The style of a profile's page, and the colours of its pictures."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from html import escape

from cenote.profile.fields import ProfileFields

ACCOUNTS = {
    "kernels": "#2a9d8f",
    "waits": "#e9a23b",
    "driver": "#8d6fd1",
    "host": "#d1495b",
    "python": "#7a8794",
}
HOST = "host"
WAIT = "#e9a23b55"
_ALGORITHMS = ("#3d85c6", "#2a9d8f", "#b5638f", "#7aa95c", "#a9714b", "#8067b7", "#5f9ea8", "#9c9440")
_OTHERS = "#5f6b78"

STYLE = """
:root { color-scheme: light dark }
.cenote { font: 14px/1.5 system-ui, sans-serif; max-width: 1000px; margin: 1.5em auto; padding: 0 1em }
.cenote h1 { font-size: 1.4em; margin: 0 0 .2em; overflow-wrap: anywhere }
.cenote h2 { font-size: 1.1em; margin: 2em 0 .3em }
.cenote p { margin: .3em 0 } .cenote .faint { opacity: .72 } .cenote .big { font-size: 1.7em; font-weight: 600 }
.cenote .warn { border-left: 3px solid #e9a23b; background: #e9a23b1c; padding: .35em .8em; margin: .5em 0 }
.cenote .bar { display: flex; height: 26px; margin: .6em 0 .3em; font-size: 12px; line-height: 26px; color: #fff }
.cenote .bar i { font-style: normal; overflow: hidden; white-space: nowrap; text-indent: .5em; min-width: 1px }
.cenote .scroll { overflow-x: auto } .cenote .scroll:focus-visible { outline: 2px solid #3d85c6 }
.cenote .scroll > svg { display: block; min-width: 620px }
.cenote table { border-collapse: collapse; font-size: 13px; width: 100%; font-variant-numeric: tabular-nums }
.cenote th, .cenote td { text-align: left; padding: .2em .7em .2em 0; border-bottom: 1px solid #8883;
  vertical-align: top }
.cenote td:nth-child(2) { overflow-wrap: anywhere; min-width: 9em }
.cenote .steps th:nth-child(n+4), .cenote .steps td:nth-child(n+4) { text-align: right; white-space: nowrap }
.cenote .steps td:nth-child(5) { background: linear-gradient(to left, #3d85c64d var(--part, 0%), #0000 0) }
.cenote .pairs { columns: 19em; column-gap: 2.5em; font-size: 13px; margin: 0 }
.cenote .pairs div { display: flex; justify-content: space-between; gap: 1em; border-bottom: 1px solid #8883;
  break-inside: avoid; padding: .15em 0 }
.cenote .pairs dd { margin: 0; text-align: right }
.cenote .key span { white-space: nowrap; margin-right: 1.1em }
.cenote .key i { display: inline-block; width: .8em; height: .8em; margin-right: .4em; border-radius: 2px }
.cenote ol { padding-left: 1.4em } .cenote li { margin: .6em 0 } .cenote summary { cursor: pointer; padding: .5em 0 }
.cenote svg text { font: 12px system-ui, sans-serif; fill: currentColor }
.cenote svg .label { paint-order: stroke; stroke: Canvas; stroke-width: 4px; stroke-linejoin: round }
.cenote svg .grid { stroke: #8883 } .cenote svg .roof { stroke: currentColor; stroke-width: 1.5 }
@media (max-width: 700px) {
  .cenote .steps:not(.whole) :is(th, td):nth-child(n+6):nth-child(-n+9) { display: none }
}
"""


def document(title: str, body: str, style: str = "") -> str:
    """Return a whole page of HTML; `title` is text, `body` HTML, `style` what the page has beside the common one."""
    shown = escape(title)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{shown}</title><style>{STYLE}{style}</style></head><body><main class="cenote">'
        f"<h1>{shown}</h1>{body}</main></body></html>\n"
    )


def colours(profile: ProfileFields) -> dict[str, str]:
    """Return a colour for each algorithm or other kind of step: `ranked_colours` by their times."""
    took: dict[str, float] = {}
    for step in profile.steps:
        took[step.how] = took.get(step.how, 0.0) + step.ms
    return ranked_colours(took)


def ranked_colours(took: Mapping[str, float]) -> dict[str, str]:
    """Return a colour for each name, those that took most time first; the last ones share one. Steps on the host have
    that of the time that a call spends there."""
    ordered = sorted((name for name in took if name != HOST), key=lambda name: -took[name])
    ranked = dict(zip(ordered, _ALGORITHMS, strict=False))
    return {name: ACCOUNTS[HOST] if name == HOST else ranked.get(name, _OTHERS) for name in took}


def key(entries: Collection[tuple[str, str]]) -> str:
    """Return the meaning of colours as HTML: a name and a swatch each; those that share the last colour as "others"."""
    named = [(name, colour) for name, colour in entries if name and colour != _OTHERS]
    others = [("others", _OTHERS)] if any(colour == _OTHERS for name, colour in entries if name) else []
    items = "".join(
        f'<span><i style="background:{colour}"></i>{escape(name)}</span>'
        for name, colour in (*named, *others)
    )
    return f'<p class="key">{items}</p>' if items else ""
