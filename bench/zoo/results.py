"""What was found of the zoo's networks, a JSON file each, so that a run may be cut and continued."""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.verdict import TOLERANCE, Row
from bench.zoo.checks import Check


@dataclass
class Found:
    """All that is known of one network; None: not checked so far."""

    name: str
    fixed: Check | None = None
    open: Check | None = None
    tolerance: float = TOLERANCE
    rows: list[Row] = field(default_factory=list)
    # The file of open sizes at the same size, beside the one of fixed size and ONNX Runtime.
    open_rows: list[Row] = field(default_factory=list)

    def timed(self, threads: int, *, opened: bool = False) -> Row | None:
        """The times with so many threads, of the file of fixed size or of open sizes."""
        return next((row for row in self.rows_of(opened) if row.threads == threads), None)

    def rows_of(self, opened: bool) -> list[Row]:
        """The times of one file, with any number of threads."""
        return self.open_rows if opened else self.rows

    def add(self, row: Row, opened: bool) -> None:
        """Keep new times in place of earlier ones."""
        rows = self.rows_of(opened)
        rows[:] = [*(other for other in rows if other.threads != row.threads), row]


def read(folder: Path, name: str) -> Found:
    """The file's content, or nothing but the name."""
    path = folder / f"{name}.json"
    if not path.exists():
        return Found(name)
    plain = json.loads(path.read_text())
    checks = {key: plain[key] and Check(**plain[key]) for key in ("fixed", "open")}
    rows, open_rows = (list(map(Row.from_json, plain.get(key, ()))) for key in ("rows", "open_rows"))
    return Found(name, **checks, tolerance=plain["tolerance"], rows=rows, open_rows=open_rows)


def write(folder: Path, found: Found) -> None:
    """Write the file, whole or not at all."""
    plain = {
        "name": found.name,
        "fixed": found.fixed and finite(asdict(found.fixed)),
        "open": found.open and finite(asdict(found.open)),
        "tolerance": found.tolerance,
        "rows": [row.as_json() for row in found.rows],
        "open_rows": [row.as_json() for row in found.open_rows],
    }
    part = folder / f"{found.name}.part"
    part.write_text(json.dumps(plain, indent=1) + "\n")
    os.replace(part, folder / f"{found.name}.json")


def finite(plain: dict[str, Any]) -> dict[str, Any]:
    """The same with the largest float in place of infinity, which JSON does not have."""
    return {
        key: 1e308 if isinstance(value, float) and math.isinf(value) else value
        for key, value in plain.items()
    }
