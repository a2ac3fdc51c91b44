"""Locks after a fork, and callbacks that use the package while it compiles."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from cenote.core.locks import Guard
from tests.runtime.long_runs import in_a_process


def test_a_guard_is_renewed_and_knows_that_it_was_held() -> None:
    guard, held, done = Guard(), threading.Event(), threading.Event()

    def hold() -> None:
        with guard.lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    guard.renew()
    assert guard.orphaned
    with guard.lock:
        pass
    done.set()
    thread.join()  # releases the lock that it took
    other = Guard()
    with other.lock:
        other.renew()
    assert not other.orphaned


FORK = """
import os, sys, threading, time
from cenote.codegen import jit
from tests.core.slow import Slow
kind, target = sys.argv[1], jit.host_target()
count = 3 if kind == "here" else 12
slow = [Slow(f"test_slow_{i}", target, 0.3) for i in range(count)]
other = threading.Thread(target=jit.addresses, args=(slow, target))
other.start()
time.sleep(float(sys.argv[2]))
child = os.fork()
mine = [Slow(f"test_mine_{os.getpid()}_{i}", target, 0.0) for i in range(3)]
right = len(jit.addresses(mine, target)) == 3
if child == 0:
    right = right and len(jit.addresses(slow[:2], target)) == 2
    os._exit(0 if right else 1)
other.join()
sys.exit(0 if right and os.waitpid(child, 0)[1] == 0 else 1)
"""


@pytest.mark.parametrize("kind", ["here", "processes"])
@pytest.mark.parametrize("delay", [0.05, 0.6])
def test_a_child_forked_while_another_thread_compiles_works(
    kind: str, delay: float, tmp_path: object
) -> None:
    result = in_a_process(FORK, kind, delay, CENOTE_CACHE=str(tmp_path))
    assert result.returncode == 0, result.stdout + result.stderr


INSIDE = """
import os, sys, threading, time
from cenote.codegen import jit
from cenote.core.locks import LLVM
from tests.core.slow import Slow
held = threading.Event()
def hold():
    with LLVM.lock:
        held.set()
        time.sleep(1)
threading.Thread(target=hold).start()
held.wait()
child = os.fork()
if child == 0:
    target = jit.host_target()
    os._exit(0 if jit.addresses([Slow("test_inside", target, 0.0)], target) else 1)
sys.exit(0 if os.waitpid(child, 0)[1] == 0 else 1)
"""


def test_a_child_forked_while_a_thread_is_inside_llvm_compiles_in_a_process(tmp_path: object) -> None:
    result = in_a_process(INSIDE, CENOTE_CACHE=str(tmp_path))
    assert result.returncode == 0, result.stdout + result.stderr


IMPORTING = """
import os, sys, threading, time
from cenote.codegen import jit
from cenote.core.locks import LLVM
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "llvmlite":
            time.sleep(1)
sys.meta_path.insert(0, Slow())
threading.Thread(target=jit._llvm).start()
time.sleep(0.3)
child = os.fork()
if child == 0:
    os._exit(1 if LLVM.orphaned or "cenote.codegen.llvm" not in sys.modules else 0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_fork_waits_for_the_import_of_llvm() -> None:
    """In the middle of dlopen the linker's lock is taken, for good in the child, which then hangs in dlsym."""
    result = in_a_process(IMPORTING)
    assert result.returncode == 0, result.stdout + result.stderr


STARTING = """
import os, subprocess, sys, threading, time
from cenote.codegen import jit, worker
target = jit.host_target()
starting = threading.Event()
class Slow(subprocess.Popen):
    def _execute_child(self, *given):
        starting.set()
        time.sleep(1)
        super()._execute_child(*given)
        starting.clear()
subprocess.Popen = Slow
def start():
    worker._Crew(target, 1).end()
thread = threading.Thread(target=start)
thread.start()
starting.wait()
child = os.fork()
if child == 0:
    os._exit(1 if starting.is_set() else 0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_fork_waits_for_the_start_of_a_worker() -> None:
    """A child would have the pipe whose end Popen waits for, and the parent would wait for the child's end."""
    result = in_a_process(STARTING)
    assert result.returncode == 0, result.stdout + result.stderr


LINGERING = """
import os, sys, threading, time
from cenote.codegen import jit
from tests.core.slow import Slow
target = jit.host_target()
slow = [Slow(f"test_slow_{i}", target, 0.1) for i in range(12)]
other = threading.Thread(target=jit.addresses, args=(slow, target))
other.start()
time.sleep(0.6)
child = os.fork()
if child == 0:
    time.sleep(60)   # holds a copy of every pipe to the workers
    os._exit(0)
other.join(30)
os.kill(child, 9)
sys.exit(1 if other.is_alive() else 0)
"""


def test_a_child_that_lives_on_does_not_hold_up_its_parents_compilation(tmp_path: object) -> None:
    result = in_a_process(LINGERING, CENOTE_CACHE=str(tmp_path))
    assert result.returncode == 0, result.stdout + result.stderr


POOLS = """
import numpy as np
import cenote
import cenote.functional as F
from cenote.codegen import jit
from tests.core.slow import Slow
x, seen = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4), []
def pool(done, total):
    seen.append(float(F.max_pool2d(x, 4).item()))
target = jit.host_target()
with cenote.watch_compilation(pool):
    jit.addresses([Slow(f"test_watched_{i}", target, 0.0) for i in range(12)], target)
assert set(seen) == {15.0}, seen
"""


@pytest.mark.parametrize("cache", ["a folder", "off"])
def test_a_callback_of_the_compilation_may_pool(cache: str, tmp_path: object) -> None:
    result = in_a_process(POOLS, CENOTE_CACHE=str(tmp_path) if cache == "a folder" else cache)
    assert result.returncode == 0, result.stdout + result.stderr


FORK_MEANWHILE = """
thread = threading.Thread(target=use); thread.start(); time.sleep(0.3)
child = os.fork()
if child == 0:
    use()
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""
IMPORTS = """
import os, sys, threading, time
from cenote.core.locks import importing
sys.path.append(sys.argv[1])
def use():
    with importing():
        import slow_to_import
"""
PROPERTY = """
import os, threading, time
from cenote.core.deferred import cached_property
class Slow:
    @cached_property
    def value(self):
        time.sleep(1)
def use():
    Slow().value
"""


@pytest.mark.parametrize("use", [IMPORTS, PROPERTY], ids=["an import on demand", "a property"])
def test_a_child_forked_in_the_middle_of(use: str, tmp_path: Path) -> None:
    """Python's own locks of a module, and of a functools.cached_property, would have no owner in the child."""
    (tmp_path / "slow_to_import.py").write_text("import time; time.sleep(1)")
    result = in_a_process(use + FORK_MEANWHILE, tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
