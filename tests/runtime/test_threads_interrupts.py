"""Ctrl-C during runs, functions and compilations: it takes effect soon, and what comes after is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.long_runs import in_a_process

START = """
import os, signal, sys, threading, time
import numpy as np
from cenote.codegen import jit

def interrupted(work, clock=time.process_time):  # CPU seconds from then on: a busy machine counts for nothing
    sent = []
    def send():
        time.sleep(0.3)
        sent.append(clock())
        os.kill(os.getpid(), signal.SIGINT)
    thread = threading.Thread(target=send)
    thread.start()
    try:
        work()
    except KeyboardInterrupt:
        thread.join()
        return clock() - sent[0]
    raise SystemExit("was not interrupted")
"""
RUN = """
from tests.runtime.long_runs import SIZE, repeating
threads, x = int(sys.argv[1]), np.arange(SIZE, dtype=np.float32)
long, short = repeating(10**9, threads), repeating(1000, threads)   # the long one takes half a minute
for _ in range(3):
    assert interrupted(lambda: long.run([x])) < 5
    assert np.array_equal(short.run([x])[0], x + 2)
assert np.array_equal(repeating(10**6, threads).run([x])[0], x + 2)
assert len(long._free) == 1
"""
FUNCTION = """
import cenote.functional as F
x = np.random.default_rng(0).standard_normal((16, 16, 512, 512), np.float32)
small, threads = np.ascontiguousarray(x[:1, :, :80, :80]), int(sys.argv[1])
want = F.soft_pool(small, 31, 1)
assert interrupted(lambda: F.soft_pool(x, 31, 1, threads=threads)) < 5   # one kernel, half a minute
assert np.array_equal(F.soft_pool(small, 31, 1), want)
"""
LLVM = """
import cenote.codegen.llvm as llvm
from cenote.core.locks import LLVM
from tests.core.slow import Slow
compile_now = llvm.object_code
may_end = threading.Event()
def slowly(emitted, kept):
    with LLVM.lock:
        may_end.wait()
    return compile_now(emitted, kept)
llvm.object_code = slowly
sources = [Slow("test_here", jit.host_target(), 0.0)]
interrupted(lambda: jit.addresses(sources, jit.host_target()))  # or it hangs
may_end.set()
llvm.object_code = compile_now
assert len(jit.addresses(sources, jit.host_target())) == 1
"""
PROCESSES = """
from tests.core.slow import Slow
sources = [Slow(f"test_slow_{i}", jit.host_target(), 1000.0) for i in range(12)]
interrupted(lambda: jit.addresses(sources, jit.host_target()))  # or it hangs
quick = [Slow(f"test_quick_{i}", jit.host_target(), 0.0) for i in range(12)]
assert len(jit.addresses(quick, jit.host_target())) == 12
"""


def check(code: str, *arguments: object, **environment: str) -> None:
    result = in_a_process(START + code, *arguments, **environment)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_long_run_is_interrupted_and_the_next_one_right(threads: int) -> None:
    check(RUN, threads)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_function_is_interrupted(threads: int) -> None:
    check(FUNCTION, threads)


@pytest.mark.parametrize("code", [LLVM, PROCESSES], ids=["here", "processes"])
def test_a_compilation_is_interrupted(code: str, tmp_path: Path) -> None:
    check(code, CENOTE_CACHE=str(tmp_path))
