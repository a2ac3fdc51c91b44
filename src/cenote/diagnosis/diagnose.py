"""Why a model takes as long as it does: a profile, then every cause looked for; what helps, tried on request.

The method is that of Chinese medicine, which looks, listens, asks and treats: measure the steps where they run, name
the bottleneck by rules and experiments, treat, and measure again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from cenote.diagnosis.context import Changed, Context
from cenote.diagnosis.gains import at_best
from cenote.diagnosis.registry import CAUSES
from cenote.diagnosis.show import html_of, text_of
from cenote.diagnosis.tried import Tried
from cenote.profile.data import Finding, Profile
from cenote.profile.measure import by_name, profile
from cenote.profile.steps import roofs_together

UNEXPLAINED = "unexplained"
_PROFILE_SECONDS, _DEEP_SECONDS = 2.0, 5.0
_HEAVY, _FAR = 0.1, 0.5  # of the latency; of its roof
_LONG = (
    0.02  # milliseconds: the beginning and end of shorter steps, of which roofs know nothing, weigh as much
)
_SHARED = 0.5  # of a cache: what a step finds of it where the steps around it have maps there, too
_FOREIGN = 0.25  # cores that others may keep busy on a machine that counts as quiet


@dataclass(frozen=True)
class Diagnosis:
    """Findings, those that would gain most first; the profile that they are of (its `findings` are the same). What is
    left has the cause "unexplained". `treatments`: what `treat` tried."""

    profile: Profile
    treatments: tuple[Tried, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.profile.findings

    def __str__(self) -> str:
        return text_of(self.profile, self.treatments)

    def _repr_html_(self) -> str:
        return html_of(self.profile, self.treatments)

    def to_dict(self) -> dict[str, Any]:
        """The profile as plain data (`cenote.profile/1`), and `treatments`."""
        return {**self.profile.to_dict(), "treatments": [each.to_dict() for each in self.treatments]}


def diagnose(
    model: Any, inputs: Any = None, *, deep: bool = False, changed: Changed | None = None,
    between: Callable[[], object] | None = None, measured: Profile | None = None,
) -> Diagnosis:  # fmt: skip
    """Why calls of a model take as long as they do.

    `changed` gives the model under other options, for experiments; without, causes that need them are not looked for.
    `between`: what the program does between calls. `deep` measures longer and tries more. `measured`: a profile of
    these calls that is at hand.
    """
    arrays = by_name(model, inputs)
    found = measured or profile(model, arrays, seconds=_DEEP_SECONDS if deep else _PROFILE_SECONDS)
    context = Context(model, arrays, found, changed, deep, between)
    findings = [finding for cause in CAUSES if (finding := cause.look(context)) is not None]
    findings.sort(key=_weight, reverse=True)
    findings += _unexplained(found, findings)
    return Diagnosis(replace(found, findings=tuple(findings)))


def _weight(finding: Finding) -> float:
    """What a finding is worth: the milliseconds that it would gain, as far as they are sure."""
    return (finding.gain_ms[1] if finding.gain_ms else 0.0) * finding.confidence + 1e-6 * finding.share


def _is_quiet(found: Profile) -> bool:
    taken = (found.environment.foreign_cores or 0.0) + (found.environment.steal_cores or 0.0)
    return taken < _FOREIGN and (found.roofs is None or found.roofs.quiet)


def _unexplained(found: Profile, findings: list[Finding]) -> list[Finding]:
    """Heavy steps that no finding is about and that take, in their fastest call, twice what computing and then moving
    bytes take at least: on a quiet machine, for on another one they may be slow because of others."""
    if not _is_quiet(found) or found.roofs is None:
        return []
    named = {index for finding in findings for index in finding.steps}
    left = [
        step
        for step in found.heaviest()
        if step.share >= _HEAVY
        and step.ms >= _LONG
        and step.index not in named
        and step.roof_share is not None
        and at_best(step) < _FAR
        and at_best(step, roofs_together(step, found.roofs, _SHARED)) < _FAR
    ]
    return [
        Finding(
            UNEXPLAINED, (step.index,), step.share,
            f"{step.title} ({step.algorithm}) reaches {step.roof_share or 0:.0%} of {step.bound}, and no rule says why",
            0.0, "none known",
        )
        for step in left
    ]  # fmt: skip
