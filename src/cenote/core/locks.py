"""The package's locks. After a fork the child finds every one of them open, whatever other threads were doing."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager


class Guard:
    """A re-entrant lock: `with guard.lock:`.

    A fork copies locks as they are, but not the threads that would release them. So the child gets a fresh lock in
    every guard; a thread that forked inside `with` still releases the one it took. `orphaned` is True in a child
    whose parent's other thread held the lock: what it guards may be half done there.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.orphaned = False
        _guards.add(self)

    def renew(self) -> None:
        """A fresh lock; notes whether a thread that is gone holds the old one."""
        if self.lock.acquire(blocking=False):
            self.lock.release()
        else:
            self.orphaned = True
        self.lock = threading.RLock()


_guards: weakref.WeakSet[Guard] = weakref.WeakSet()


LLVM = Guard()  # held while LLVM is imported or used: of use nowhere else once it is orphaned
_imports = Guard()
_IMPORT_SECONDS = 5.0  # an import takes less than one; nobody waits for ever
_held_at_fork = False


@contextmanager
def importing() -> Iterator[None]:
    """Around an import on demand, or the start of a process: a fork waits until it is done.

    A child whose parent's other thread was importing a module could never import it: Python's own lock of that module
    would have no owner.
    """
    lock = _imports.lock
    held = lock.acquire(timeout=_IMPORT_SECONDS)
    try:
        yield
    finally:
        if held:
            lock.release()


def _finish_imports() -> None:
    global _held_at_fork
    _held_at_fork = _imports.lock.acquire(timeout=_IMPORT_SECONDS)


def _imports_go_on() -> None:
    if _held_at_fork:
        _imports.lock.release()


def _renew_all() -> None:
    _imports_go_on()
    for guard in list(_guards):
        guard.renew()


os.register_at_fork(before=_finish_imports, after_in_parent=_imports_go_on, after_in_child=_renew_all)
