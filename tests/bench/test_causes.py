"""What the table of causes says of runs that are given: nothing is measured."""

from __future__ import annotations

from typing import Any

import pytest

from bench.causes import row_of, slowdown, summary, verdict


def run(*findings: tuple[str, float], wall: float = 2.0, **others: Any) -> dict[str, Any]:
    made = [(cause, share, (0.1, 0.2, 0.3), "evidence") for cause, share in findings]
    known = {
        "findings": made,
        "wall ms": wall,
        "call ms": wall,
        "work": 1.0,
        "loads ms": [50.0, 5.0],
        "recorded": False,
    }
    return {**known, "lost between calls": None, **others}


WELL = [run(wall=1.0) for _ in range(10)]


@pytest.mark.parametrize(
    ("named", "well", "said"),
    [
        (9, WELL, "holds"),
        (8, WELL, "FAILED: named first in 8 of 10 runs"),
        (10, [run(("fma", 0.04), wall=1.0)] * 10, "holds"),
        (10, [run(("fma", 0.06), wall=1.0), *WELL[1:]], "FAILED: the healthy twin was told something in 1 of 10"),
        (10, [run(wall=1.96) for _ in range(10)], "not reproducible here: the plant slows by 2.0%"),
    ],
)  # fmt: skip
def test_the_verdict(named: int, well: list[dict[str, Any]], said: str) -> None:
    sick = [run(("cold", 0.5) if i < named else ("fma", 0.2), ("fma", 0.1)) for i in range(10)]
    row = row_of("cold", sick, well)
    assert verdict(row).startswith(said)
    assert row["instead"] == ([] if named == 10 else ["fma"])


def test_what_slows() -> None:
    half = [run(wall=1.0, work=0.25)]
    assert slowdown("lanes", half, WELL) == pytest.approx(3.0), "four times as long for the same work"
    assert slowdown("cold", [run(**{"lost between calls": 0.3})], WELL) == 0.3
    assert slowdown("foreign", [run(wall=1.0, **{"call ms": 3.0})], WELL) == 2.0, (
        "on average, long gaps counted"
    )
    assert slowdown("start", [run(**{"loads ms": [10.0, 1.0]})], WELL) == 1.0


def test_a_recorded_environment_is_said_to_be_one() -> None:
    row = row_of("throttled", [run(("throttled", 0.4), wall=1.0, recorded=True)], WELL)
    assert verdict(row) == "holds: of a recorded environment"
    rows = [{"verdict": each} for each in ("holds", verdict(row), "FAILED: x")]
    assert summary(rows) == "1 FAILED, 2 holds of 3 causes;"
