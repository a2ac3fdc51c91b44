"""Roofs are measured, kept, and measured again where they cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cenote.codegen import cache
from cenote.profile import measure_roofs, roof_bench
from cenote.profile.environment import Environment, Watch
from cenote.profile.roofs import Roofs


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Few tries, little memory, and a cache of its own."""
    monkeypatch.setattr(measure_roofs, "_of_process", {})
    monkeypatch.setattr(measure_roofs, "_MOST_ROUNDS", 2)
    for name, value in {"TRIES": 2, "FEW_TRIES": 2, "TRY": 2e-5, "MEMORY": (1 << 20, 1 << 20)}.items():
        monkeypatch.setattr(roof_bench, name, value)
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))


def surroundings(monkeypatch: pytest.MonkeyPatch, foreign: float | None) -> None:
    found = Environment(1.0, 2, 2, foreign_cores=foreign)
    monkeypatch.setattr(Watch, "environment", lambda self: found)


def test_all_figures_are_there(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    surroundings(monkeypatch, 0.0)
    found = measure_roofs.roofs(2)
    assert {(each.dtype, each.threads) for each in found.compute} == {
        (dtype, threads) for dtype in ("float32", "float64") for threads in (1, 2)
    }
    assert [each.level for each in found.bandwidth if each.threads == 1] == ["L1", "L2", "L3", "memory"]
    assert {each.threads for each in found.barriers} == {1, 2}
    figures = [found.clock_ghz, found.page_fault_us, *(each.gigaops for each in found.compute)]
    figures += [figure for each in found.bandwidth for figure in (each.read, each.copy)]
    assert all(each.value > 0 and each.spread >= 0 for each in figures)
    assert found.quiet


def test_roofs_are_kept_and_completed(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    surroundings(monkeypatch, 0.0)
    first = measure_roofs.roofs(1)
    assert measure_roofs.roofs(1) is first
    monkeypatch.setattr(measure_roofs, "_of_process", {})
    assert measure_roofs.roofs(1) == first, "out of the cache"
    more = measure_roofs.roofs(2)
    assert more.compute[: len(first.compute)] == first.compute
    assert {each.threads for each in more.barriers} == {1, 2}


def test_roofs_of_a_busy_machine_are_not_kept_for_long(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    surroundings(monkeypatch, 1.5)
    found = measure_roofs.roofs(1)
    assert not found.quiet
    monkeypatch.setattr(measure_roofs, "_of_process", {})
    assert measure_roofs.roofs(1) == found
    monkeypatch.setattr(measure_roofs, "_of_process", {})
    monkeypatch.setattr(measure_roofs.time, "time", lambda: found.measured + 1e4)
    surroundings(monkeypatch, 0.0)
    again = measure_roofs.roofs(1)
    assert again.quiet
    monkeypatch.setattr(measure_roofs, "_of_process", {})
    assert measure_roofs.roofs(1) == again


@pytest.mark.parametrize("content", ["", "{", "[]", json.dumps({"schema": "cenote.roofs/1", "processor": 3})])
def test_a_damaged_file_is_measured_again(content: str, small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    surroundings(monkeypatch, None)
    cache.write_text(measure_roofs._name(), content)
    assert isinstance(measure_roofs.roofs(1), Roofs)


def test_the_environment_says_what_it_knows() -> None:
    found = Watch().environment()
    assert found.seconds > 0
    assert found.cpus >= found.cores >= 1
    assert found.minor_faults is not None
    assert found.minor_faults >= 0


def test_the_environment_leaves_open_what_the_system_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_cpu_seconds", "_throttling", "run_queue_seconds"):
        monkeypatch.setattr(f"cenote.profile.environment.{name}", lambda: None)
    found = Watch().environment()
    unknown = (
        found.foreign_cores,
        found.steal_cores,
        found.throttled_ms,
        found.throttled_periods,
        found.run_queue_ms,
    )
    assert unknown == (None,) * 5


def test_groups_that_stop_the_process_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of both versions of control groups: that of the process, and those above it."""
    from cenote.profile import environment

    older, newer, above = (tmp_path / name for name in ("older", "newer", "above"))
    monkeypatch.setattr(environment, "control_groups", lambda: [older, newer, above])
    assert environment._throttling() is None
    for folder, text in {
        older: "nr_periods 10\nnr_throttled 4\nthrottled_time 2000000000\n",
        newer: "usage_usec 1\nnr_throttled 7\nthrottled_usec 500000\n",
        above: "usage_usec 1\n",
    }.items():
        folder.mkdir()
        (folder / "cpu.stat").write_text(text)
    assert environment._throttling() == (11, 2.5)
