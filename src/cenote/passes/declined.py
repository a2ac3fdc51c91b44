"""Reasons why a pass leaves a layer in wider numbers than were asked for, which plans show (`Graph.reasons`)."""

from __future__ import annotations

from cenote.core.text import shown_seconds


class Declined(Exception):
    """A layer is not put in narrower numbers; the message says why."""


def slower(narrow: float, wide: float, word: str) -> str:
    """Return the reason where narrower numbers, named by `word`, are estimated to take more seconds than float32."""
    return f"estimated to be slower: {shown_seconds(narrow)} {word}, {shown_seconds(wide)} in float32"
