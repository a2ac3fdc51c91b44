"""An extension of Cenote. Importing it registers what it has: operators and a pooling algorithm."""

from __future__ import annotations

from cenote_example.functions import center
from cenote_example.pooling import plain_windows
from cenote_example.shrink import Shrink

__all__ = ["Shrink", "center", "plain_windows"]
