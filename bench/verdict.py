"""Who won: ratios between Cenote and its fastest correct peer."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from math import exp, inf, isfinite, log
from typing import Any

from bench.rounds import Outcome

OURS = "cenote"
# Largest error, relative to the largest output, at which a time counts.
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Row:
    """All engines on one piece of work with one number of threads."""

    work: str
    threads: int
    outcomes: list[Outcome]
    multiply_adds: int = 0
    bytes_moved: int = 0
    tolerance: float = TOLERANCE

    def counts(self, outcome: Outcome) -> bool:
        """Whether the engine did the work, and did it right."""
        return not outcome.failure and outcome.error <= self.tolerance

    def outcome(self, engine: str) -> Outcome | None:
        """What one engine did."""
        return next((outcome for outcome in self.outcomes if outcome.engine == engine), None)

    def ours(self) -> Outcome | None:
        """Cenote's outcome, if it counts."""
        outcome = self.outcome(OURS)
        return outcome if outcome is not None and self.counts(outcome) else None

    def best_peer(self, statistic: str = "median", wrong_too: bool = False) -> Outcome | None:
        """The fastest peer among those whose answer is right, or among all that gave one."""
        peers = [o for o in self.outcomes if not o.engine.startswith(OURS) and not o.failure]
        peers = peers if wrong_too else [o for o in peers if self.counts(o)]
        return min(peers, key=lambda outcome: getattr(outcome, statistic), default=None)

    def ratio(self, statistic: str = "median", wrong_too: bool = False) -> float | None:
        """Time of the fastest correct peer over Cenote's; above one, Cenote is faster."""
        ours, peer = self.ours(), self.best_peer(statistic, wrong_too)
        if ours is None or peer is None:
            return None
        return float(getattr(peer, statistic) / getattr(ours, statistic))

    def ratio_range(self) -> tuple[float, float] | None:
        """Smallest and largest ratio of round medians: how far to trust the ratio."""
        ours, peer = self.ours(), self.best_peer()
        if ours is None or peer is None:
            return None
        pairs = zip(peer.round_medians, ours.round_medians, strict=False)
        ratios = [theirs / mine for theirs, mine in pairs]
        return min(ratios), max(ratios)

    def foreign_cores(self) -> float:
        """Cores that others kept busy, averaged over the engines that were measured."""
        values = [outcome.foreign_cores for outcome in self.outcomes if len(outcome.round_medians) > 1]
        return sum(values) / len(values) if values else 0.0

    def as_json(self) -> dict[str, Any]:
        """Plain data, with null in place of infinity, which JSON does not have."""
        plain = {**asdict(self), "ratio": self.ratio(), "ratio_of_minima": self.ratio("fastest")}
        for outcome in plain["outcomes"]:
            for key, value in outcome.items():
                if isinstance(value, float) and not isfinite(value):
                    outcome[key] = None
        return plain

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> "Row":
        """The row that `as_json` made this of."""
        outcomes = []
        for outcome in plain["outcomes"]:
            values: dict[str, Any] = {key: inf if value is None else value for key, value in outcome.items()}
            outcomes.append(Outcome(**values))
        given = {key: plain[key] for key in ("work", "threads", "multiply_adds", "bytes_moved", "tolerance")}
        return cls(outcomes=outcomes, **given)


def geometric_mean(ratios: Iterable[float | None]) -> float | None:
    """Over the ratios that exist."""
    logarithms = [log(ratio) for ratio in ratios if ratio is not None]
    return exp(sum(logarithms) / len(logarithms)) if logarithms else None
