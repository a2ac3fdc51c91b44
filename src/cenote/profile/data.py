"""A profile: frozen data that prints as a table, is displayed in notebooks, and is written as JSON, a page and a
trace."""

from __future__ import annotations

import json
from typing import Any

from cenote.core.deferred import dataclass
from cenote.core.text import Report
from cenote.profile.events import trace_events
from cenote.profile.fields import ProfileFields
from cenote.profile.page import fragment, page
from cenote.profile.plain import from_plain, to_plain
from cenote.profile.table import TOP, table

SCHEMA = "cenote.profile/1"


@dataclass(frozen=True, repr=False)
class Profile(Report, ProfileFields):
    __doc__ = ProfileFields.__doc__

    def __str__(self) -> str:
        return self.table()

    def table(self, top: int = TOP, metrics: bool = False) -> str:
        """Return the accounts, and the `top` steps that take the most time, as text (0: all steps). `metrics`: with the
        four measures of each step (computing, bandwidth, cache hits, pipeline) in place of rates."""
        return table(self, top, metrics)

    def html(self) -> str:
        """Return everything as one page without external files: accounts, findings, roofline, the threads' timelines,
        the places of buffers in memory, steps, environment."""
        return page(self)

    def _repr_html_(self) -> str:
        return fragment(self)

    def trace(self) -> str:
        """Return the threads' actions in one call, as events for Perfetto or chrome://tracing (JSON)."""
        return json.dumps(trace_events(self), separators=(",", ":"))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON: {"schema": "cenote.profile/1", ...} with the fields' names."""
        return {"schema": SCHEMA, **to_plain(self)}

    @staticmethod
    def from_dict(data: Any) -> Profile:
        """Return the profile of `to_dict`'s data, also after a trip through JSON. Raises ArgumentError for other
        data."""
        return from_plain(Profile, data, SCHEMA)
