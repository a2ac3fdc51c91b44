"""Plans are written after the answer, by a thread: it harms nobody who ends, forks or kills meanwhile."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cenote
from cenote.plans import later, writer
from cenote.plans.classes import StoredPlan
from cenote.plans.later import Later
from tests.plans.models import picture, small_model
from tests.runtime.long_runs import in_a_process


@pytest.fixture
def plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, turned on, that is written after an answer and not before."""
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CENOTE_PLAN_CACHE", "100")
    monkeypatch.setattr(later, "_PATIENCE", 600.0)
    return tmp_path / "cache" / "plans"


def kept(plans: Path) -> list[str]:
    return [path.suffix for path in plans.iterdir()]


def from_cache(model: cenote.Model) -> bool:
    return isinstance(model.plan, StoredPlan)


@pytest.mark.parametrize("batch", [1, "n"])
def test_the_answer_precedes_the_writing(
    batch: int | str, tmp_path: Path, plans: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, answered, write = threading.Event(), threading.Event(), writer.write

    def noted(*given: Any) -> None:
        assert answered.wait(60)
        write(*given)
        written.set()

    monkeypatch.setattr(writer, "write", noted)
    path = small_model(tmp_path / "m.onnx", batch)
    model = cenote.load(path)
    assert kept(plans) == []
    expected = model(picture())
    assert not written.is_set()
    answered.set()
    assert written.wait(60)
    later.finish()
    assert kept(plans) == [".cenote"]
    again = cenote.load(path)
    assert np.array_equal(again(picture()), expected)
    assert from_cache(again)


def test_a_second_load_waits_for_the_first_ones_plan(tmp_path: Path, plans: Path) -> None:
    path = small_model(tmp_path / "m.onnx")
    cenote.load(path)
    assert from_cache(cenote.load(path))


def test_a_model_that_is_never_run_is_written_too(
    tmp_path: Path, plans: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(later, "_PATIENCE", 0.0)
    cenote.load(small_model(tmp_path / "m.onnx"))
    for piece in list(later._pending.values()):
        piece.wait(60)
    assert kept(plans) == [".cenote"]


def test_what_the_cache_holds_includes_what_is_being_written(tmp_path: Path, plans: Path) -> None:
    cenote.load(small_model(tmp_path / "m.onnx"))
    assert "model" in {each.kind for each in cenote.cache_contents()}
    cenote.load(small_model(tmp_path / "n.onnx", "n"))
    cenote.clear_cache()
    assert kept(plans) == []


def test_where_no_thread_starts_it_is_written_at_once(
    tmp_path: Path, plans: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(later, "start_thread", lambda *given: False)
    cenote.load(small_model(tmp_path / "m.onnx"))
    assert kept(plans) == [".cenote"]


def test_a_thread_that_never_comes_to_life_is_done_without(
    tmp_path: Path, plans: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(later, "start_thread", lambda *given: True)
    path = small_model(tmp_path / "m.onnx")
    cenote.load(path)
    assert from_cache(cenote.load(path))


def test_a_failure_is_logged(
    tmp_path: Path, plans: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(*given: Any) -> None:
        raise ValueError("out of order")

    monkeypatch.setattr(writer, "write", failing)
    path = small_model(tmp_path / "m.onnx")
    with caplog.at_level(logging.WARNING, "cenote"):
        model = cenote.load(path)
        model(picture())
        later.finish()
    assert "could not be written: ValueError: out of order" in caplog.text
    assert kept(plans) == []
    assert np.array_equal(cenote.load(path)(picture()), model(picture()))


def test_newer_work_under_a_name_supersedes_older() -> None:
    done: list[str] = []

    def work(text: str) -> Any:
        def doing(piece: Later) -> None:
            piece.check()
            done.append(text)

        return doing

    later.later("a name", work("old"))
    later.later("a name", work("new")).finish()
    assert done == ["new"]


# ---- the ends of processes -------------------------------------------------------------------------------------------

LOAD = """
import sys, time, cenote
from cenote.plans import later, writer
later._PATIENCE = 600.0
def slow(file, model, target, check):
    file.write(b"cenote-plan" + bytes(100000)); file.flush()
    print("writing", flush=True)
    while True:
        check()
        time.sleep(0.01)
"""


def at_work(path: Path, code: str) -> subprocess.CompletedProcess[str]:
    return in_a_process(LOAD + code, path)


def test_a_process_that_ends_writes_first(tmp_path: Path, plans: Path) -> None:
    path = small_model(tmp_path / "m.onnx")
    done = at_work(path, "cenote.load(sys.argv[1])")
    assert (done.returncode, done.stderr) == (0, "")
    assert from_cache(cenote.load(path))


def test_a_process_does_not_wait_for_ever_and_leaves_no_half_file(tmp_path: Path, plans: Path) -> None:
    path = small_model(tmp_path / "m.onnx")
    done = at_work(path, "writer.write, later._LEAVING = slow, 0.1\ncenote.load(sys.argv[1])")
    assert (done.returncode, done.stdout, done.stderr) == (0, "writing\n", "")
    assert kept(plans) == []


def test_a_kill_while_a_plan_is_written_leaves_a_usable_cache(tmp_path: Path, plans: Path) -> None:
    path = small_model(tmp_path / "m.onnx")
    code = (
        LOAD
        + f"writer.write = slow; cenote.load({str(path)!r}); next(iter(later._pending.values())).finish()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"writing\n"
        process.send_signal(signal.SIGKILL)
    assert len(kept(plans)) == 1
    assert ".cenote" not in kept(plans)
    model = cenote.load(path)
    assert not from_cache(model)
    again = cenote.load(path)
    assert from_cache(again)
    assert np.array_equal(again(picture()), model(picture()))
    for left in plans.glob(".new-*"):
        os.utime(left, (0, 0))  # a day later
    cenote.load(path, precision="exact")(picture())
    later.finish()
    assert kept(plans) == [".cenote"] * 2, "what was left of the killed process has gone"


FORK = """
import os
model = cenote.load(sys.argv[1])
child = os.fork()
if child == 0:
    import numpy as np
    x = np.ones((1, 3, 8, 8), np.float32)
    right = np.array_equal(model(x), cenote.load(sys.argv[1], threads=1)(x))
    later.finish()
    sys.exit(0 if right else 1)   # with exit handlers
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


def test_a_fork_has_nothing_to_wait_for(tmp_path: Path, plans: Path) -> None:
    path = small_model(tmp_path / "m.onnx")
    done = at_work(path, FORK)
    assert (done.returncode, done.stderr) == (0, "")
    assert set(kept(plans)) == {".cenote"}  # a plan for each number of threads
