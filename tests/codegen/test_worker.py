"""Workers that are started before it is known what they are to compile."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import pytest

import cenote
from cenote.codegen import jit, llvm, worker
from cenote.core.errors import CodegenError
from cenote.core.target import Target
from cenote.kernels.base import present
from cenote.kernels.driver import DRIVER, Driver
from cenote.kernels.layout.memcpy import MemcpySpec
from cenote.plans import later

TARGET = jit.named_target("generic")
SOURCES = [MemcpySpec(), Driver("cenote_halt")]


@pytest.fixture
def ready(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[worker._Crew]]:
    monkeypatch.setattr(worker, "physical_cores", lambda: 2)
    worker.start_early(TARGET, ["cenote.kernels.layout.memcpy"], [])
    yield worker._ready
    worker.end_ready()


def compiled(more: bool = False) -> dict[str, bytes]:
    made = dict[str, bytes]()
    assert worker.compile_in_processes(SOURCES, TARGET, made.__setitem__, more) == []
    return made


def expected() -> dict[str, bytes]:
    return {source.symbol: llvm.object_code(source.emit(TARGET)) for source in SOURCES}


def pipes_of(crew: worker._Crew) -> list[IO[bytes]]:
    return [pipe for server in crew._servers for pipe in (server._to, server._from)]


def test_who_waits_is_asked_first(ready: list[worker._Crew]) -> None:
    (crew,) = ready
    assert len(crew._servers) == 2
    worker.start_early(TARGET, [], [])
    assert ready == [crew], "no more than one a core"
    assert compiled() == expected()
    assert not ready
    assert present(crew.process).returncode == 0
    assert all(pipe.closed for pipe in pipes_of(crew))


@dataclass(frozen=True)
class Meeting:
    """A kernel that is compiled once as many processes as are `wanted` have begun to make one, or after a minute, which
    it tells."""

    folder: str
    number: int
    wanted: int

    @property
    def symbol(self) -> str:
        return f"test_meeting_{self.number}"

    def emit(self, target: Target) -> Any:
        Path(self.folder, f"{os.getpid()}").touch()
        end = time.monotonic() + 60
        while len(os.listdir(self.folder)) < self.wanted and time.monotonic() < end:
            time.sleep(0.01)
        if time.monotonic() >= end:
            Path(self.folder, "in vain").touch()
        return SOURCES[0].emit(target)


def test_each_worker_is_a_process_of_its_own(ready: list[worker._Crew], tmp_path: Path) -> None:
    sources = [Meeting(str(tmp_path), number, 2) for number in range(2)]
    made = dict[str, bytes]()
    assert worker.compile_in_processes(sources, TARGET, made.__setitem__) == []
    assert len(made) == 2
    assert len(os.listdir(tmp_path)) == 2


def test_a_kernel_that_hangs_ends_with_what_asked_for_it(
    ready: list[worker._Crew], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C kills the workers, also those that the first of them forked."""
    (crew,) = ready

    def interrupted(_: object) -> Any:
        while len(os.listdir(tmp_path)) < 2:
            time.sleep(0.01)
        raise KeyboardInterrupt

    crew._answers = type("Answers", (), {"get": interrupted, "put": lambda self, answer: None})()
    for server in crew._servers:
        server._answers = crew._answers
    with pytest.raises(KeyboardInterrupt):
        worker.compile_in_processes(
            [Meeting(str(tmp_path), number, 3) for number in range(2)], TARGET, lambda symbol, code: None
        )
    assert present(crew.process).returncode == -signal.SIGKILL
    assert not Path(tmp_path, "in vain").exists(), "a worker went on"
    assert not any(is_running(int(number)) for number in os.listdir(tmp_path))


def is_running(process: int) -> bool:
    """Whether a process computes; one that has ended may still be there until somebody asks for its result."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{process}/stat").read_text().rsplit(")")[-1].split()[0] == "Z":
                return False
        except FileNotFoundError:
            return False
        time.sleep(0.01)
    return True


def test_what_is_compiled_early_is_not_compiled_again(
    ready: list[worker._Crew], monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = list[str]()
    ask = worker._Server._ask

    def noted(server: worker._Server, question: Any) -> Any:
        questions.append(question[0].symbol)
        return ask(server, question)

    monkeypatch.setattr(worker._Server, "_ask", noted)
    worker.ask_early(SOURCES[0], jit.named_target("generic"))
    worker.ask_early(SOURCES[0], jit.named_target("generic"))
    assert compiled() == expected()
    assert sorted(questions) == sorted(source.symbol for source in SOURCES)


def test_workers_for_another_target_are_not_asked(ready: list[worker._Crew]) -> None:
    (crew,) = ready
    crew.target = replace(TARGET, l2_bytes=1)
    worker.ask_early(SOURCES[0], TARGET)
    assert not crew._asked
    assert not worker.waits_for(TARGET)
    assert compiled() == expected()
    assert not ready
    assert present(crew.process).returncode is not None


def test_workers_wait_for_more_that_is_compiled_soon(ready: list[worker._Crew]) -> None:
    (crew,) = ready
    assert compiled(more=True) == expected()
    assert ready == [crew]
    assert compiled() == expected()
    assert not ready


class Broken:
    """A kernel that cannot be made, in a module that the workers can import."""

    symbol = "test_broken_early"

    def emit(self, target: object) -> Any:
        raise ValueError("no such kernel")


def test_a_kernel_that_fails_early_is_told_to_who_asks_for_it_alone(ready: list[worker._Crew]) -> None:
    worker.ask_early(Broken(), TARGET)
    assert compiled(more=True) == expected()
    with pytest.raises(CodegenError, match="no such kernel"):
        worker.compile_in_processes([Broken()], TARGET, lambda symbol, code: None)
    assert not ready


def test_who_has_died_is_replaced(ready: list[worker._Crew]) -> None:
    process = present(ready[0].process)
    process.kill()
    process.wait()
    assert compiled() == expected()
    assert not ready


def test_a_module_that_is_not_there_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "physical_cores", lambda: 1)
    worker.start_early(TARGET, ["cenote.no_such_module"], [])
    assert compiled() == expected()


def test_who_is_asked_nothing_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of any size that is loaded and never run leaves no process and no open pipe."""
    clocks = list[Any]()
    monkeypatch.setattr(worker, "physical_cores", lambda: 2)
    monkeypatch.setattr(worker.threading.Timer, "start", lambda clock: clocks.append(clock))
    worker.start_early(TARGET, [], [])
    crew = worker._ready.pop()  # somebody has work for it
    (clock,) = clocks
    assert clock.daemon
    assert clock.interval == worker._PATIENCE
    clock.function(*clock.args)
    assert crew.is_alive()
    worker._ready.append(crew)
    clock.function(*clock.args)
    assert not worker._ready
    assert present(crew.process).returncode is not None
    assert all(pipe.closed for pipe in pipes_of(crew))


def test_the_clock_stops_with_the_last_who_waits() -> None:
    worker.start_early(TARGET, [], [])
    (clock,) = worker._clocks
    worker.end_ready()
    clock.join(5)
    assert not clock.is_alive()
    assert not worker._clocks


def test_without_a_thread_for_the_clock_no_worker_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(clock: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(worker.threading.Timer, "start", none)
    worker.start_early(TARGET, [], [])
    assert not worker._ready


def test_workers_start_early_only_where_nothing_is_compiled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = list[object]()
    monkeypatch.setattr(worker, "start_early", lambda target, modules, sources: asked.append(sources))
    monkeypatch.setattr(jit, "_addresses", {})
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path))
    monkeypatch.setattr(jit.bundle, "read", lambda symbol, target: None)
    jit.prepare(DRIVER)
    assert asked == [DRIVER]
    with monkeypatch.context() as context:
        context.setattr(jit.bundle, "read", lambda symbol, target: b"code")
        jit.prepare(DRIVER)
    jit.object_cache.write("cenote_run", jit.host_target(), b"code")
    jit.prepare(DRIVER)
    assert asked == [DRIVER]


def test_a_load_compiles_each_kernel_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Kernels are asked for while the model is planned, and collected when it is."""
    worker.start_early(jit.host_target(), [], [])
    asked, at_hand = list[str](), list[int]()
    ask, collect = worker._Crew.ask, worker._Crew.collect
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path))
    monkeypatch.setattr(jit, "_addresses", {})
    monkeypatch.setattr(jit, "_objects", {})
    # Nothing goes on behind the test, when the cache is the usual one again.
    monkeypatch.setattr(jit, "_begin", lambda sources, target: None)

    def asking(crew: worker._Crew, source: Any) -> None:
        asked.append(source.symbol)
        ask(crew, source)

    monkeypatch.setattr(worker._Crew, "ask", asking)

    def noted(crew: worker._Crew, sources: Any, done: Any) -> Any:
        at_hand.append(len({source.symbol for source in sources} - {*asked}))
        return collect(crew, sources, done)

    monkeypatch.setattr(worker._Crew, "collect", noted)
    path = Path(cenote.__file__).parent / "data" / "fashion.onnx"
    model = cenote.load(path)
    model.plan_for({model.inputs[0].name: (1, 1, 28, 28)})
    later.finish()
    worker.end_ready()
    assert at_hand
    assert at_hand[0] <= len(DRIVER), "only the driver was not asked for before"
