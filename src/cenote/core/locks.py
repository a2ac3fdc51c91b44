"""Locks of the package, and imports on demand, which hold one. After a fork the child finds every lock open, whatever
other threads were doing."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any


class Guard:
    """Re-entrant lock that survives a fork: `with guard.lock:`.

    A fork copies locks as they are, but not the threads that would release them. So the child gets a fresh lock in
    every guard; a thread that forked inside `with` still releases the one it took. `orphaned` is True in a child
    whose parent's other thread held the lock: the guarded state may be half changed there.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.orphaned = False
        _guards.add(self)

    def renew(self) -> None:
        """Make a fresh lock; note whether a thread that does not exist any more holds the old one."""
        if self.lock.acquire(blocking=False):
            self.lock.release()
        else:
            self.orphaned = True
        self.lock = threading.RLock()


_guards: weakref.WeakSet[Guard] = weakref.WeakSet()


LLVM = Guard()  # held while LLVM is imported or used; once orphaned, LLVM cannot be used in this process
_imports = Guard()
_IMPORT_SECONDS = 5.0  # an import takes less than one; the wait is bounded
_held_at_fork = False


@contextmanager
def importing() -> Iterator[None]:
    """Delay forks while a module is imported on demand, or a process is started.

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


def on_demand(module: str, places: Mapping[str, str], modules: str = "") -> Callable[[str], Any]:
    """Return a module's `__getattr__`, which imports its names when they are first asked for.

    places    names by the module that has them: "A B"
    modules   names of modules in this one that are names of it, too

    Other names are deprecated ones, or errors (`core.options.deprecated`).
    """
    place_of = {name: place for place, names in places.items() for name in names.split()}
    of_modules = frozenset(modules.split())

    def find(name: str) -> Any:
        with importing():
            if name in of_modules:
                return import_module(f"{module}.{name}")
            if name not in place_of:
                from cenote.core.options.deprecated import deprecated_name

                return deprecated_name(module, name)
            found = getattr(__import__(place_of[name], fromlist=(name,)), name)  # a module of it, too
        vars(sys.modules[module])[name] = found
        return found

    return find


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
