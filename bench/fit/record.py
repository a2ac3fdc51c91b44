"""Figures of choices, and the record of constants with them."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from statistics import mean
from typing import Any

from bench.fit.cases import EQUAL, Outcome
from bench.report import table
from cenote.core.target import processor
from cenote.kernels.constants import FILE, CostConstants, stored


def summary(found: Sequence[Outcome]) -> dict[str, float]:
    """Layers, the share whose first choice is the fastest within 3 %, the mean loss of time and the worst."""
    losses = [each.loss for each in found]
    return {
        "layers": len(losses),
        "share": round(mean(loss <= EQUAL for loss in losses), 4),
        "mean_loss": round(mean(losses) - 1, 4),
        "worst_loss": round(max(losses) - 1, 4),
    }


def by_kind(found: Sequence[Outcome]) -> dict[str, dict[str, float]]:
    """The same for each kind of layer."""
    kinds: dict[str, list[Outcome]] = defaultdict(list)
    for each in found:
        kinds[each.kind].append(each)
    return {kind: summary(each) for kind, each in sorted(kinds.items())}


def missed(found: Sequence[Outcome]) -> list[list[Any]]:
    """Pairs of algorithms (chosen, fastest) where the first choice lost more than 3 %, how often and by how much at
    most; the most frequent first."""
    pairs: dict[tuple[str, str], list[float]] = defaultdict(list)
    for each in found:
        if each.loss > EQUAL:
            pairs[each.first, each.fastest].append(each.loss)
    order = Counter({pair: len(losses) for pair, losses in pairs.items()}).most_common()
    return [[*pair, count, round(max(pairs[pair]) - 1, 4)] for pair, count in order]


def shown(found: Sequence[Outcome]) -> str:
    """The figures as Markdown."""
    kinds = {"all": summary(found), **by_kind(found)}
    rows = [
        [
            kind,
            f"{each['layers']:.0f}",
            *(f"{each[name]:.1%}" for name in ("share", "mean_loss", "worst_loss")),
        ]
        for kind, each in kinds.items()
    ]
    pairs = [[first, fastest, str(count), f"{worst:.0%}"] for first, fastest, count, worst in missed(found)]
    return "\n".join(
        (
            table(["layers", "number", "first choice fastest within 3 %", "mean loss", "worst loss"], rows),
            "",
            table(["chosen", "fastest", "layers", "worst loss"], pairs),
        )
    )


def store(kind: str, constants: CostConstants, found: Sequence[Outcome], others: dict[str, Any]) -> None:
    """Write a kind's record into the package's file, beside those of the other kinds."""
    figures = {
        "machine": processor(),
        "date": datetime.now(UTC).date().isoformat(),
        **summary(found),
        **others,
        "kinds": by_kind(found),
        "missed": missed(found),
    }
    records = {**stored(), kind: {"figures": figures, "constants": vars(constants)}}
    FILE.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
