"""Known calls of kernels that run for long: signals are handled, other threads go on."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from cenote.codegen import jit
from cenote.kernels.builtin import Builtin, KnownCall
from cenote.kernels.launch import DirectRunner
from cenote.runtime.layouts import KNOWN
from cenote.runtime.steps import KernelStep, Slot, SlotKind
from tests.runtime.long_runs import SIZE, TYPE, repeat_kernel

pytestmark = pytest.mark.skipif(not Builtin.is_possible(), reason="the interpreter takes no builtins of ours")
ITEMS = 2 * 10**7  # 0.6 s
ARGUMENTS = ("repeat", 3)


class Interrupted(Exception):
    pass


def slow(*arguments: Any) -> Any:
    raise AssertionError(f"unknown: {arguments}")


def repeating(items: int, seconds: float) -> tuple[Builtin, KnownCall]:
    """A builtin that knows one call, x + 1, computed again and again."""
    address = jit.addresses([repeat_kernel()], jit.named_target("generic"))["test_repeat"]
    places = Slot(SlotKind.INPUT, 0), Slot(SlotKind.OUTPUT, 0)
    step = KernelStep("0", "test_repeat", address, places, items, 4096, 0)
    runner = DirectRunner(step, (), 1, (TYPE,), ((SIZE,),), False, seconds)
    known = KnownCall(runner, (np.empty(SIZE, np.float32),), ARGUMENTS, None, ())
    made = Builtin(slow)
    made.add(known)
    return made, known


@pytest.fixture
def alarm() -> Iterator[list[BaseException | None]]:
    """An alarm 0.03 s after it is set, whose handler raises what is in the list."""
    raised: list[BaseException | None] = [None]

    def handler(*_: Any) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if raised[0] is not None:
            raise raised[0]

    before = signal.signal(signal.SIGALRM, handler)
    yield raised
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("seconds", [1e-6, 1.0])
def test_a_signal_in_a_long_call(alarm: list[BaseException | None], seconds: float) -> None:
    """Its handler's error ends the call, in whose place the next one starts from the beginning."""
    x = np.arange(SIZE, dtype=np.float32)
    made, known = repeating(ITEMS, seconds)
    alarm[0] = Interrupted()
    out = np.zeros_like(x)
    for target in (None, out):
        signal.setitimer(signal.ITIMER_REAL, 0.03)
        with pytest.raises(Interrupted):
            made.function((x,), ARGUMENTS, target, None)
        assert known.memory[KNOWN.busy] == 0
    alarm[0] = None
    short, _ = repeating(3, seconds)
    np.testing.assert_array_equal(short.function((x,), ARGUMENTS, None, None), x + 1)
    out[:] = 0
    signal.setitimer(signal.ITIMER_REAL, 0.03)
    assert made.function((x,), ARGUMENTS, out, None) is out
    np.testing.assert_array_equal(out, x + 1)


def test_others_go_on_meanwhile() -> None:
    """A call that takes long has no GIL: a thread that waits for it sees it at work."""
    x, done = np.arange(SIZE, dtype=np.float32), threading.Event()
    made, known = repeating(ITEMS, 1.0)
    seen = []

    def work() -> None:
        made.function((x,), ARGUMENTS, None, None)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.is_set():
        seen.append(int(known.memory[KNOWN.busy]))
        done.wait(0.001)
    thread.join()
    assert 1 in seen


def test_a_record_in_use_is_left_alone() -> None:
    """The call goes the slow way then."""
    made, known = repeating(3, 1e-6)
    known.memory[KNOWN.busy] = 1
    x = np.arange(SIZE, dtype=np.float32)
    with pytest.raises(AssertionError, match="unknown"):
        made.function((x,), ARGUMENTS, None, None)
    known.memory[KNOWN.busy] = 0
    np.testing.assert_array_equal(made.function((x,), ("repeat", 3), None, None), x + 1)
