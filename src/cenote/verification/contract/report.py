"""Results of `cenote.check_operator`, as data and as text."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from cenote.core.deferred import dataclass
from cenote.core.text import aligned


@dataclass(frozen=True)
class ContractRow:
    """One check of an operator: how often it was made, and the first problem that was seen; "" for none. `note`: what
    kept it from being made more often, or at all."""

    check: str
    cases: int
    problem: str = ""
    note: str = ""


@dataclass(frozen=True)
class OperatorReport:
    """The result of `check_operator`: the operator's name, its class with file and line, the instruction sets that its
    lowerings ran on, and a row for each check."""

    operator: str
    place: str
    targets: tuple[str, ...]
    rows: tuple[ContractRow, ...]

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return not any(row.problem for row in self.rows)

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {"ok": self.ok, **asdict(self)}

    def __str__(self) -> str:
        cells = [
            (row.check, str(row.cases), "failed" if row.problem else row.note or "ok") for row in self.rows
        ]
        lines = [f"{self.operator}: {self.place}", *aligned([("check", "cases", "result"), *cells], (0, 2))]
        lines += [f"failed: {row.check}: {row.problem}" for row in self.rows if row.problem]
        if self.ok:
            lines.append(f"all is well, on {', '.join(self.targets)}")
        return "\n".join(lines)
