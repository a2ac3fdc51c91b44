"""Compiles kernels in processes of their own, on all cores, so that the caller never loads LLVM.

`compile_in_processes` starts `python -m cenote.codegen.worker` a few times and deals out kernel specs, one at a time,
to whichever worker is free; each answers with object code. LLVM's Python binding holds one lock around every call, so
threads would not help; and a process that has compiled keeps 60 MB of LLVM that it never needs again.
"""

from __future__ import annotations

import importlib
import os
import pickle
import struct
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, Protocol

from cenote.core.errors import CodegenError
from cenote.core.target import Target, physical_cores

if TYPE_CHECKING:
    import subprocess

    from cenote.codegen.llvm import Emitted

_FEW = 4  # kernels that are compiled sooner than a worker has started (0.3 s)
_EACH = 6  # kernels that make another worker worth its start


class Source(Protocol):
    """What a worker can turn into a kernel: picklable, knows its symbol."""

    @property
    def symbol(self) -> str: ...

    def emit(self, target: Target) -> Emitted: ...


def worth_processes(kernels: int) -> bool:
    """Are there so many kernels that workers are done sooner?"""
    return kernels > _FEW and bool(sys.executable)


def compile_in_processes(
    sources: Sequence[Source], target: Target, done: Callable[[str, bytes], None]
) -> list[Source]:
    """Compile, calling `done(symbol, object code)` for each; what could not be compiled here is returned.

    Raises CodegenError when LLVM refuses a kernel. A worker that cannot start or dies leaves its kernels to the caller.
    """
    work, failures, lock = deque(sources), list[str](), threading.Lock()
    left: list[Source] = []

    def serve() -> None:
        with _worker() as process:
            while process is not None and not failures:
                try:
                    source = work.popleft()
                except IndexError:
                    break
                answer = _ask(process, (source, target))
                with lock:
                    if answer is None:
                        left.append(source)
                        break
                    if isinstance(answer, str):
                        failures.append(answer)
                    else:
                        done(source.symbol, answer)

    count = min(physical_cores(), max(1, len(sources) // _EACH))
    threads = [threading.Thread(target=serve, name=f"cenote-compile-{i}") for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise CodegenError(failures[0])
    return [*left, *work]


def ask_for_host() -> tuple[str, dict[str, bool], str] | None:
    """What LLVM says of this machine, asked in another process; None when none can be started."""
    with _worker() as process:
        answer = None if process is None else _ask(process, None)
    return pickle.loads(answer) if isinstance(answer, bytes) else None


@contextmanager
def _worker() -> Iterator[subprocess.Popen[bytes] | None]:
    """A worker for a while; None where the system starts no more processes (a sandbox, an emulator)."""
    import subprocess  # 4 ms, which a process that compiles nothing need not spend

    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "cenote.codegen.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
    except (OSError, TypeError):  # TypeError: an embedded interpreter has no executable
        yield None
        return
    try:
        yield process
    finally:
        for pipe in filter(None, (process.stdin, process.stdout)):
            with suppress(OSError):  # it has gone with a question unread; closed it is all the same
                pipe.close()
        process.wait()


def _ask(process: subprocess.Popen[bytes], question: Any) -> bytes | str | None:
    """A worker's answer: object code, the text of a failure, or None when the worker is gone."""
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
    """A worker's life: answer questions until the caller closes the pipe."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing else may write between the answers
    llvm = importlib.import_module("cenote.codegen.llvm")
    while (question := _receive(sys.stdin.buffer)) is not None:
        try:
            asked = pickle.loads(question)
            answer = b"+" + (
                pickle.dumps(llvm.host()) if asked is None else llvm.object_code(asked[0].emit(asked[1]))
            )
        except Exception as error:  # whatever it is, the caller raises it
            answer = b"-" + f"{type(error).__name__}: {error}".encode()
        _send(answers, answer)


if __name__ == "__main__":
    serve_forever()
