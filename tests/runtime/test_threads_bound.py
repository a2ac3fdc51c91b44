"""Threads that are bound to cores: where they run, that results are the same, that callers are left as they were."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cenote
from cenote.core.machine import topology
from cenote.core.machine.topology import BoundThreads
from cenote.runtime import threads as threading_runtime
from cenote.runtime.threads import resolve_threads

MODEL = Path(cenote.__file__).parent / "data" / "fashion.onnx"
PICTURES = np.random.default_rng(0).random((32, 1, 28, 28), np.float32)

linux = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux alone binds threads")


def _affinities() -> list[set[int]]:
    """Where each thread of the process may run."""
    found = []
    for task in os.listdir("/proc/self/task"):
        try:
            found.append(os.sched_getaffinity(int(task)))
        except ProcessLookupError:
            continue
    return found


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose every CPU is a core, and teams of two of them, whatever this one has."""
    cpus = sorted(topology.allowed_cpus())
    monkeypatch.setenv("CENOTE_THREADS", "2")
    monkeypatch.setattr(threading_runtime, "cores_by_node", lambda: [[cpus[0], cpus[-1]]])
    monkeypatch.setattr(threading_runtime, "_teams", {})


@linux
def test_workers_have_a_cpu_each_and_callers_all_of_theirs(two_threads: None) -> None:
    before = os.sched_getaffinity(0)
    bound, plain = cenote.load(MODEL, threads="bound"), cenote.load(MODEL, threads=2)
    assert (bound.threads, type(bound.threads)) == (2, BoundThreads)
    assert np.array_equal(bound(PICTURES), plain(PICTURES))
    assert os.sched_getaffinity(0) == before
    team = threading_runtime._teams[-2]
    assert team.cpus == (min(before), max(before))
    assert {max(before)} in _affinities()
    assert team is not threading_runtime._teams[2]


@linux
def test_the_caller_is_on_its_cpu_during_a_run(two_threads: None) -> None:
    first, _ = threading_runtime.cores_by_node()[0]
    team = threading_runtime.Team(BoundThreads(2), object())  # type: ignore[arg-type]  # its workers are not started
    with team.placed():
        assert os.sched_getaffinity(0) == {first}
    plain = threading_runtime.Team(2, object())  # type: ignore[arg-type]
    with plain.placed():
        assert os.sched_getaffinity(0) == topology.allowed_cpus()


@linux
def test_a_second_team_has_other_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading_runtime, "cores_by_node", lambda: [[0, 1, 2, 3], [4, 5]])
    first = threading_runtime.Team(BoundThreads(2), object())  # type: ignore[arg-type]
    others = [threading_runtime.Team(BoundThreads(2), object(), first.family) for _ in range(2)]  # type: ignore[arg-type]
    assert [team.cpus for team in first.family] == [(4, 5), (0, 1), (2, 3)]
    assert first.family == [first, *others]


@linux
def test_many_callers_share_bound_threads(two_threads: None) -> None:
    model = cenote.load(MODEL, threads="bound")
    right, answers = model(PICTURES), []

    def call() -> None:
        for _ in range(20):
            answers.append(np.array_equal(model(PICTURES), right))

    callers = [threading.Thread(target=call) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(answers) == 80
    assert all(answers)


def test_a_model_is_loaded_on_the_node_of_its_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two nodes, the one that the team is on."""
    seen: list[set[int]] = []

    def noted(cpus: set[int]) -> Any:
        seen.append(cpus)
        return threading_runtime._WHEREVER

    monkeypatch.setenv("CENOTE_THREADS", "2")
    monkeypatch.setattr(threading_runtime, "cores_by_node", lambda: [[0, 1, 2], [4, 5]])
    monkeypatch.setattr(threading_runtime, "running_on", noted)
    cenote.load(MODEL, threads="bound")
    assert seen[0] == {4, 5}
    seen.clear()
    cenote.load(MODEL, threads=2)
    assert not seen


def test_one_thread_and_machines_that_bind_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert threading_runtime.Team(BoundThreads(1), object()).cpus == ()  # type: ignore[arg-type]
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    assert threading_runtime.Team(BoundThreads(2), object()).cpus == ()  # type: ignore[arg-type]


def test_the_option_takes_numbers_and_one_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CENOTE_THREADS", "3")
    assert (resolve_threads("bound"), type(resolve_threads("bound"))) == (3, BoundThreads)
    assert type(resolve_threads(BoundThreads(2))) is BoundThreads
    assert type(resolve_threads(None)) is int
    for wrong in ("tied", 0, 257, 1.5, True):
        with pytest.raises(cenote.ArgumentError, match="from 1 to 256, nor 'bound'"):
            cenote.LoadOptions(threads=wrong)  # type: ignore[arg-type]
    changed = cenote.load(MODEL, threads="bound").changed(precision="exact")
    assert type(changed.threads) is BoundThreads
