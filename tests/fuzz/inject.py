"""Makes the k-th allocation, mapping, thread start, file operation, lock or compilation of Cenote fail."""

from __future__ import annotations

import _thread
import builtins
import errno
import io
import mmap
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np


class Counter:
    """Counts what Cenote asks for at one point, and fails the k-th time, or from then on."""

    def __init__(self, k: int, error: Callable[[], BaseException], lasting: bool) -> None:
        self.k, self.error, self.lasting, self.seen = k, error, lasting, 0

    @property
    def reached(self) -> bool:
        return self.seen >= self.k

    def note(self, depth: int = 4) -> None:
        """One more, if Cenote's code asks, directly or through the standard library."""
        frame = sys._getframe(2)
        for _ in range(depth):
            if frame.f_globals.get("__name__", "").startswith("cenote."):
                break
            if frame.f_back is None:
                return
            frame = frame.f_back
        else:
            return
        self.seen += 1
        if self.seen == self.k or (self.lasting and self.seen > self.k):
            raise self.error()


def counted(function: Callable[..., Any], counter: Counter) -> Callable[..., Any]:
    """The function, after a note."""

    def replacement(*args: Any, **kwargs: Any) -> Any:
        if not args or type(args[0]) is not int:  # a descriptor that is open already
            counter.note()
        return function(*args, **kwargs)

    return replacement


class _Writer:
    """A file whose writes are counted."""

    def __init__(self, file: Any, counter: Counter) -> None:
        self._file, self._counter = file, counter

    def write(self, content: Any) -> Any:
        self._counter.note()
        return self._file.write(content)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *_: Any) -> None:
        self._file.close()


def _memory_map(counter: Counter) -> Any:
    real = mmap.mmap

    class Map(real):  # type: ignore[misc, valid-type]
        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            counter.note()
            return real(*args, **kwargs)

    return Map


def _llvm(counter: Counter) -> Any:
    from cenote.codegen import llvm

    return mock.patch.object(llvm, "object_code", counted(llvm.object_code, counter))


def _writes(counter: Counter) -> Any:
    real = builtins.open

    def opened(path: Any, mode: str = "r", **more: Any) -> Any:
        file = real(path, mode, **more)
        return _Writer(file, counter) if mode == "xb" else file

    return mock.patch.object(builtins, "open", opened)


def _attribute(owner: Any, name: str) -> Callable[[Counter], Any]:
    return lambda counter: mock.patch.object(owner, name, counted(getattr(owner, name), counter))


def _system(number: int) -> Callable[[], BaseException]:
    return lambda: OSError(number, os.strerror(number))


# What fails, how, and what is replaced for that.
POINTS: dict[str, tuple[Callable[[], BaseException], tuple[Callable[[Counter], Any], ...]]] = {
    "allocation": (MemoryError, (_attribute(np, "empty"), _attribute(np, "zeros"))),
    "mapping": (
        _system(errno.ENOMEM),
        (lambda counter: mock.patch.object(mmap, "mmap", _memory_map(counter)),),
    ),
    "thread": (
        lambda: RuntimeError("can't start new thread"),
        (_attribute(threading.Thread, "start"), _attribute(_thread, "start_new_thread")),
    ),
    "lock": (
        lambda: RuntimeError("can't allocate lock"),
        (_attribute(threading, "Lock"), _attribute(threading, "RLock")),
    ),
    "open": (
        _system(errno.EMFILE),
        (_attribute(os, "open"), _attribute(builtins, "open"), _attribute(io, "open")),
    ),
    "write": (_system(errno.ENOSPC), (_writes,)),
    "rename": (_system(errno.EACCES), (_attribute(os, "replace"),)),
    "folder": (
        _system(errno.EACCES),
        (_attribute(os, "mkdir"), _attribute(os, "unlink"), _attribute(os, "utime")),
    ),
    "process": (_system(errno.EAGAIN), (_attribute(subprocess, "Popen"),)),
    "compile": (lambda: RuntimeError("LLVM refuses"), (_llvm,)),
    "interrupt": (
        KeyboardInterrupt,
        (_attribute(np, "empty"), _attribute(os, "open"), _attribute(os, "replace")),
    ),
}


@contextmanager
def failing(point: str, k: int, lasting: bool = False) -> Iterator[Counter]:
    """While this lasts, the k-th time fails; with `lasting` every later one too."""
    error, patches = POINTS[point]
    counter = Counter(k, error, lasting)
    with ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch(counter))
        yield counter
