"""The form of a cause of lost time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cenote.diagnosis.context import Context
from cenote.profile.data import Finding


@dataclass(frozen=True)
class Cause:
    """A cause of lost time. `look` searches a model's profile for it, with experiments where needed, or returns
    None."""

    name: str
    look: Callable[[Context], Finding | None]
