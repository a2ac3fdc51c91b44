"""Workers that are started before it is known what they are to compile."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cenote.codegen import jit, llvm, worker
from cenote.kernels.driver import Driver
from cenote.kernels.layout.memcpy import MemcpySpec

TARGET = jit.named_target("generic")
SOURCES = [MemcpySpec(), Driver("cenote_halt")]


@pytest.fixture
def ready(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    monkeypatch.setattr(worker, "physical_cores", lambda: 2)
    worker.start_early(["cenote.kernels.layout.memcpy"])
    yield worker._ready
    worker.end_ready()


def compiled() -> dict[str, bytes]:
    made = dict[str, bytes]()
    assert worker.compile_in_processes(SOURCES, TARGET, made.__setitem__) == []
    return made


def expected() -> dict[str, bytes]:
    return {source.symbol: llvm.object_code(source.emit(TARGET)) for source in SOURCES}


def test_who_waits_is_asked_first(ready: list[subprocess.Popen[bytes]]) -> None:
    processes = [*ready]
    assert len(processes) == 2
    worker.start_early([])
    assert ready == processes, "no more than one a core"
    assert compiled() == expected()
    assert ready == processes[:1], "two kernels are worth one worker"
    assert processes[1].returncode == 0
    worker.end_ready()
    assert not ready
    assert processes[0].returncode is not None


def test_who_has_died_is_replaced(ready: list[subprocess.Popen[bytes]]) -> None:
    for process in ready:
        process.kill()
        process.wait()
    assert compiled() == expected()
    assert not ready


def test_a_module_that_is_not_there_costs_nothing_but_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "physical_cores", lambda: 1)
    worker.start_early(["cenote.no_such_module"])
    worker._ready[0].wait()
    assert compiled() == expected()


def test_who_is_asked_nothing_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of any size that is loaded and never run leaves no process and no open pipe."""
    clocks = list[Any]()
    monkeypatch.setattr(worker, "physical_cores", lambda: 2)
    monkeypatch.setattr(worker.threading.Timer, "start", lambda clock: clocks.append(clock))
    worker.start_early([])
    first, second = [*worker._ready]
    worker._ready.remove(second)  # somebody has work for it
    (clock,) = clocks
    assert clock.daemon
    assert clock.interval == worker._PATIENCE
    clock.function(*clock.args)
    assert not worker._ready
    assert first.returncode is not None
    assert all(pipe is not None and pipe.closed for pipe in (first.stdin, first.stdout))
    assert second.poll() is None
    worker._close(second)
    assert second.returncode == 0, "a closed pipe ends it"


def test_the_clock_stops_with_the_last_who_waits() -> None:
    worker.start_early([])
    (clock,) = worker._clocks
    worker.end_ready()
    clock.join(5)
    assert not clock.is_alive()
    assert not worker._clocks


def test_without_a_thread_for_the_clock_no_worker_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(clock: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(worker.threading.Timer, "start", none)
    worker.start_early([])
    assert not worker._ready


def test_workers_start_early_only_where_nothing_is_compiled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = list[object]()
    monkeypatch.setattr(worker, "start_early", asked.append)
    monkeypatch.setattr(jit, "_addresses", {})
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path))
    monkeypatch.setattr(jit.bundle, "read", lambda symbol, target: None)
    jit.prepare()
    assert len(asked) == 1
    with monkeypatch.context() as context:
        context.setattr(jit.bundle, "read", lambda symbol, target: b"code")
        jit.prepare()
    jit.object_cache.write("cenote_run", jit.host_target(), b"code")
    jit.prepare()
    assert len(asked) == 1
