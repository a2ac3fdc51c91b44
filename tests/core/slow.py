"""A function that takes a given time to compile."""

from __future__ import annotations

import time
from dataclasses import dataclass

from cenote.core.target import Target


@dataclass(frozen=True)
class Slow:
    """A function that takes `seconds` to compile."""

    symbol: str
    target: Target
    seconds: float

    def emit(self, target: Target) -> Slow:
        time.sleep(self.seconds)
        return self

    def module(self) -> str:
        return f"define void @{self.symbol}() {{ ret void }}"
