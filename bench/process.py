"""The parent's end of a worker process."""

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.engines.registry import EngineSpec

ROOT = Path(__file__).parent.parent
# Longer than any load or single run of any peer: only a hung one is ended.
ANSWER_TIMEOUT = 900.0
# Libraries that read their thread count from the environment, at import.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class EngineError(Exception):
    """An engine could not do what it was asked; the message says what it said."""


class EngineProcess:
    """One engine in a process of its own, which stands still except while it is asked something.

    Standing still means stopped by a signal: several engines keep threads spinning for a while after a run,
    and those would otherwise be measured as part of whichever engine comes next.
    """

    def __init__(self, spec: EngineSpec, threads: int, variables: Mapping[str, str] | None = None) -> None:
        """`variables`: more for the worker's environment."""
        self.name = spec.name
        self.pipe, far_end = multiprocessing.Pipe()
        command = [sys.executable, "-m", "bench.worker", str(far_end.fileno())]
        self.process = subprocess.Popen(
            command,
            pass_fds=[far_end.fileno()],
            env={**environment(threads, spec.before), **(variables or {})},
            # Peers print notices of their own; they must not mix with the tables.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        far_end.close()

    def call(self, request: str, *arguments: Any) -> Any:
        """Wakes the worker, makes one request, waits for the answer, and puts it back to sleep."""
        try:
            self.process.send_signal(signal.SIGCONT)
            self.pipe.send((request, arguments))
            if not self.pipe.poll(ANSWER_TIMEOUT):
                raise EngineError(f"no answer to {request} in {ANSWER_TIMEOUT:.0f} s")
            succeeded, answer = self.pipe.recv()
        except (EOFError, OSError):
            raise EngineError(f"process ended during {request} with code {self.process.wait()}") from None
        self.process.send_signal(signal.SIGSTOP)
        if not succeeded:
            raise EngineError(answer)
        return answer

    def close(self) -> None:
        """Ends the process; it has nothing to save."""
        self.process.kill()
        self.process.wait()
        self.pipe.close()


def environment(threads: int, before: bool = False) -> dict[str, str]:
    """The worker's environment: this checkout (or an older one) importable, thread counts as asked."""
    source = Path(os.environ.get("CENOTE_BEFORE", ROOT)).resolve() if before else ROOT
    paths = [str(ROOT), str(source / "src"), os.environ.get("PYTHONPATH", "")]
    variables = dict.fromkeys(THREAD_VARIABLES, str(threads))
    return {**os.environ, **variables, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
