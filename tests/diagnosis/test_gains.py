"""What the whole latency would be: threads meet between groups of steps, and the slowest decides."""

from __future__ import annotations

import pytest

from cenote.diagnosis.cause import options_of
from cenote.diagnosis.context import paired
from cenote.diagnosis.gains import balanced, by_pieces, gain, lost_by_pieces
from cenote.profile.data import Finding
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
    found = profile(step(items=3, busy_ms=(8.0, 4.0)))
    assert balanced(found, 0) == pytest.approx(2.0)
    assert by_pieces(found.steps[0]) == pytest.approx(4 / 3)
    assert lost_by_pieces(found.steps[0]) == pytest.approx(2.0)
    assert by_pieces(step(items=100, grain=25, busy_ms=(1.0, 1.0))) == 1


@pytest.mark.parametrize(
    ("action", "options"),
    [
        ("load with `threads=1`, which leaves a core free", {"threads": 1}),
        ('load with `denormals="flush"` (…)', {"denormals": "flush"}),
        ("load with `weights=bfloat16`: half the bytes", {"weights": "bfloat16"}),
        ("`pin=a/b=c to direct`, `pin=y to winograd_f4`", {"pins": {"a/b=c": "direct", "y": "winograd_f4"}}),
        ("none: nothing is wrong with it", {}),
        ("`np.ascontiguousarray(x)` first", {}),
    ],
)
def test_actions_that_stand_for_options(action: str, options: dict[str, object]) -> None:
    assert options_of(Finding("", (), 0.1, "", 1.0, action)) == options


def test_paired_calls_take_turns() -> None:
    calls: list[str] = []
    found = paired(lambda: calls.append("a"), lambda: calls.append("b"), seconds=0.0)
    assert calls.count("a") == calls.count("b") >= 6
    assert "aaa" not in "".join(calls)
    assert found.low <= found.middle <= found.high
