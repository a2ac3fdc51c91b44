"""What the whole latency would be: threads meet between groups of steps, and the slowest decides."""

from __future__ import annotations

import time

import pytest

from cenote.diagnosis import context
from cenote.diagnosis.context import paired
from cenote.diagnosis.gains import by_pieces, gain, lost_by_pieces
from tests.diagnosis.profiles import profile, step


def test_a_step_on_one_thread() -> None:
    low, middle, high = gain(profile(step(0.4), step(0.5)), {0: 0.5}, doubt=0.25)
    assert (low, middle, high) == pytest.approx((1.5, 2.0, 2.5))


def test_the_slowest_thread_of_a_group_decides() -> None:
    both = profile(step(0.4, busy_ms=(4.0, 1.0), group=0), step(0.4, busy_ms=(1.0, 4.0), group=0))
    assert gain(both, {0: 0.0})[1] == pytest.approx(1.0), "5 and 5 become 1 and 4"
    assert gain(both, {0: 0.0, 1: 0.0})[1] == pytest.approx(5.0)
    apart = profile(step(0.4, busy_ms=(4.0, 1.0), group=0), step(0.4, busy_ms=(1.0, 4.0), group=1))
    assert gain(apart, {0: 0.0})[1] == pytest.approx(4.0)


def test_noise_widens_the_interval() -> None:
    low, middle, high = gain(profile(step(0.4, mad_ms=0.3)), {0: 0.5}, doubt=0.0)
    assert (middle - low, high - middle) == pytest.approx((0.15, 0.15))


def test_host_steps_have_no_threads() -> None:
    assert gain(profile(step(0.4, kind="host", busy_ms=(0.0, 0.0))), {0: 0.1})[1] == pytest.approx(3.6)


def test_pieces() -> None:
    # Each thread has two pieces in every other call.
    found = step(items=3, busy_ms=(6.0, 6.0), kernels_ms=6.0)
    assert by_pieces(found) == pytest.approx(4 / 3)
    assert lost_by_pieces(found) == pytest.approx(2.0)
    assert by_pieces(step(items=100, grain=25, busy_ms=(1.0, 1.0))) == 1


def test_paired_calls_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "_TURN", 0.0)
    calls: list[str] = []
    found = paired(lambda: calls.append("a"), lambda: calls.append("b"), seconds=0.0)
    assert calls.count("a") == calls.count("b") >= 6
    assert "aaaaa" not in "".join(calls), "a turn is a call that does not count, and one that does"
    assert found.low <= found.middle <= found.high


def test_short_calls_are_timed_many_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, calls = [0], list[str]()

    def call(name: str, nanoseconds: int) -> None:
        calls.append(name)
        clock[0] += nanoseconds if calls[-2:] == [name, name] else 10 * nanoseconds  # cold after the other's

    monkeypatch.setattr(time, "perf_counter_ns", lambda: clock[0])
    found = paired(lambda: call("a", 200_000), lambda: call("b", 100_000), seconds=0.0)
    assert found.middle == pytest.approx(0.1), "of calls in a row"
    assert found.before_ms == pytest.approx(0.2)
    assert found.certain
