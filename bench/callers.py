"""Several Python threads that call one model, beside one that does. `python -m bench.callers model.onnx`

Throughput of each number of callers, in slices that take turns; the best slice of each counts. The processor time of a
call tells, also on a machine that has other work, whether callers cost each other anything: without a lock and with
cores free, as many calls are made at once as there are cores.
"""

from __future__ import annotations

import argparse
import threading
import time
from typing import Any

import numpy as np

import cenote


def slice_of(
    model: cenote.Model, feed: list[np.ndarray], callers: int, seconds: float
) -> tuple[float, float]:
    """Calls per second, and seconds of processor time per call."""
    counts, until = [0] * callers, time.perf_counter() + seconds
    begin = threading.Barrier(callers)

    def caller(index: int) -> None:
        begin.wait()
        while time.perf_counter() < until:
            model(*feed)
            counts[index] += 1

    threads = [threading.Thread(target=caller, args=(index,)) for index in range(callers)]
    start, spent = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    calls = max(1, sum(counts))
    return calls / (time.perf_counter() - start), (time.process_time() - spent) / calls


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=1, help="of the model")
    parser.add_argument("--callers", default="1,2,4", help="numbers of Python threads, one first")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a slice")
    parser.add_argument(
        "--size", type=int, default=224, help="of dimensions that the model leaves open but the first"
    )
    options = parser.parse_args()
    model = cenote.load(options.model, threads=options.threads)
    rng = np.random.default_rng(0)
    feed: list[Any] = []
    for each in model.inputs:
        open_size = [1, *[options.size] * 8]
        shape = [n if isinstance(n, int) else open_size[axis] for axis, n in enumerate(each.shape or ())]
        feed.append(rng.random(shape).astype(each.dtype))
    counts = [int(count) for count in options.callers.split(",")]
    for count in counts:
        slice_of(model, feed, count, 0.2)
    best, least = dict.fromkeys(counts, 0.0), dict.fromkeys(counts, float("inf"))
    for _ in range(options.rounds):
        for count in counts:
            rate, spent = slice_of(model, feed, count, options.seconds)
            best[count], least[count] = max(best[count], rate), min(least[count], spent)
    print(
        "| callers | calls/s, best slice | to one caller | processor ms of a call, least |\n|---:|---:|---:|---:|"
    )
    for count in counts:
        ratio = best[count] / best[counts[0]]
        print(f"| {count} | {best[count]:.1f} | {ratio:.2f} | {1e3 * least[count]:.2f} |")


if __name__ == "__main__":
    main()
