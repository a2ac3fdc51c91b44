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

    def timed(self, threads: int) -> Row | None:
        """The times with so many threads."""
        return next((row for row in self.rows if row.threads == threads), None)


def read(folder: Path, name: str) -> Found:
    """The file's content, or nothing but the name."""
    path = folder / f"{name}.json"
    if not path.exists():
        return Found(name)
    plain = json.loads(path.read_text())
    checks = {key: plain[key] and Check(**plain[key]) for key in ("fixed", "open")}
    return Found(name, **checks, tolerance=plain["tolerance"], rows=list(map(Row.from_json, plain["rows"])))


def write(folder: Path, found: Found) -> None:
    """Write the file, whole or not at all."""
    plain = {
        "name": found.name,
        "fixed": found.fixed and finite(asdict(found.fixed)),
        "open": found.open and finite(asdict(found.open)),
        "tolerance": found.tolerance,
        "rows": [row.as_json() for row in found.rows],
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
