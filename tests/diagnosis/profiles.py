"""Profiles with given numbers, and models that do nothing, for tests of rules: nothing is timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cenote.core.types import Array, Declared
from cenote.diagnosis.context import Context, Difference
from cenote.profile.data import Profile
from cenote.profile.environment import Environment
from cenote.profile.fields import Accounts, StepStats
from cenote.runtime.signature import Signature
from tests.profile.samples import ROOFS

INPUTS = {"x": np.zeros((2, 3), np.float32)}
GAIN = Difference(3.0, 4.0, 5.0, 10.0)
NO_GAIN = Difference(-1.0, 0.0, 1.0, 10.0)


def step(share: float = 0.9, **others: Any) -> StepStats:
    """A step of a profile of 10 ms, on one thread, unless `others` say otherwise."""
    ms = 10 * share
    known: dict[str, Any] = {
        "index": 0, "stage": 0, "kind": "kernel", "node": "y0", "op": "conv(pads=((1,1),(1,1)))", "algorithm": "direct",
        "output": "", "ms": ms, "share": share, "kernels_ms": ms, "waits_ms": 0.0, "driver_ms": 0.0, "busy_ms": (ms,),
        "group": 0, "low_ms": ms, "mad_ms": 0.0, "blocks_ms": (ms,), "items": 100,
    }  # fmt: skip
    return StepStats(**{**known, **others})


def profile(*steps: StepStats, **others: Any) -> Profile:
    """Of 10 ms on 2 CPUs of a quiet machine. `environment` and `accounts`: what is different there."""
    environment = Environment(2.0, 2, 2, foreign_cores=0.0, steal_cores=0.0, online=2)
    environment = replace(environment, **others.pop("environment", {}))
    accounts = replace(Accounts(9.0, 0.0, 0.0, 0.0, 1.0), **others.pop("accounts", {}))
    indexed = tuple(replace(each, index=index) for index, each in enumerate(steps))
    known: dict[str, Any] = {
        "model": "net", "inputs": (), "threads": 1, "precision": "fast", "version": "", "processor": "a processor",
        "target": "avx2", "calls": 10, "wall_ms": 10.0, "recorded_ms": 10.0, "spread": 0.01, "accounts": accounts,
        "environment": environment, "steps": indexed, "roofs": ROOFS,
    }  # fmt: skip
    return Profile(**{**known, **others})


class Known(Context):
    """A context whose experiments have known results: by option ("threads", "algorithms", …), "hot", "inputs" and
    "kept"."""

    def __init__(
        self, found: Profile, results: Mapping[str, Difference] | None = None, **others: Any
    ) -> None:
        super().__init__(FakeModel(), others.pop("inputs", INPUTS), found, **others)
        self.results = dict(results or {})
        self.asked: list[dict[str, Any]] = []
        self.rests, self.taken = False, 0.0

    def gain_of(self, **options: Any) -> Difference | None:
        self.asked.append(options)
        return self.results.get(next(iter(options)))

    def gain_with(self, inputs: Mapping[str, Array]) -> Difference:
        return self.results["inputs"]

    def gain_hot(self) -> Difference | None:
        return self.results.get("hot")

    def gain_kept(self) -> Difference | None:
        return self.results.get("kept")

    def team_is_taken(self) -> float:
        return self.taken

    def rests_between(self) -> bool:
        return self.rests


class _AnyNames(Signature):
    """A signature that takes inputs of any names."""

    def check_names(self, given: Mapping[str, Any]) -> None:
        """All are right."""


class FakeModel:
    """A model that gives what it is told, and counts its calls. `make` gives those under other options."""

    inputs: tuple[Declared, ...] = ()
    signature: Signature = _AnyNames(())
    precision = "fast"
    plans = ()

    def __init__(
        self,
        answer: float = 1.0,
        work: Callable[[], object] = lambda: None,
        make: Callable[..., Any] | None = None,
    ) -> None:
        self.answer, self.work, self.calls, self.make = answer, work, 0, make
        self.kept: dict[str, Any] = {}

    def last_run(self) -> Any:
        raise AssertionError("it has no stages")

    def running(self, shapes: Any, stage: Any) -> Any:
        raise AssertionError("it has no stages")

    def changed(self, **options: Any) -> Any:
        """What `make` gives for the options that it has and these; algorithms are added."""
        assert self.make is not None, "not even tried"
        named = {**self.kept.get("algorithms", {}), **options.get("algorithms", {})}
        kept = {**self.kept, **options, **({"algorithms": named} if named else {})}
        other = self.make(**kept)
        other.kept, other.make = kept, self.make
        return other

    def run(self, inputs: Mapping[str, Any], outputs: Any = None) -> dict[str, Array]:
        self.calls += 1
        self.work()
        return {"y": np.full(4, self.answer, np.float32)}
