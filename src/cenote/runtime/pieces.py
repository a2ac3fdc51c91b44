"""Work in pieces that threads share, for code that runs without Python's lock: reading, digesting, packing.

A first start uses all cores by it: a file is read and digested, filters are scaled and weights packed in pieces, while
kernels are looked up or compiled (lowerings return packed weights as `Packed`). Where nothing is compiled yet, the
processes that compile start before the model is read. What remains is Python: imports, passes, planning.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue

from cenote.core.target import physical_cores
from cenote.runtime.threads import start_thread


@contextmanager
def helped(count: int, work: Callable[[int], None], least: int = 1) -> Iterator[None]:
    """Do `work(index)` for index 0 .. count - 1, on one thread per core with at least `least` indices each.

    Other threads begin at once, this one when the block ends. This function waits for work that helpers have begun,
    not for helpers: one that does not start has begun none. When it returns or raises, Ctrl-C included, no work is in
    progress.
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
    """Call `work(index)` for index 0 .. count - 1 on all cores, this thread included, as `helped` does."""
    with helped(count, work, least):
        pass
