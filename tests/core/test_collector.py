"""The cyclic garbage collector while a model is prepared."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator

import pytest

from cenote.core import collector
from cenote.core.collector import collector_paused
from tests.core.moments import interrupted


@pytest.fixture(autouse=True)
def collecting() -> Iterator[None]:
    assert gc.isenabled()
    yield
    gc.enable()


def test_it_pauses_and_goes_on() -> None:
    with collector_paused():
        assert not gc.isenabled()
        with collector_paused():
            pass
        assert not gc.isenabled(), "the inner block has ended, the outer one has not"
    assert gc.isenabled()


def test_it_goes_on_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), collector_paused():
        _ = 1 / 0
    assert gc.isenabled()


def test_no_moment_for_ctrl_c_leaves_it_off() -> None:
    for moment in range(1, 200):
        try:
            with interrupted(moment, collector.__file__), collector_paused():
                pass
        except KeyboardInterrupt:
            assert gc.isenabled(), moment
        else:
            break
    assert 5 < moment < 199, "every moment was tried"


def test_a_program_that_keeps_it_off_keeps_it_off() -> None:
    gc.disable()
    with collector_paused():
        pass
    assert not gc.isenabled()


def test_the_last_thread_switches_it_on() -> None:
    inside, leave = threading.Event(), threading.Event()

    def prepare() -> None:
        with collector_paused():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=prepare)
    thread.start()
    inside.wait()
    with collector_paused():
        pass
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()


def test_a_child_forked_meanwhile_collects() -> None:
    with collector_paused():
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.isenabled() else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
