"""Results of `cenote.verify`, as data, as text and as a page."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from cenote.core.deferred import dataclass
from cenote.core.text import Report, aligned
from cenote.verification.fields import (
    Divergence,
    SizesRun,
    ValueErrors,
    VerificationFields,
    shown,
    sizes_text,
)
from cenote.verification.page import page


@dataclass(frozen=True, repr=False)
class Verification(Report, VerificationFields):
    __doc__ = VerificationFields.__doc__

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON. JSON has no infinity, so it becomes the text "Infinity"."""

        def plain(row: ValueErrors | Divergence | SizesRun) -> dict[str, Any]:
            return {key: "Infinity" if value == math.inf else value for key, value in asdict(row).items()}

        return {
            "ok": self.ok,
            "against": self.against,
            "tolerance": self.tolerance,
            "first": None if self.first is None else plain(self.first),
            "values": [plain(row) for row in self.values],
            "sizes": [plain(row) for row in self.sizes],
        }

    def html(self, name: str = "the model") -> str:
        """Return all of it as one page without external files, with a picture of the values' errors; `name` is its
        title."""
        return page(self, name)

    def _headline(self) -> str:
        """Return the verdict."""
        return self.verdict

    def __str__(self) -> str:
        rows = [("value", "node", "inherited", "local")]
        rows += [(row.value, row.node, shown(row.inherited), shown(row.local)) for row in self.values]
        return "\n".join([*aligned(rows, range(4)), *self._runs(), self.verdict])

    def _runs(self) -> list[str]:
        """Return a table of the runs of the loaded model, and the first refusal."""
        made = [run for run in self.sizes if not run.refused]
        refused = [run for run in self.sizes if run.refused]
        rows = [("the loaded model at", "output", "inherited")] if self.sizes else []
        rows += [(sizes_text(run.shapes), run.output, shown(run.inherited)) for run in made]
        lines = aligned(rows, range(3))
        if refused:
            further = f" (and {len(refused) - 1} other sizes)" if len(refused) > 1 else ""
            lines.append(f"refused: {sizes_text(refused[0].shapes)}: {refused[0].refused}{further}")
        return lines
