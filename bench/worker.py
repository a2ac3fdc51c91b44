"""The process that holds one engine: reads requests from a pipe, answers each.

Nothing is imported here beyond what the loop needs, because the peak memory of this process is a result.
"""

import ctypes
import gc
import importlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from bench.engines.registry import EngineSpec
from bench.noise import Meter

PR_SET_PDEATHSIG = 1
FEWEST = 3  # runs of a size that tell its steady time
SAMPLED = 1 << 18  # elements of one output that are sent to be compared


class Host:
    """The requests that the parent can make, one method each."""

    def __init__(self) -> None:
        self.engine: Any = None
        self.input: Any = None
        self.answers: list[bytes] = []

    def start(self, spec: EngineSpec, threads: int) -> dict[str, Any]:
        """Imports the engine."""
        if spec.pin:
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
        import numpy as np  # noqa: F401  (every engine needs it: its import is not charged to any)

        begin = time.perf_counter()
        module = importlib.import_module(spec.module)
        seconds = time.perf_counter() - begin
        self.engine = getattr(module, spec.class_name)()
        return {"version": self.engine.version(), "import_seconds": seconds}

    def prepare(self, work: Any) -> float:
        """Converts the model; gives the seconds that took."""
        begin = time.perf_counter()
        self.engine.prepare(work)
        return time.perf_counter() - begin

    def load(self, work: Any, threads: int) -> float:
        """Loads the work; gives the seconds that took."""
        begin = time.perf_counter()
        self.engine.load(work, threads)
        return time.perf_counter() - begin

    def first(self, x: Any) -> tuple[float, Any]:
        """The first run: its seconds and its outputs.

        What is written behind it is on the disk before anything else is measured. Cenote keeps VGG-16 compiled, in
        0.7 GB, and for the three seconds that this takes, two threads take 80 ms in place of 52.
        """
        self.input = self.engine.adopt(x)
        begin = time.perf_counter()
        y = self.engine.run(self.input)
        seconds = time.perf_counter() - begin
        self.engine.settle()
        os.sync()
        return seconds, self.engine.outputs(y)

    def measure(self, seconds: float, warm_up: bool) -> dict[str, Any]:
        """Runs again and again for so long; gives each run's time and what else kept the machine busy."""
        run, x, clock = self.engine.run, self.input, time.perf_counter
        if warm_up:  # brings weights and code back into the caches that other engines have used since
            run(x)
        gc.collect()
        gc.disable()
        meter = Meter()
        times: list[float] = []
        end = clock() + seconds
        now = clock()
        while now < end or not times:
            y = run(x)
            before, now = now, clock()
            times.append(now - before)
            del y
        gc.enable()
        return {"times": times, "foreign_cores": meter.foreign_cores()}

    def new_size(self, x: Any, seconds: float) -> dict[str, Any]:
        """The first run of an input of a new size, the runs of it that follow for so long, at least three, and one more
        after another size.

        The input of `first` is run before the first and the last one: threads are then as awake as in the runs between.
        `back` is the last one: what `first` would be, were the size not new. `work_beyond`: processor time of the first
        run beyond that of a later one, in this process; other processes lengthen a run, but hardly its processor time.
        """
        run, clock = self.engine.run, time.perf_counter
        run(self.input)
        gc.collect()
        gc.disable()
        meter = Meter()
        worked = time.process_time()
        begin = clock()
        y = run(x)
        now = clock()
        first, first_work = now - begin, time.process_time() - worked
        worked += first_work
        times: list[float] = []
        end = now + seconds
        while now < end or len(times) < FEWEST:
            again = run(x)
            before, now = now, clock()
            times.append(now - before)
            del again
        work = (time.process_time() - worked) / len(times)
        run(self.input)
        gc.collect()
        begin = clock()
        again = run(x)
        back = clock() - begin
        del again
        gc.enable()
        outputs = tuple(sample(array) for array in self.engine.outputs(y))
        return {
            "first": first,
            "times": times,
            "back": back,
            "work_beyond": first_work - work,
            "outputs": outputs,
            "foreign_cores": meter.foreign_cores(),
        }

    def stream(self, shapes: Sequence[tuple[int, ...]], seed: int) -> dict[str, Any]:
        """One run for each shape; seconds of each (making the inputs is not timed) and samples of the outputs."""
        from math import prod

        import numpy as np

        noise = np.random.default_rng(seed).standard_normal(max(map(prod, shapes)), np.float32)
        run, clock = self.engine.run, time.perf_counter
        times: list[float] = []
        outputs: list[Any] = []
        meter = Meter()
        for shape in shapes:
            x = noise[: prod(shape)].reshape(shape)
            begin = clock()
            y = run(x)
            times.append(clock() - begin)
            outputs.append(tuple(sample(array, SAMPLED // 16) for array in self.engine.outputs(y)))
        return {"times": times, "outputs": outputs, "foreign_cores": meter.foreign_cores()}

    def compiled(self) -> int:
        """Kernels that the engine has had compiled."""
        kernels: int = self.engine.compiled()
        return kernels

    def memory(self) -> tuple[float, float]:
        """Resident size now, in megabytes: memory of the process's own, without what the C library keeps of what was
        given back, and pages of files, which processes share and the system may drop."""
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        return resident("RssAnon"), resident("RssFile")

    def after_pauses(self, pause: float, bursts: int, calls: int) -> tuple[list[list[float]], bool]:
        """Rests so many seconds, then makes a burst of calls, several times: each call's seconds, and whether the last
        answers of all bursts have the same bits as an answer before."""
        run, x, clock = self.engine.run, self.input, time.perf_counter
        self.answers = self.answers or self.bits(run(x))
        gc.collect()
        gc.disable()
        rows, same = [], True
        for _ in range(bursts):
            time.sleep(pause)
            row = []
            for _ in range(calls):
                y = None  # so that its memory is free, as in `measure`
                begin = clock()
                y = run(x)
                row.append(clock() - begin)
            rows.append(row)
            same = same and self.bits(y) == self.answers
        gc.enable()
        return rows, same

    def bits(self, y: Any) -> list[bytes]:
        """What a run gave, bit for bit."""
        return [array.tobytes() for array in self.engine.outputs(y)]

    def host_shares(self, runs: int) -> dict[str, float]:
        """The share of a run that each step outside of native code takes."""
        self.engine.run(self.input)
        shares: dict[str, float] = self.engine.shares(self.input, runs)
        return shares

    def peak_memory(self) -> float:
        """Largest resident size so far, in megabytes."""
        return resident("VmHWM")


def resident(field: str) -> float:
    """A field of the kernel's, in megabytes."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith(field))
    return int(line.split()[1]) / 1024


def sample(array: Any, most: int = SAMPLED) -> Any:
    """Evenly spaced elements of a large array: to compare millions of them, they would have to go through the pipe.

    Along the last axis, so that the axes before keep their meaning.
    """
    if array.size <= most:
        return array.copy()
    step = -(-array.size // most)
    return array[..., ::step].copy()


def serve(pipe: Connection) -> None:
    """Answers requests until the parent hangs up."""
    host = Host()
    while True:
        try:
            name, arguments = pipe.recv()
        except EOFError:
            return
        try:
            answer = (True, getattr(host, name)(*arguments))
        except Exception as problem:
            # Whatever a peer throws is a result to report, not a reason to stop the comparison.
            lines = str(problem).strip().splitlines() or [""]
            answer = (False, f"{type(problem).__name__}: {lines[0]}")
        pipe.send(answer)


def main() -> None:
    """Started by `bench.process` with the pipe's file descriptor as argument."""
    # A stopped process would outlive a parent that was killed; this ends it.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    serve(Connection(int(sys.argv[1])))
    # Some peers crash in their own clean-up at exit, and nothing is left to lose.
    os._exit(0)


if __name__ == "__main__":
    main()
