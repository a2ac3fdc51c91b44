"""The native program driver: walks a table of steps on every thread of a team, with one call from Python.

    cenote_run(control, steps, first, last)         the caller's part: publish the job, wake the team, work along
    cenote_work(control, index)                     a worker's whole life: wait for a job, work, again
    cenote_halt(control, steps, first, last, stop)  give up the job: returns when no worker is at it any more;
                                                    stop: the workers leave for good
    cenote_rounds(run, control, steps, …)           runs of the same steps, one after another (`rounds`)
    cenote_formulas(code, count, slots, …)          numbers of a program for a new size (`formulas`)
    cenote_call(record, array, array …)             one kernel on the caller's arrays, for small work
    cenote_function(self, arguments, count)         the same as a function of the interpreter (`known`)

    for step in first .. last:
        while a chunk of the step is left: take the next from the front, or from the back on every other thread
        (compare-and-swap), run the kernel, count its items as done
        if step.barrier: wait until the items of all steps since the last barrier are done

A barrier waits for work, not for threads: a worker that the system has not scheduled holds nobody up, the others do
its share, and it joins later at whatever step is under way. (With a barrier that counted threads, 100 small steps took
6.6 ms instead of 0.1 ms on a machine whose cores were shared.) So that a late worker never touches a newer job, the
counters of a step carry the job's number in their upper half, and the job's description is guarded by a sequence lock.

Threads wait in two phases: a bounded spin (a step is often microseconds away), then a futex, so that a waiting thread
never burns a core that somebody else needs. Between jobs a worker spins three times as long: in the first calls after a
pause, when all caches are cold, it waits for its caller 50 to 150 us, and to sleep and be woken costs the caller 25 us
and the worker 50.
A caller that has slept long at a barrier sees to workers that stand still for want of a CPU (`affinity`).

Which thread does which chunk varies; what a chunk computes does not. As threads take chunks from both ends, two of them
have nearly the same parts in every call and, where steps are alike, in every step, and find them in their own caches:
with chunks taken in turn from the front, MobileNet-v2 and SqueezeNet took 5 and 7 % longer, and a pooling layer of 4 MB
took 10 calls instead of 4 to come down to its steady time after a pause.

A run comes back to Python after 50 ms, between two chunks, so that signals are handled: 1 says that there is more to
do, and that the run goes on when called again with -1 as the first step. Only the caller looks at the clock (a coarse
one: 5 ns), after each chunk. Alone, a thread takes larger chunks than a team does: each step starts with its grain and
doubles it, for good, whenever a chunk took less than 4 ms, so most steps soon are one call of their kernel.

Every thread sets its floating-point mode for a job: round to nearest, exceptions masked, denormals kept or flushed to
zero as the step table says, whatever mode its creator or the caller was in. The caller's is restored on return. Where
the control block names logs, threads note what they do when (`notes`).

All is emitted by Python functions, in the verbs of `codegen.native`: `run` has the caller, `work` the workers, `walk`
what both do with steps, `waiting` clocks and futexes, `modes` the floating-point modes. `runtime.layouts` names the
words of a step and of the control block.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from cenote.codegen import jit
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.runtime.layouts import CALL_ARRAYS
from cenote.runtime.memory import DATA_FIELD
from cenote.runtime.threads import DriverAbi

if TYPE_CHECKING:
    from cenote.codegen.native import NativeModule


@dataclass(frozen=True)
class Driver:
    """Function of the driver, as a thing to compile."""

    symbol: str

    def emit(self, target: Target) -> NativeModule:
        """Return its module. Only this imports the builder: a process that finds the driver compiled does without."""
        module: NativeModule = import_module("cenote.kernels.driver.functions").module_of(self.symbol, target)
        return module


# Functions that every program needs.
DRIVER = tuple(Driver(f"cenote_{name}") for name in ("run", "work", "halt", "rounds", "formulas"))
CALL_ON_ARRAYS = Driver("cenote_call")
FUNCTION_ON_ARRAYS = Driver("cenote_function")


@cache
def direct_call() -> Callable[..., int] | None:
    """cenote_call, or None where native code cannot find an array's data. While it gives 1, call it again."""
    if DATA_FIELD is None:
        return None
    address = jit.addresses([CALL_ON_ARRAYS], jit.host_target())[CALL_ON_ARRAYS.symbol]
    return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, *[ctypes.py_object] * CALL_ARRAYS)(address)


@cache
def driver_abi() -> DriverAbi:
    """The driver for this machine, loaded."""
    addresses = jit.addresses(DRIVER, jit.host_target())
    return DriverAbi(*(addresses[each.symbol] for each in DRIVER))
