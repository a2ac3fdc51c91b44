"""Background work without a waiting caller: writing plans, which only later processes use.

Each piece of work has a thread, which begins when the piece is released, or two seconds after it was submitted: the
first answer of a model releases its plan. (VGG-16 waited 4 s for its plan of 500 MB to be written, before it
answered.) An exiting process releases the remaining pieces and waits for them, but only for a limited time. A child
after a fork has no such thread: the parent writes.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import logging
import os
import time
from collections.abc import Callable

from cenote.core.locks import Guard
from cenote.runtime.threads import start_thread

_log = logging.getLogger(__name__)
# Seconds until the plan of a model that is not run is written nevertheless.
_PATIENCE = 2.0
# Seconds that an exiting process waits: 500 MB on a disk that writes 50 MB/s.
_LEAVING = 10.0
# Seconds that a caller waits who needs the written file: a disk may hang.
_LONGEST = 60.0
# Seconds that an exiting process then waits until the work has noticed that it is to end.
_GIVING_UP = 1.0


class GivenUp(Exception):
    """Signal from `Later.check`: the work is to end now and leave nothing half done."""


class Later:
    """A piece of work that is done once. `work` is called with the piece itself, and calls its `check` now and
    then."""

    def __init__(self, name: str, work: Callable[[Later], None], before: Later | None) -> None:
        self.name, self._work, self._before = name, work, before
        # Plain locks, held until the event: a fork cannot leave them in an intermediate state, as it can a
        # threading.Event.
        self._released, self._finished = _thread.allocate_lock(), _thread.allocate_lock()
        self._released.acquire()
        self._finished.acquire()
        # The thread that acquires it does the work.
        self._begun = _thread.allocate_lock()
        self._given_up = False

    def release(self) -> None:
        """Allow the work to begin."""
        # Suppressed: it was released before.
        with contextlib.suppress(RuntimeError):
            self._released.release()

    def give_up(self) -> None:
        """Make the work end soon, done or not."""
        self._given_up = True
        self.release()

    def check(self) -> None:
        """Raise GivenUp when the work is not needed any more."""
        if self._given_up:
            raise GivenUp

    def wait(self, seconds: float) -> None:
        """Wait until the work has been done, at most this number of seconds."""
        if self._finished.acquire(timeout=max(0.0, seconds)):
            self._finished.release()

    def finish(self) -> None:
        """Return when the work has been done: by this thread, unless another has begun."""
        self.release()
        self._do()
        self.wait(_LONGEST)

    def live(self) -> None:
        """Wait for the release and do the work: the main function of its thread."""
        self._released.acquire(timeout=_PATIENCE)
        self._do()

    def _do(self) -> None:
        """Do the work, unless that has begun. Its exceptions are logged."""
        if not self._begun.acquire(blocking=False):
            return
        try:
            if self._before is not None:
                self._before.finish()
            self._work(self)
        except GivenUp:
            _log.debug("%s: given up", self.name)
        except Exception as error:
            _log.warning("%s could not be written: %s: %s", self.name, type(error).__name__, error)
        finally:
            with _guard.lock:
                if _pending.get(self.name) is self:
                    del _pending[self.name]
            # And with them the objects that they hold.
            del self._work, self._before
            self._finished.release()


# Pieces of work by name.
_pending: dict[str, Later] = {}
_guard = Guard()


def later(name: str, work: Callable[[Later], None]) -> Later:
    """Start `work` on a thread, or do it at once where the system cannot start one.

    Earlier work under the same name is superseded: it ends if it can, and the new work waits for it.
    """
    with _guard.lock:
        before = _pending.get(name)
        if before is not None:
            before.give_up()
        piece = _pending[name] = Later(name, work, before)
    if not start_thread(piece.live, ()):
        piece.finish()
    return piece


def finish(name: str | None = None) -> None:
    """Wait until the work under this name, or all work, is done."""
    for piece in list(_pending.values()):
        if name in (None, piece.name):
            piece.finish()


def _at_exit() -> None:
    left, until = list(_pending.values()), time.monotonic() + _LEAVING
    try:
        for piece in left:
            piece.release()
        for piece in left:
            piece.wait(until - time.monotonic())
    finally:
        # After Ctrl-C too.
        for piece in left:
            piece.give_up()
        until = time.monotonic() + _GIVING_UP
        for piece in left:
            piece.wait(until - time.monotonic())


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_pending.clear)
