"""Pause of Python's cyclic garbage collector while a model is prepared.

Preparing makes hundreds of small objects per node, nearly all of which live on and none of which are cycles worth
finding: the collector goes through them again and again. It took 24 to 40 % of the time of loading 20,000 nodes (CPU
seconds with and without: a chain of Relu 6.8 and 5.2, Conv and Relu 10.7 and 7.7, Concat and Slice 12.3 and 7.3).
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

from cenote.core.locks import Guard

_guard = Guard()
_preparing: set[object] = set()  # one for each block in progress
_paused = False  # whether we paused it: a program that keeps the collector off keeps it off


@contextmanager
def collector_paused() -> Iterator[None]:
    """Stop cyclic collections by all threads of the process while this context lasts; several threads may be inside."""
    global _paused
    block = object()
    try:  # Ctrl-C may arrive after any call, and must not leave the collector off
        with _guard.lock:
            _preparing.add(block)
            if gc.isenabled():
                _paused = True
                gc.disable()
        yield
    finally:
        with _guard.lock:
            try:
                _preparing.discard(block)
            finally:
                if _paused and not _preparing:
                    _paused = False
                    gc.enable()


def _after_fork() -> None:
    """Reset the state in a child, which lacks the threads that were preparing something."""
    global _paused
    _preparing.clear()
    if _paused:
        gc.enable()
    _paused = False


os.register_at_fork(after_in_child=_after_fork)
