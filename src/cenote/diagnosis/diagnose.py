"""Search for the causes of a model's latency: a profile, then a check for every cause; treatments are tried on
request.

The method is that of Chinese medicine, which looks, listens, asks and treats: measure the steps where they run, name
the bottleneck by rules and experiments, treat, and measure again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cenote.core.deferred import dataclass
from cenote.core.text import Report
from cenote.diagnosis.context import Context
from cenote.diagnosis.gains import at_best
from cenote.diagnosis.registry import CAUSES
from cenote.diagnosis.show import html_of, text_of
from cenote.diagnosis.tried import Tried
from cenote.profile.data import Profile
from cenote.profile.fields import Finding
from cenote.profile.measure import by_name, profile
from cenote.profile.steps import roofs_together
from cenote.stages.runnable import RunnableModel

UNEXPLAINED = "unexplained"
_PROFILE_SECONDS, _DEEP_SECONDS = 2.0, 5.0
# Part of the latency; part of the roof.
_HEAVY, _FAR = 0.1, 0.5
# Milliseconds: the beginning and end of shorter steps, which roofs do not include, weigh as much as the rest.
_LONG = 0.02
# Part of a cache that a step can use where the steps around it have maps there, too.
_SHARED = 0.5
# Cores that other processes may keep busy on a machine that counts as quiet.
_FOREIGN = 0.25


@dataclass(frozen=True, repr=False)
class Diagnosis(Report):
    """Findings, those with the largest gain first, and the profile that they are about (its `findings` are the same).
    Time that no rule explains has the cause "unexplained". `treatments`: those that `treat` tried."""

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
        """Return the profile as plain data (`cenote.profile/1`), and `treatments`."""
        return {**self.profile.to_dict(), "treatments": [each.to_dict() for each in self.treatments]}


def diagnose(
    model: RunnableModel,
    inputs: Any = None,
    *,
    deep: bool = False,
    between: Callable[[], object] | None = None,
    measured: Profile | None = None,
) -> Diagnosis:
    """Find the causes of the time that calls of a model take.

    `between`: the program's work between calls. `deep` measures longer and tries more. `measured`: an existing profile
    of these calls.
    """
    arrays = by_name(model, inputs)
    profiled = measured or profile(model, arrays, seconds=_DEEP_SECONDS if deep else _PROFILE_SECONDS)
    context = Context(model, arrays, profiled, deep, between)
    findings = [finding for cause in CAUSES if (finding := cause.look(context)) is not None]
    findings.sort(key=_weight, reverse=True)
    findings += _unexplained(profiled, findings)
    return Diagnosis(replace(profiled, findings=tuple(findings)))


def _weight(finding: Finding) -> float:
    """Return the worth of a finding: the milliseconds that it would gain, times its confidence."""
    return (finding.gain_ms[1] if finding.gain_ms else 0.0) * finding.confidence + 1e-6 * finding.share


def _is_quiet(found: Profile) -> bool:
    taken = (found.environment.foreign_cores or 0.0) + (found.environment.steal_cores or 0.0)
    return taken < _FOREIGN and (found.roofs is None or found.roofs.quiet)


def _unexplained(found: Profile, findings: list[Finding]) -> list[Finding]:
    """Return heavy steps without a finding that take, in their fastest call, twice the least time of computing and
    then moving bytes. Only on a quiet machine: on another one they may be slow because of other processes."""
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
            UNEXPLAINED,
            (step.index,),
            step.share,
            f"{step.title} ({step.algorithm}) reaches {step.roof_share or 0:.0%} of {step.bound}, and no rule says why",
            0.0,
            "none known",
        )
        for step in left
    ]
