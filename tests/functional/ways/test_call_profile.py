"""`profile_call`: a clock that is planted, roofs that are given, and functions that do what they do."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import cenote
import cenote.functional as F
from cenote.core.errors import ArgumentError, CenoteError
from cenote.functional.ways import call_profile
from cenote.functional.ways.explanation import Explanation
from tests.functional.inputs import noise
from tests.fuzz.call_samples import samples
from tests.profile.samples import ROOFS

X = noise(1, 8, 32, 32)


class Clock:
    """A clock that goes on by `step` nanoseconds whenever it is read, by the next of `steps` first."""

    def __init__(self, step: int, *steps: int) -> None:
        self.now, self.step, self.steps = 0, step, list(steps)

    def __call__(self) -> int:
        self.now += self.steps.pop(0) if self.steps else self.step
        return self.now


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_profile, "roofs", lambda threads: ROOFS)
    monkeypatch.setattr(call_profile, "_now", Clock(1_000_000))


def test_times_are_those_of_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    warm_up = [0, 9_000_000] + [0, 1_000_000] * 3  # a turn is one call
    turns = [0, 0, 1_000_000, 0, 3_000_000, 0, 2_000_000, 0, 2_000_000]
    monkeypatch.setattr(call_profile, "_now", Clock(10**9, *warm_up, *turns))
    calls: list[int] = []
    times, each = call_profile._timed(lambda: calls.append(0), 0.3)
    assert each == 1
    assert times.tolist() == [1.0, 3.0, 2.0, 2.0]
    assert len(calls) == 4 + 4
    # Calls of 1 us: a turn has 100 of them. One warm call that was held up does not matter.
    monkeypatch.setattr(call_profile, "_now", Clock(50_000_000, *([0, 1000] * 3), 0, 10**9))
    times, each = call_profile._timed(lambda: None, 1e-3 * 200)
    assert each == 100
    assert times[0] == 0.5


def test_a_profile_holds_what_is_explained_and_measured() -> None:
    found = cenote.profile_call(F.max_pool2d, X, 3, stride=2, threads=1)
    expected = F.explain(F.max_pool2d, X, 3, stride=2, threads=1)
    assert found.explanation == expected
    assert (found.function, found.algorithm) == ("max_pool2d", expected.algorithm)
    assert found.median_ms == found.least_ms == 1.0
    assert found.spread == 0
    outputs = 8 * 15 * 15
    assert expected.cost.operations == outputs * 9
    assert expected.written_bytes == outputs * 4
    assert expected.cost.bytes == X.nbytes + outputs * 4
    assert found.operations_per_second == pytest.approx(outputs * 9 * 1e3)
    assert found.bytes_per_second == pytest.approx((X.nbytes + outputs * 4) * 1e3)
    # Of ROOFS: 32 KiB lie in L1, of which the input has more.
    assert found.bound == "memory"
    (seconds, _) = ROOFS.transfer_seconds(X.nbytes, outputs * 4, 1) or (0.0, "")
    assert found.roof_share == pytest.approx(seconds / 1e-3)
    text = str(found)
    assert text.startswith(str(expected))
    assert "median 1 ms (±0.0%" in text
    assert "of the nearest roof (memory)" in text
    assert cenote.profile_call("max_pool2d", X, 3, stride=2, threads=1).explanation == expected


def test_a_profile_survives_json() -> None:
    for found in (cenote.profile_call(F.relu, X), cenote.profile_call(F.max_pool2d_backward, X, X, 1)):
        data = json.loads(json.dumps(found.to_dict()))
        assert data["schema"] == "cenote.call_profile/1"
        assert cenote.CallProfile.from_dict(data) == found
    with pytest.raises(ArgumentError, match=r"this is no cenote\.call_profile/1"):
        cenote.CallProfile.from_dict({"schema": "cenote.profile/1"})


def test_computing_is_the_nearest_roof_where_it_takes_longer_than_memory() -> None:
    x, weights = noise(1, 32, 16, 16), noise(32, 32, 3, 3)
    found = cenote.profile_call(F.conv2d, x, weights, padding=1, threads=1)
    work = found.explanation
    assert work.cost.operations == 2 * 32 * 32 * 9 * 256
    assert work.executed_operations
    assert work.dtype == "float32"
    assert found.bound == "fma"
    assert found.roof_share == pytest.approx(work.executed_operations / 100e9 / 1e-3)


def test_a_kernel_that_executes_fewer_operations_is_not_above_the_roof(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(call_profile, "_now", Clock(2_000))
    x = noise(1, 1, 64, 64)
    found = cenote.profile_call(F.max_pool2d, x, 31, stride=1, threads=1, seconds=1e-4)
    assert found.operations_per_second > 100e9
    assert found.bound in ("L1", "memory")


@pytest.mark.parametrize("name", ["norm", "scatter_reduce"])
def test_functions_that_call_others_add_up(name: str) -> None:
    arguments, keywords = samples(np.random.default_rng(0), np.dtype(np.float32))[name]
    found = cenote.profile_call(name, *arguments, **keywords)
    whole, steps = found.explanation, found.explanation.steps
    assert whole.kind == "functions"
    assert steps
    assert whole.cost.operations == sum(step.cost.operations for step in steps)
    assert whole.cost.bytes == sum(step.cost.bytes for step in steps) > 0
    assert whole.written_bytes == sum(step.written_bytes for step in steps) > 0
    parts = [call_profile._nearest_roof(step, found.median_ms, ROOFS)[1] or 0.0 for step in steps]
    assert found.roof_share == pytest.approx(sum(parts))


def test_work_that_is_not_known_has_no_rates() -> None:
    unknown = Explanation("clamp")
    assert call_profile._nearest_roof(unknown, 1.0, ROOFS) == ("", None)
    found = replace(cenote.profile_call(F.relu, X), explanation=unknown, roof_share=None)
    assert "Gop/s" not in str(found)
    assert "median 1 ms" in str(found)


def test_there_is_no_roof_where_there_is_nothing_to_compute() -> None:
    found = cenote.profile_call(F.max_pool2d, X[:0], 3)
    assert (found.bound, found.roof_share) == ("", None)
    assert found.bytes_per_second == found.operations_per_second == 0
    assert "nearest roof" not in str(found)


def test_numpy_is_compared_with_the_roofs_too() -> None:
    found = cenote.profile_call(F.max_pool2d, X, 3, algorithm="reference")
    assert found.explanation.kind == "reference"
    assert found.roof_share is not None


def test_other_work_on_the_machine_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    found = cenote.profile_call(F.relu, X)
    busy = replace(found, environment=replace(found.environment, foreign_cores=1.5))
    assert "other processes kept 1.5 cores busy" in str(busy)
    assert "too low" in str(replace(found, roofs=replace(ROOFS, quiet=False)))


@pytest.mark.parametrize(
    "wrong", ["max_pool2", np.sin, F.explain, "Traced", None, 3, lambda x: x, F.fused(lambda x: x)]
)
def test_what_is_no_function_is_refused(wrong: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^profile_call: .* is no function of cenote.functional"):
        cenote.profile_call(wrong, X)


def test_arguments_are_refused_as_by_the_function() -> None:
    for arguments, keywords in (((X, 2), {"stride": 0}), ((X, 2), {"algorithm": "none"}), ((X,), {})):
        with pytest.raises((CenoteError, TypeError)) as expected:
            F.max_pool2d(*arguments, **keywords)
        with pytest.raises(type(expected.value)) as seen:
            cenote.profile_call(F.max_pool2d, *arguments, **keywords)
        assert str(seen.value) == str(expected.value)
    for seconds in (0, -1, True, "1", float("nan"), float("inf"), None):
        with pytest.raises(ArgumentError, match=r"^seconds: .* is no time to measure"):
            cenote.profile_call(F.relu, X, seconds=seconds)  # type: ignore[arg-type]
