"""An extension of Cenote. Importing it registers what it has: two operators."""

from __future__ import annotations

from cenote_example.functions import center
from cenote_example.shrink import Shrink

__all__ = ["Shrink", "center"]
