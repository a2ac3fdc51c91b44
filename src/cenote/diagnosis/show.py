"""A diagnosis as text and as a fragment for notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from cenote.core.text import digits
from cenote.diagnosis.tried import Tried
from cenote.profile.data import Profile
from cenote.profile.fields import Finding
from cenote.profile.table import head, milliseconds


def text_of(profile: Profile, treatments: Sequence[Tried]) -> str:
    """Return the findings one after another, and the treatments that were tried."""
    lines = [*head(profile)]
    if not profile.findings:
        lines += ["", "nothing found that takes 5 % of the latency and could be otherwise"]
    for number, finding in enumerate(profile.findings, 1):
        lines += ["", *_finding(number, finding)]
    if treatments:
        lines += ["", *map(str, treatments)]
    elif count := sum(bool(each.treatments) for each in profile.findings):
        lines += [
            "",
            f"{count} of these can be tried here: `cenote diagnose --apply`, or `model.treat(diagnosis)`",
        ]
    return "\n".join(lines)


def _finding(number: int, finding: Finding) -> Iterator[str]:
    certain = f", confidence {finding.confidence:.0%}" if finding.confidence else ""
    yield f"{number}. {finding.cause}: {finding.share:.0%} of the latency{certain}"
    yield f"   {finding.evidence}"
    yield f"   do: {finding.action}"
    if finding.gain_ms is not None:
        low, middle, high = (milliseconds(max(0.0, each)) for each in finding.gain_ms)
        yield f"   would gain {middle} ({low} to {high})"
    if finding.measured_gain_ms is not None:
        yield f"   tried: gains {digits(finding.measured_gain_ms)} ms"


def html_of(profile: Profile, treatments: Sequence[Tried]) -> str:
    """Return the profile's accounts, findings and heaviest steps, and the treatments that were tried."""
    rows = "".join(f"<li>{escape(str(each))}</li>" for each in treatments)
    return profile._repr_html_() + (f"<ul>{rows}</ul>" if rows else "")
