"""What every kind of case shares: seeds, findings, and what must be left as it was."""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import random
import re
import select
import signal
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cenote.codegen import worker
from cenote.plans import later

STACKS = signal.SIGUSR1  # asks a process that hangs where all its threads are


class Finding(Exception):
    """Something that must not happen: a wrong answer, an exception that is not Cenote's, a leak."""


class Kind(Protocol):
    """A kind of case. `run` gives the name of an outcome, which is counted, or raises Finding."""

    name: str
    limit: float
    """Seconds of the CPU after which a case hangs."""

    def prepare(self) -> None:
        """What is made once, before workers are forked off."""

    def run(self, seed: int) -> str: ...

    def close(self) -> None:
        """The end of a worker: give back what cases share."""


def generator(kind: str, seed: int, what: str = "") -> random.Random:
    """The source of all choices of a case."""
    return random.Random(f"{kind}:{seed}:{what}")


def noise(rng: random.Random) -> np.random.Generator:
    """The same as NumPy's."""
    return np.random.default_rng(rng.getrandbits(63))


def told(error: BaseException) -> str:
    """An exception in full, for a report."""
    return "".join(traceback.format_exception(error)).strip()


@dataclass(frozen=True)
class Belongings:
    """What a process holds that an operation may leak."""

    descriptors: tuple[str, ...]
    threads: int

    @staticmethod
    def now() -> Belongings:
        later.finish()  # of plans that are still written
        worker.end_ready()  # they wait for what is compiled next
        found = []
        for name in os.listdir("/proc/self/fd"):
            try:
                found.append(os.readlink(f"/proc/self/fd/{name}"))
            except OSError:  # the listing's own
                continue
        alive = [each for each in threading.enumerate() if not re.fullmatch(r"cenote-\d+", each.name)]
        return Belongings(tuple(sorted(found)), len(alive))

    def check(self, what: str) -> None:
        """Finding if there is more now. The team's own threads stay for the life of a process.

        What a thread held that is just ending takes a moment to go.
        """
        end = time.monotonic() + 2
        while (more := self._more()) and time.monotonic() < end:
            time.sleep(0.02)
        if more:
            raise Finding(f"{what} leaks {more}")

    def _more(self) -> list[str]:
        gc.collect()
        now = Belongings.now()
        more = list(now.descriptors)
        for name in self.descriptors:
            if name in more:
                more.remove(name)
        if now.threads > self.threads:
            more += [f"thread {each.name}" for each in threading.enumerate()]
        return more


def die_with_parent() -> None:
    """In a forked child: no process outlives the one that waits for it, whatever ends that."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def in_child(work: Callable[[], str], limit: float) -> str:
    """What `work` answers in a forked child. Finding when it raises, dies or takes longer than `limit` seconds."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _answer(work, writer)
    os.close(writer)
    try:
        content, status = _collect(child, reader, limit)
    finally:
        os.close(reader)
    if status is None:
        raise Finding(f"hangs: no answer within {limit:g} s\n{content}")
    if os.WIFSIGNALED(status):
        raise Finding(f"killed by signal {os.WTERMSIG(status)}\n{content}")
    if not content.startswith("+"):
        raise Finding(content[1:] or f"ended with status {os.waitstatus_to_exitcode(status)}")
    return content[1:]


def _answer(work: Callable[[], str], writer: int) -> None:
    """In the child: the answer, then the end. Nothing of the parent's may run: no exit handlers."""
    status = 1
    die_with_parent()
    try:
        faulthandler.enable(writer)
        faulthandler.register(STACKS, writer)
        text = "+" + work()
        later.finish()
        status = 0
    except Finding as finding:
        text = f"-{finding}"
    except BaseException as error:
        text = f"-{told(error)}"
    finally:
        os.write(writer, text.encode(errors="replace")[:60_000])
        os._exit(status)


def _collect(child: int, reader: int, limit: float) -> tuple[str, int | None]:
    """What the child wrote, and its status; None when it had to be killed. A grandchild may hold the pipe open."""
    end, pieces, late = time.monotonic() + limit, list[bytes](), False
    while True:
        if select.select([reader], [], [], 0.02)[0]:
            piece = os.read(reader, 1 << 16)
            pieces.append(piece)
            if not piece:
                break
            continue
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            while select.select([reader], [], [], 0)[0] and (piece := os.read(reader, 1 << 16)):
                pieces.append(piece)
            return _text(pieces), None if late else status
        if time.monotonic() > end + 1:
            os.kill(child, signal.SIGKILL)
        elif time.monotonic() > end and not late:
            late = True
            os.kill(child, STACKS)
    _, status = os.waitpid(child, 0)
    return _text(pieces), None if late else status


def _text(pieces: list[bytes]) -> str:
    return b"".join(pieces).decode(errors="replace")
