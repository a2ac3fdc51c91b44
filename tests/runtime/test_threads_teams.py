"""As many teams of a size as the cores hold: callers wait for each other only when none is free."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from cenote.runtime import threads as runtime
from cenote.runtime.program import Instance, Program
from tests.runtime.chains import SIZE, chain

X = np.arange(SIZE, dtype=np.float32)


@pytest.fixture(autouse=True)
def four_cores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As on a machine of four cores, with no teams yet."""
    monkeypatch.setattr(runtime, "physical_cores", lambda: 4)
    monkeypatch.setattr(runtime, "_teams", {})
    yield
    for first in runtime._teams.values():
        for team in first.family:
            with team.guard.lock:
                team.dismiss()


def at_once(program: Program, callers: int, runs: int = 1) -> list[np.ndarray]:
    """The results of callers that begin together."""
    results: list[np.ndarray] = []
    threads = [
        threading.Thread(target=lambda: [results.append(program.run([X])[0]) for _ in range(runs)])
        for _ in range(callers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    return results


def family(threads: int) -> list[runtime.Team]:
    return runtime._teams[threads].family


def test_two_callers_of_two_threads_compute_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    together, run = threading.Barrier(2, timeout=60), Instance.run

    def meeting(self: Instance, *arguments: Any) -> list[np.ndarray]:
        together.wait()  # ends only if the other has begun
        return run(self, *arguments)

    monkeypatch.setattr(Instance, "run", meeting)
    results = at_once(chain(20, 2), 2)
    assert len(results) == 2
    assert all(np.array_equal(result, X + 20) for result in results)
    assert len(family(2)) == 2


@pytest.mark.parametrize(("threads", "most"), [(2, 2), (3, 1), (4, 1)])
def test_there_are_no_more_teams_than_the_cores_hold(threads: int, most: int) -> None:
    program = chain(20, threads)
    results = at_once(program, 12, 20)
    assert len(results) == 240
    assert all(np.array_equal(result, X + 20) for result in results)
    assert 1 <= len(family(threads)) <= most
    assert len(program._free) == len({id(instance.team) for instance in program._free}) <= most


def test_one_caller_has_one_team() -> None:
    program = chain(20, 2)
    for _ in range(20):
        assert np.array_equal(program.run([X])[0], X + 20)
    assert len(family(2)) == len(program._free) == 1


def test_a_run_in_a_run_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads hold a team each, and run another program in the middle."""
    monkeypatch.setattr(runtime, "physical_cores", lambda: 4)
    inner, together, run = chain(5, 2), threading.Barrier(2, timeout=60), Instance.run
    inside: list[np.ndarray] = []

    def nested(self: Instance, *arguments: Any) -> list[np.ndarray]:
        if self.program.threads == 2 and self.program is not inner:
            together.wait()
            inside.append(inner.run([X])[0])
        return run(self, *arguments)

    monkeypatch.setattr(Instance, "run", nested)
    results = at_once(chain(20, 2), 2)
    assert len(results) == len(inside) == 2
    assert all(np.array_equal(result, X + 20) for result in results)
    assert all(np.array_equal(result, X + 5) for result in inside)
    assert len(family(2)) == 2


def test_step_tables_of_all_teams_are_freed() -> None:
    at_once(chain(3, 2), 8, 5)
    kept = chain(3, 2)
    for _ in range(1000):
        at_once(kept, 2)
        if not any(team.graveyard for team in family(2)):
            return
    pytest.fail("step tables are left behind")
