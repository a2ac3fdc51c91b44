"""What holds for all tests: models are compiled, not taken from the cache of plans of an earlier run, and formulas of
open sizes are checked.

Tests of the cache turn it on for themselves. Processes that tests start see the same. Bytecode is kept, whatever the
environment says: some hundred processes import the package (`cenote info`: 0.65 s from source, 0.5 s from bytecode).
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest

from tests import executed_pages

# No test depends on the load of the machine.
hypothesis.settings.register_profile(
    "suite", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("suite")

os.environ["CENOTE_PLAN_CACHE"] = "0"
os.environ["CENOTE_CHECK_FORMULAS"] = "1"
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell without job control has what it starts in the background ignore Ctrl-C, and processes inherit that; tests of
# interruptions would wait in vain.
if (
    threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):
    signal.signal(signal.SIGINT, signal.default_int_handler)


_drawn: dict[np.random.Generator, Any] = {}  # states of the modules' generators of random numbers


def pytest_collection_finish(session: pytest.Session) -> None:
    for module in {item.module for item in session.items if isinstance(item, pytest.Function)}:
        for each in vars(module).values():
            if isinstance(each, np.random.Generator):
                _drawn[each] = each.bit_generator.state
    _kept()


_ended = 0  # modules


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    global _ended
    yield
    if nextitem is None or nextitem.path != item.path:
        _ended += 1
        if _ended % 32 == 0:
            gc.unfreeze()  # without it a worker grows to 5.6 GB in place of 2
        _kept()


def _kept() -> None:
    """What collecting and earlier modules have made stays for a while, and the garbage collector need not look at it
    again and again: at the end of the suite `gc.collect()` took 5 s, and verifying a model calls it three times. The 71
    tests of `verification/test_blame_faults.py` took 531 s of the suite's 1,932; 7 by themselves.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _same_numbers(request: pytest.FixtureRequest) -> None:
    """Each test draws the same numbers from its module's generator, whatever ran before it."""
    for each in vars(request.module).values() if request.module is not None else ():
        if each.__class__ is np.random.Generator and each in _drawn:
            each.bit_generator.state = _drawn[each]


@pytest.fixture(autouse=True)
def _registered_by_a_test() -> Iterator[None]:
    """What a test registers is forgotten after it: registered operators are part of the keys of the cache, so that a
    process that has them does not find the plans of one that has none."""
    from cenote.core.extensions import registry, switched

    tables = (registry._registered, registry._installed, registry._classes, switched._registered)
    before = [dict(each) for each in tables]
    yield
    for table, kept in zip(tables, before, strict=True):
        table.clear()
        table.update(kept)  # type: ignore[arg-type]  # its own content


@pytest.fixture
def prepared_anew() -> Iterator[None]:
    """Calls of functions on arrays are prepared anew, in this test and after it."""
    from cenote.functional import callers

    callers.forget()
    yield
    callers.forget()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the source, for the tests of pages that say what to write where."""
    return executed_pages.copied(tmp_path)
