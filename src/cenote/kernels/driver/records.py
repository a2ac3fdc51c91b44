"""Words of records in memory by their names, as `runtime.layouts` has them."""

from __future__ import annotations

from cenote.codegen.values import Pointer, Value
from cenote.runtime.layouts import WordRecord


class WordsByName:
    """Addresses of the words of a record, or of one in a table: `step.items.load()`.

    Each use computes an address: what a loop needs again is kept in a variable.
    """

    def __init__(self, layout: WordRecord, start: Pointer, index: Value | int = 0) -> None:
        self._places, self._start = layout.places, start + index * layout.size

    def __getattr__(self, name: str) -> Pointer:
        return self._start + self._places[name]
