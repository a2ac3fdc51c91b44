"""Work in pieces on all cores: what fails, what is interrupted, what is done meanwhile."""

from __future__ import annotations

import threading
import time

import pytest

from cenote.runtime import pieces


@pytest.mark.parametrize("cores", [1, 4])
def test_every_piece_is_done_once(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "physical_cores", lambda: cores)
    done = list[int]()
    with pieces.helped(100, done.append):
        if cores > 1:
            while not done:
                time.sleep(0.001)  # helpers begin while this thread does something else
    assert sorted(done) == list(range(100))
    pieces.on_all_cores(0, done.append)
    assert len(done) == 100


def test_nothing_is_begun_when_the_block_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "physical_cores", lambda: 4)
    done = list[int]()

    def work(index: int) -> None:
        time.sleep(0.01)
        done.append(index)

    def interrupted() -> None:
        with pieces.helped(1000, work):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    count = len(done)
    time.sleep(0.03)
    assert len(done) == count < 1000


def test_nothing_is_worked_on_after_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "physical_cores", lambda: 4)
    main, busy = threading.get_ident(), set[int]()

    def work(index: int) -> None:
        if threading.get_ident() == main:
            while not busy:
                time.sleep(0.001)
            raise KeyboardInterrupt
        busy.add(index)
        time.sleep(0.05)
        busy.remove(index)

    with pytest.raises(KeyboardInterrupt):
        pieces.on_all_cores(100, work, 1)
    assert not busy


@pytest.mark.parametrize("kind", [ValueError, OSError, MemoryError])
def test_what_a_helper_meets_is_raised(kind: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "physical_cores", lambda: 4)
    main, failed = threading.get_ident(), threading.Event()

    def work(index: int) -> None:
        if threading.get_ident() == main:
            failed.wait(60)
        else:
            failed.set()
            raise kind("here")

    with pytest.raises(kind, match="here"):
        pieces.on_all_cores(100, work, 1)
