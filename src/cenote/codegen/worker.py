"""Compilation of kernels in processes of their own, on all cores, so that the caller never loads LLVM.

`compile_in_processes` starts `python -m cenote.codegen.worker`, which forks a worker for each core once it has imported
what all need (0.2 s), and hands out kernel specs, one at a time, to whichever worker is free; each answers with object
code. `start_early` starts them before it is known which kernels are needed, and `ask_early` names one as soon as it is.
LLVM's Python binding holds one lock around every call, so
threads would not help; and a process that has compiled keeps 60 MB of LLVM that it never needs again.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import logging
import os
import pickle
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from os import _exit
from queue import SimpleQueue
from typing import IO, TYPE_CHECKING, Any

from cenote.codegen import emission
from cenote.codegen.emission import EmittedKernel, KernelSource
from cenote.core.errors import CodegenError
from cenote.core.locks import importing
from cenote.core.target import Target, physical_cores

if TYPE_CHECKING:
    import subprocess

_log = logging.getLogger(__name__)
_FEW = 4  # kernels that are compiled sooner than a worker starts (0.3 s)
_EACH = 3  # kernels that make another worker worth its start: 0.1 s each (AVX-512, the mean of 60)


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
    sources: Sequence[KernelSource], target: Target, done: Callable[[str, bytes], None], more: bool = False
) -> list[KernelSource]:
    """Compile, calling `done(symbol, object code)` for each; return the sources that could not be compiled here.
    `more`: the workers wait for others afterwards.

    Raises CodegenError when LLVM refuses a kernel. A worker that cannot start or dies leaves its kernels to the
    caller.
    """
    crew = _taken(target) or _Crew(target, min(physical_cores(), max(1, len(sources) // _EACH)))
    try:
        left = crew.collect(sources, done)
    except BaseException:  # Ctrl-C too
        crew.kill()
        raise
    if more:
        _keep(crew)
    else:
        crew.end()
    return left


_Answers = SimpleQueue[tuple["KernelSource", bytes | str | None] | None]


class _Crew:
    """Workers that compile kernels for one target, in the order in which they are asked to. They are forked by one
    process, which imports what all need."""

    def __init__(self, target: Target, count: int, modules: Sequence[str] = ()) -> None:
        self.target = target
        self._work, self._answers = SimpleQueue[KernelSource | None](), _Answers()
        self._asked: dict[str, KernelSource] = {}  # kernels that nobody has collected, by symbol
        self.process, pipes = _started(count, modules)
        servers = [_Server(each, self._work, target, self._answers) for each in pipes]
        self._servers = [server for server in servers if server.start()]
        self._running = len(self._servers)

    def is_alive(self) -> bool:
        """Whether the process that forked the workers has not ended."""
        return self.process is not None and self.process.poll() is None

    def ask(self, source: KernelSource) -> None:
        """Queue a kernel."""
        if source.symbol not in self._asked:
            self._asked[source.symbol] = source
            self._work.put(source)

    def collect(
        self, sources: Sequence[KernelSource], done: Callable[[str, bytes], None]
    ) -> list[KernelSource]:
        """Wait for these kernels and all that were queued before; return those that could not be compiled."""
        wanted, left = {source.symbol for source in sources}, list[KernelSource]()
        for source in sources:
            self.ask(source)
        while self._asked and self._running:
            answer = self._answers.get()  # here, not in a server: `done` may use locks that this thread holds
            if answer is None:
                self._running -= 1
                continue
            source, code = answer
            del self._asked[source.symbol]
            if isinstance(code, bytes):
                done(source.symbol, code)
            elif source.symbol in wanted:
                if code is not None:
                    raise CodegenError(code)
                if isinstance(source, EmittedKernel):
                    raise CodegenError(
                        f"{source.place}: LLVM ended the process that compiled it (an instruction that "
                        f"{self.target.name} lacks, or operands that do not fit it?)"
                    )
                left.append(source)
        return [*left, *(source for symbol, source in self._asked.items() if symbol in wanted)]

    def end(self) -> None:
        """End the workers after what they were asked for."""
        for _ in self._servers:
            self._work.put(None)
        for server in self._servers:
            server.join()
        if self.process is not None:
            self.process.wait()

    def kill(self) -> None:
        """End the workers at once."""
        for server in self._servers:
            server.ended = True
        if self.process is not None and self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.end()


class _Server:
    """Thread that puts questions to a worker and queues its answers; None is the last."""

    def __init__(
        self,
        pipes: tuple[IO[bytes], IO[bytes]],
        work: SimpleQueue[KernelSource | None],
        target: Target,
        answers: _Answers,
    ) -> None:
        self._to, self._from = pipes
        self._work, self._target, self._answers = work, target, answers
        self._thread = threading.Thread(target=self._serve, name="cenote-compile", daemon=True)
        self.ended = False

    def start(self) -> bool:
        """Start the thread; False where the system starts no more threads."""
        try:
            self._thread.start()
        except (RuntimeError, MemoryError):
            self._close()
            return False
        return True

    def join(self) -> None:
        """Wait until nothing more is asked."""
        self._thread.join()

    def _serve(self) -> None:
        try:
            while (source := self._work.get()) is not None and not self.ended:
                with timed(source.symbol):
                    answer = self._ask((source, self._target))
                self._answers.put((source, answer))
                if answer is None:
                    break
        finally:
            self._close()
            self._answers.put(None)

    def _ask(self, question: Any) -> bytes | str | None:
        """Return a worker's answer: object code, the text of a failure, or None when the worker is gone."""
        try:
            _send(self._to, pickle.dumps(question))
            answer = _receive(self._from)
        except (OSError, ValueError):
            return None
        if answer is None:
            return None
        return answer[1:] if answer[:1] == b"+" else answer[1:].decode()

    def _close(self) -> None:
        """End the worker: by a message, for closing the pipe does not show it where a process that was forked meanwhile
        has its end too."""
        with suppress(OSError, ValueError):
            _send(self._to, b"")
        for pipe in (self._to, self._from):
            with suppress(OSError):  # it has ended with a question unread; the pipe is closed all the same
                pipe.close()


_ready: list[_Crew] = []  # workers that wait for questions: one crew
_PATIENCE = 30.0  # seconds until idle workers are ended
_clocks: list[threading.Timer] = []  # timers that end them; none while no crew waits


def start_early(target: Target, modules: Sequence[str], sources: Sequence[KernelSource]) -> None:
    """Start a worker for each core, for kernels that will be needed soon: they import LLVM and these modules, and
    compile kernels that every model needs, while this process reads a model. Idle ones are ended after a while: a
    model of any size may never run."""
    if not _ready:
        crew = _Crew(target, physical_cores(), modules)
        for source in sources:
            crew.ask(source)
        _keep(crew)


def ask_early(source: KernelSource, target: Target) -> None:
    """Let workers that wait compile a kernel that will be needed soon; without such workers do nothing."""
    for crew in _ready[-1:]:
        if crew.target == target:
            crew.ask(source)


def waits_for(target: Target) -> bool:
    """Whether workers for this target wait for questions."""
    return any(crew.target == target for crew in _ready)


def _keep(crew: _Crew) -> None:
    """Let a crew wait for other kernels, for a while."""
    _ready.append(crew)
    clock = threading.Timer(_PATIENCE, _end_idle, [crew])
    clock.daemon = True
    try:
        clock.start()
        _clocks.append(clock)
    except (RuntimeError, MemoryError):  # no thread available: nothing would end them
        _end_idle(crew)


def _end_idle(crew: _Crew) -> None:
    """End the workers of a crew if it still waits."""
    with suppress(ValueError):  # another call has taken it
        _ready.remove(crew)
        crew.kill()
    _stop_clocks()


def _stop_clocks() -> None:
    """Stop the timers once no crew waits."""
    while _clocks and not _ready:
        _clocks.pop().cancel()


def _taken(target: Target) -> _Crew | None:
    """Return the crew that waits; one for another target, or whose process has died, is ended."""
    with suppress(IndexError):  # another thread has taken it
        while _ready:
            crew = _ready.pop()
            _stop_clocks()
            if crew.target == target and crew.is_alive():
                return crew
            crew.kill()
    return None


_Pipes = tuple[IO[bytes], IO[bytes]]  # to a worker, and from it


def _started(count: int, modules: Sequence[str]) -> tuple[subprocess.Popen[bytes] | None, list[_Pipes]]:
    """Start a number of workers; return the process that forks them, and the pipes. It is None where the system starts
    no more processes (a sandbox, an emulator)."""
    with importing():
        import subprocess  # 4 ms, which a process that compiles nothing need not spend

    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    ours, theirs = list[int](), list[int]()
    try:
        for _ in range(count):
            for mine, other in (reversed(os.pipe()), os.pipe()):
                ours.append(mine)
                theirs.append(other)
        # No fork meanwhile: Popen waits until nobody else has the pipe by which it learns of a failure, and a forked
        # child would keep it for its whole life.
        with importing():
            process = subprocess.Popen(
                [sys.executable, "-m", "cenote.codegen.worker", ",".join(map(str, theirs)), *modules],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=theirs,
                process_group=0,  # Ctrl-C does not reach it, and `kill` all of its workers
                env={**os.environ, "PYTHONPATH": path},
            )
    # TypeError: an embedded interpreter has no executable; RuntimeError: no lock, no thread
    except (OSError, TypeError, RuntimeError, MemoryError):
        for end in ours:
            os.close(end)
        return None, []
    finally:
        for end in theirs:
            os.close(end)
    return process, [
        (os.fdopen(to, "wb"), os.fdopen(back, "rb")) for to, back in zip(ours[::2], ours[1::2], strict=True)
    ]


def end_ready() -> None:
    """End the idle workers, at exit."""
    for crew in tuple(_ready):
        _end_idle(crew)


atexit.register(end_ready)
os.register_at_fork(after_in_child=_ready.clear)  # they belong to the parent
os.register_at_fork(after_in_child=_clocks.clear)


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


def serve_forever(ends: Sequence[tuple[int, int]], modules: Sequence[str]) -> None:
    """Answer questions until the caller sends an empty one, or closes the pipe: a process for each pair of pipes'
    ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller decides what ends
    llvm = importlib.import_module("cenote.codegen.llvm")
    for name in modules:
        with suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()
    children, mine = list[int](), ends[0]
    for other in ends[1:]:
        child = os.fork()
        if child == 0:
            children, mine = [], other
            break
        children.append(child)
    for end in {end for pair in ends for end in pair} - {*mine}:
        os.close(end)
    questions, answers = os.fdopen(mine[0], "rb"), os.fdopen(mine[1], "wb")
    while question := _receive(questions):
        try:
            source, target = pickle.loads(question)
            answer = b"+" + llvm.object_code(emission.emitted(source, target), emission.is_stored(source))
        except Exception as error:  # whatever it is, it is raised by the caller
            kind = "" if isinstance(error, CodegenError) else f"{type(error).__name__}: "
            answer = b"-" + f"{kind}{error}".encode()
        _send(answers, answer)
    for child in children:
        os.waitpid(child, 0)
    _exit(0)  # the end of an interpreter that has imported LLVM takes 40 ms


if __name__ == "__main__":
    numbers = [*map(int, sys.argv[1].split(","))]
    serve_forever([*zip(numbers[::2], numbers[1::2], strict=True)], sys.argv[2:])
