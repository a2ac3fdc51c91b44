"""Results of the treatments that were tried."""

from __future__ import annotations

from typing import Any

from cenote.core.deferred import dataclass
from cenote.core.text import digits
from cenote.profile.fields import Treatment


@dataclass(frozen=True)
class Tried:
    """A treatment and its result. `gain_ms`: milliseconds (low, middle, high) that it gained in paired calls beside
    the treatments kept before, None where it was not measured; `difference`: the largest of an output relative to its
    largest value; `kept`, and the reason (`why`)."""

    treatment: Treatment
    gain_ms: tuple[float, float, float] | None = None
    difference: float = 0.0
    kept: bool = False
    why: str = ""

    def __str__(self) -> str:
        if self.gain_ms is None and not self.difference:
            return f"not tried: {self.treatment}: {self.why}"
        gain = "" if self.gain_ms is None else f", gain {digits(self.gain_ms[1])} ms"
        return f"tried: {self.treatment}: {'kept' if self.kept else 'left'} ({self.why}){gain}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return {
            "options": dict(self.treatment),
            "gain_ms": None if self.gain_ms is None else list(self.gain_ms),
            "difference": self.difference,
            "kept": self.kept,
            "why": self.why,
        }
