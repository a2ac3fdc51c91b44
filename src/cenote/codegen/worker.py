"""Compilation of kernels in processes of their own, on all cores, so that the caller never loads LLVM.

`compile_in_processes` starts `python -m cenote.codegen.worker` a few times and hands out kernel specs, one at a time,
to whichever worker is free; each answers with object code. LLVM's Python binding holds one lock around every call, so
threads would not help; and a process that has compiled keeps 60 MB of LLVM that it never needs again.
"""

from __future__ import annotations

import atexit
import importlib
import logging
import os
import pickle
import signal
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import IO, TYPE_CHECKING, Any, Protocol

from cenote.core.errors import CodegenError
from cenote.core.locks import importing
from cenote.core.target import Target, physical_cores

if TYPE_CHECKING:
    import subprocess

    from cenote.codegen.llvm import Emitted

_log = logging.getLogger(__name__)
_FEW = 4  # kernels that are compiled sooner than a worker starts (0.3 s)
_EACH = 3  # kernels that make another worker worth its start: 0.1 s each (AVX-512, the mean of 60)


class KernelSource(Protocol):
    """Protocol of things that a worker can turn into a kernel: picklable, with a symbol."""

    @property
    def symbol(self) -> str: ...

    def emit(self, target: Target) -> Emitted: ...


def worth_processes(kernels: int) -> bool:
    """Whether worker processes finish this number of kernels sooner than this process."""
    return kernels > _FEW and bool(sys.executable)


@contextmanager
def timed(symbol: str) -> Iterator[None]:
    """Log the time that a kernel took to compile."""
    begin = time.perf_counter()
    yield
    _log.debug("compiled %s in %.0f ms", symbol, 1e3 * (time.perf_counter() - begin))


def compile_in_processes(
    sources: Sequence[KernelSource], target: Target, done: Callable[[str, bytes], None]
) -> list[KernelSource]:
    """Compile, calling `done(symbol, object code)` for each; return the sources that could not be compiled here.

    Raises CodegenError when LLVM refuses a kernel. A worker that cannot start or dies leaves its kernels to the
    caller.
    """
    work, answers = deque(sources), SimpleQueue[tuple[KernelSource, bytes | str | None] | None]()
    crew = [
        _Server(work, target, answers) for _ in range(min(physical_cores(), max(1, len(sources) // _EACH)))
    ]
    left: list[KernelSource] = []
    running = sum(server.start() for server in crew)
    try:
        while running:  # here, not in the servers' threads: `done` may use locks that this thread holds
            answer = answers.get()
            if answer is None:
                running -= 1
            elif answer[1] is None:
                left.append(answer[0])
            elif isinstance(answer[1], str):
                raise CodegenError(answer[1])
            else:
                done(answer[0].symbol, answer[1])
    except BaseException:  # Ctrl-C too
        work.clear()
        for server in crew:
            server.kill()
        raise
    return [*left, *work]


class _Server:
    """Thread that puts questions to a worker process and queues its answers; None is the last."""

    def __init__(
        self,
        work: deque[KernelSource],
        target: Target,
        answers: SimpleQueue[tuple[KernelSource, bytes | str | None] | None],
    ) -> None:
        self.work, self.target, self.answers = work, target, answers
        self.process: subprocess.Popen[bytes] | None = None
        self.killed = False

    def start(self) -> bool:
        """Start the thread; False where the system starts no more threads."""
        try:
            threading.Thread(target=self._serve, name="cenote-compile", daemon=True).start()
        except (RuntimeError, MemoryError):
            return False
        return True

    def kill(self) -> None:
        self.killed = True
        process = self.process
        if process is not None:
            process.kill()

    def _serve(self) -> None:
        try:
            with _worker() as process:
                self.process = process
                while process is not None and not self.killed:
                    try:
                        source = self.work.popleft()
                    except IndexError:
                        break
                    with timed(source.symbol):
                        answer = _ask(process, (source, self.target))
                    self.answers.put((source, answer))
                    if answer is None:
                        break
                if self.killed and process is not None:
                    process.kill()
        finally:
            self.answers.put(None)


_ready: list[subprocess.Popen[bytes]] = []  # workers that wait for their first question
_PATIENCE = 30.0  # seconds until an idle worker is ended
_clocks: list[threading.Timer] = []  # timers that end them; none while no worker waits


def start_early(modules: Sequence[str]) -> None:
    """Start a worker for each core, for kernels that will be needed soon: they import LLVM and these modules while
    this process reads a model. Idle ones are ended after a while: a model of any size may never run."""
    started: list[subprocess.Popen[bytes]] = []
    while len(_ready) < physical_cores() and (process := _started(modules)) is not None:
        _ready.append(process)
        started.append(process)
    if not started:
        return
    clock = threading.Timer(_PATIENCE, _end_idle, [started])
    clock.daemon = True
    try:
        clock.start()
        _clocks.append(clock)
    except (RuntimeError, MemoryError):  # no thread available: nothing would end them
        _end_idle(started)


def _end_idle(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End those of these workers that still wait, and close their pipes."""
    for process in processes:
        with suppress(ValueError):  # another call has taken it
            _ready.remove(process)
            process.kill()
            _close(process)
    _stop_clocks()


def _stop_clocks() -> None:
    """Stop the timers once no worker waits."""
    while _clocks and not _ready:
        _clocks.pop().cancel()


def _taken() -> subprocess.Popen[bytes] | None:
    """Return a worker that waits, or a new one."""
    while _ready:
        process = _ready.pop()
        _stop_clocks()
        if process.poll() is None:
            return process
        _close(process)
    return _started()


def _started(modules: Sequence[str] = ()) -> subprocess.Popen[bytes] | None:
    """Start a worker; None where the system starts no more processes (a sandbox, an emulator)."""
    with importing():
        import subprocess  # 4 ms, which a process that compiles nothing need not spend

    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    try:
        # No fork meanwhile: Popen waits until nobody else has the pipe by which it learns of a failure, and a forked
        # child would keep it for its whole life.
        with importing():
            return subprocess.Popen(
                [sys.executable, "-m", "cenote.codegen.worker", *modules],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path},
            )
    # TypeError: an embedded interpreter has no executable; RuntimeError: no lock, no thread
    except (OSError, TypeError, RuntimeError, MemoryError):
        return None


def _close(process: subprocess.Popen[bytes]) -> None:
    for pipe in filter(None, (process.stdin, process.stdout)):
        with suppress(OSError):  # it has ended with a question unread; the pipe is closed all the same
            pipe.close()
    process.wait()


def end_ready() -> None:
    """End the idle workers, at exit."""
    _end_idle(tuple(_ready))


atexit.register(end_ready)
os.register_at_fork(after_in_child=_ready.clear)  # they belong to the parent
os.register_at_fork(after_in_child=_clocks.clear)


@contextmanager
def _worker() -> Iterator[subprocess.Popen[bytes] | None]:
    """Provide an idle worker within this context; None if there is none."""
    process = _taken()
    if process is None:
        yield None
        return
    try:
        yield process
        with suppress(OSError, ValueError):
            # The end is sent as a message: closing the pipe does not show it, for a process forked meanwhile has its
            # end too.
            _send(process.stdin, b"")  # type: ignore[arg-type]  # there is a pipe
    except BaseException:
        process.kill()
        raise
    finally:
        _close(process)


def _ask(process: subprocess.Popen[bytes], question: Any) -> bytes | str | None:
    """Return a worker's answer: object code, the text of a failure, or None when the worker is gone."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        _send(process.stdin, pickle.dumps(question))
        answer = _receive(process.stdout)
    except (OSError, ValueError):
        return None
    if answer is None:
        return None
    return answer[1:] if answer[:1] == b"+" else answer[1:].decode()


def _send(stream: IO[bytes], content: bytes) -> None:
    stream.write(struct.pack("<Q", len(content)) + content)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes | None:
    head = stream.read(8)
    if len(head) < 8:
        return None
    (length,) = struct.unpack("<Q", head)
    content = stream.read(length)
    return content if len(content) == length else None


def serve_forever() -> None:
    """Answer questions until the caller sends an empty one, or closes the pipe."""
    # Ctrl-C reaches the whole process group; the caller decides what ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # so that nothing else writes between the answers
    llvm = importlib.import_module("cenote.codegen.llvm")
    for name in sys.argv[1:]:
        importlib.import_module(name)
    while question := _receive(sys.stdin.buffer):
        try:
            source, target = pickle.loads(question)
            answer = b"+" + llvm.object_code(source.emit(target.of_level()))
        except Exception as error:  # whatever it is, it is raised by the caller
            answer = b"-" + f"{type(error).__name__}: {error}".encode()
        _send(answers, answer)


if __name__ == "__main__":
    serve_forever()
