"""A diagnosis as text and as HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence

from cenote.diagnosis.cause import Treatment
from cenote.profile.data import Finding, Profile


def _gain(finding: Finding) -> str:
    if finding.gain_ms is None:
        return "-"
    low, middle, high = finding.gain_ms
    return f"{middle:.3g} ({low:.3g} to {high:.3g})"


def _measured(finding: Finding) -> str:
    return "-" if finding.measured_gain_ms is None else f"{finding.measured_gain_ms:.3g}"


def _head(profile: Profile) -> str:
    return f"{profile.model}: {profile.wall_ms:.4g} ms a call on {profile.threads} thread(s), {profile.processor}"


def text_of(profile: Profile, treatments: Sequence[Treatment]) -> str:
    """One finding after another, with what was tried."""
    lines = [_head(profile)]
    if not profile.findings:
        lines.append("nothing found that takes 5 % or more of it and could be otherwise")
    for number, finding in enumerate(profile.findings, 1):
        lines += [
            "",
            f"{number}. {finding.cause}: {finding.share:.0%} of the latency, confidence {finding.confidence:.0%}",
            f"   {finding.evidence}",
            f"   do: {finding.action}",
            f"   gain, ms: {_gain(finding)}"
            + (f"; measured {_measured(finding)}" if finding.measured_gain_ms is not None else ""),
        ]
    for each in treatments:
        words = ", ".join(f"{name}={value}" for name, value in each.options.items())
        lines += [
            "",
            f"tried {words}: {'kept' if each.kept else 'left'} ({each.why}); gain {each.gain_ms[1]:.3g} ms",
        ]
    return "\n".join(lines)


def html_of(profile: Profile) -> str:
    """A table for notebooks."""
    cells = [
        (
            each.cause, f"{each.share:.0%}", each.evidence, each.action, _gain(each), _measured(each),
        )
        for each in profile.findings
    ]  # fmt: skip
    head = "".join(
        f"<th>{name}</th>" for name in ("cause", "share", "evidence", "do", "gain, ms", "measured")
    )
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in cells
    )
    return f"<p>{html.escape(_head(profile))}</p><table><tr>{head}</tr>{rows}</table>"
