"""ONNX Runtime in a process of its own: it may crash or hang on what a mutation made, which is no finding."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import resource
import signal
from typing import Any

from tests.fuzz.case import die_with_parent
from tests.fuzz.guard import Fence

_MEMORY = 6 << 30
_LIMIT = 10.0


class Peer:
    """Answers with outputs by name, or with None where ONNX Runtime refuses, crashes or hangs."""

    def __init__(self) -> None:
        self.pid = 0
        self.crashes = 0
        self._pipe: multiprocessing.connection.Connection[Any, Any] | None = None

    def prepare(self) -> None:
        """Load it once, before processes are forked."""
        import onnxruntime

        onnxruntime.set_default_logger_severity(4)

    def run(self, content: bytes, inputs: dict[str, Any]) -> dict[str, Any] | str:
        if self._pipe is None:
            self._start()
        assert self._pipe is not None
        try:
            self._pipe.send((content, inputs))
            if self._pipe.poll(_LIMIT):
                answer: dict[str, Any] | str = self._pipe.recv()
                return answer
        except (EOFError, OSError):
            pass
        self.close()
        self.crashes += 1
        return "crashed or hung"

    def close(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def _start(self) -> None:
        self._pipe, there = multiprocessing.Pipe()
        self.pid = os.fork()
        if self.pid:
            there.close()
            return
        try:
            die_with_parent()
            self._pipe.close()
            resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 2)
            while True:
                there.send(_answer(*there.recv()))
        except BaseException:
            pass
        finally:
            os._exit(0)


class BesidePeer:
    """Base of the kinds whose models run beside ONNX Runtime, with a fence around their memory."""

    def __init__(self) -> None:
        self.fence, self.peer = Fence(), Peer()

    def prepare(self) -> None:
        """Load what compiles once, before workers are forked."""
        self.peer.prepare()
        import onnx.reference  # noqa: F401

        import cenote.compiler.compile
        import cenote.models.loading
        import cenote.ops.table

        cenote.ops.table.operators()

    def close(self) -> None:
        self.peer.close()


def _answer(content: bytes, inputs: dict[str, Any]) -> dict[str, Any] | str:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    with contextlib.suppress(Exception):
        options.enable_cpu_mem_arena = False
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        wanted = {item.name for item in session.get_inputs()}
        feed = {name: x for name, x in inputs.items() if name in wanted}
        return dict(zip(names, session.run(None, feed), strict=True))
    except Exception as error:
        return str(error)[:2000]
