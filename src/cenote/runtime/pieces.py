"""Work in pieces that threads take from each other: reading, digesting, packing: what runs without Python's lock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue

from cenote.core.target import physical_cores
from cenote.runtime.threads import start_thread


@contextmanager
def helped(count: int, work: Callable[[int], None], least: int = 1) -> Iterator[None]:
    """Do `work(index)` for index 0 .. count - 1, on one thread per core with `least` of them or more for each.

    Other threads begin at once, this one when the block ends. What is waited for is work that helpers have begun, not
    helpers: one that does not come to life has begun none. When this returns or raises, Ctrl-C included, nothing is
    being worked on.
    """
    waiting, begun, ended = iter(range(count)), 0, SimpleQueue[None]()
    lock, failures = threading.Lock(), list[Exception]()

    def help_along() -> None:
        nonlocal begun
        while not failures:
            with lock:
                index = next(waiting, None)
                begun += index is not None
            if index is None:
                return
            try:
                work(index)
            except Exception as error:
                failures.append(error)
            ended.put(None)

    helpers = min(count // least, physical_cores()) - 1
    while helpers > 0 and start_thread(help_along, ()):
        helpers -= 1
    try:
        yield
        while not failures:
            with lock:
                index = next(waiting, None)
            if index is None:
                break
            work(index)
    finally:
        with lock:
            waiting = iter(())
        for _ in range(begun):
            ended.get()
    if failures:
        raise failures[0]


def on_all_cores(count: int, work: Callable[[int], None], least: int = 1) -> None:
    """The same, with this thread at work from the beginning."""
    with helped(count, work, least):
        pass
