"""Where a team's workers may run: with their caller's CPUs, off the one it is on, through changes, forks and exits."""

from __future__ import annotations

import os
import sys

import pytest

from tests.runtime.long_runs import in_a_process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads are placed on Linux only")
ALLOWED = os.sched_getaffinity(0) if sys.platform == "linux" else set()
several = pytest.mark.skipif(len(ALLOWED) < 2, reason="needs two CPUs")

START = """
import os, sys, threading, time
import numpy as np
from cenote.runtime import threads as runtime
from cenote.runtime.layouts import CONTROL
from tests.runtime.chains import SIZE, chain

x, own = np.arange(SIZE, dtype=np.float32), os.sched_getaffinity
allowed = sorted(own(0))

def call(threads):
    time.sleep(0.02)  # the workers are asleep
    before = own(0)
    assert np.array_equal(chain(20, threads).run([x])[0], x + 20)
    assert own(0) == before, "the caller's own affinity has changed"

def workers(threads):
    team = runtime._teams[threads]
    place = CONTROL.thread_ids
    ids = [int(each) for each in team.control[place + 1 : place + threads]]
    assert all(ids) and len(set(ids)) == threads - 1, ids
    return team, [own(each) for each in ids]

def started(threads):
    call(threads)
    team, give_up = runtime._teams[threads], time.monotonic() + 60
    place = CONTROL.thread_ids
    while not all(team.control[place + 1 : place + threads]) and time.monotonic() < give_up:
        time.sleep(0.001)
    call(threads)

def kept_off(threads, cpus):
    started(threads)
    team, places = workers(threads)
    caller = int(team.control[CONTROL.caller_cpu]) - 1
    assert caller in cpus
    assert all(each == (set(cpus) - {caller} or set(cpus)) for each in places), (places, caller, cpus)
"""


def passes(code: str, *arguments: object) -> None:
    result = in_a_process(START + code, *arguments)
    assert (result.returncode, result.stderr) == (0, "")


@several
@pytest.mark.parametrize("threads", [2, 5])
def test_workers_keep_off_their_callers_cpu(threads: int) -> None:
    passes("kept_off(int(sys.argv[1]), allowed)\n", threads)


@several
def test_a_changed_affinity_is_followed_there_and_back() -> None:
    passes(
        "for cpus in (allowed, allowed[:1], allowed[-1:], allowed, allowed[:2], allowed):\n"
        "    os.sched_setaffinity(0, cpus)\n"
        "    kept_off(2, cpus)\n"
    )


@several
def test_an_affinity_that_another_process_changes_is_followed() -> None:
    passes(
        "kept_off(3, allowed)\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    os.sched_setaffinity(os.getppid(), allowed[:1])\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        "kept_off(3, allowed[:1])\n"
    )


@several
def test_callers_with_cpus_of_their_own_take_the_workers_along() -> None:
    passes(
        "def pinned(cpu):\n"
        "    os.sched_setaffinity(0, [cpu])\n"
        "    try:\n"
        "        kept_off(2, [cpu])\n"
        "    except AssertionError as error:\n"
        "        failed.append(error)\n"
        "failed = []\n"
        "kept_off(2, allowed)\n"
        "for cpu in (allowed[0], allowed[-1], allowed[0]):\n"
        "    thread = threading.Thread(target=pinned, args=(cpu,))\n"
        "    thread.start()\n"
        "    thread.join()\n"
        "assert not failed, failed\n"
        "kept_off(2, allowed)\n"
    )


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_one_cpu_is_enough(threads: int) -> None:
    passes(
        "os.sched_setaffinity(0, allowed[:1])\n"
        "threads = int(sys.argv[1])\n"
        "call(threads)\n"
        "if threads > 1:\n"
        "    kept_off(threads, allowed[:1])\n",
        threads,
    )


@several
def test_a_forked_child_places_its_own_workers_and_no_others() -> None:
    passes(
        "kept_off(2, allowed)\n"
        "team, before = workers(2)\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    try:\n"
        "        os.sched_setaffinity(0, allowed[:1])\n"
        "        kept_off(2, allowed[:1])\n"
        "        assert runtime._teams[2] is not team\n"
        "    except BaseException as error:\n"
        "        print(error, file=sys.stderr, flush=True)\n"
        "        os._exit(1)\n"
        "    os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "assert workers(2) == (team, before)\n"
        "kept_off(2, allowed)\n"
    )


def test_who_has_left_is_placed_no_more() -> None:
    """The system gives a thread's number away again, perhaps to another process."""
    passes(
        "started(3)\n"
        "team, _ = workers(3)\n"
        "with team.guard.lock:\n"
        "    team.dismiss()\n"
        "place = CONTROL.thread_ids\n"
        "assert not team.present and not team.control[place : place + 3].any()\n"
    )


@several
def test_a_caller_that_waits_long_gives_its_cpu_free_and_takes_it_back() -> None:
    """Three chunks for two threads: one of them does the second alone, in half of the runs the worker."""
    passes(
        "from dataclasses import replace\n"
        "from tests.runtime.long_runs import SIZE as SMALL, repeating\n"
        "kept_off(2, allowed)\n"
        "team, _ = workers(2)\n"
        "worker, seen, over = int(team.control[CONTROL.thread_ids + 1]), [], []\n"
        "def look():\n"
        "    while not over:\n"
        "        seen.append(own(worker))\n"
        "        time.sleep(0.002)\n"
        "thread = threading.Thread(target=look)\n"
        "thread.start()\n"
        "program, y = repeating(3_000_000, 2, 1), np.arange(SMALL, dtype=np.float32)\n"
        "program = replace(program, steps=tuple(replace(s, grain=1_000_000) for s in program.steps), _free=[])\n"
        "try:\n"
        "    for run in range(200):\n"
        "        assert np.array_equal(program.run([y])[0], y + 1)\n"
        "        if set(allowed) in seen:\n"
        "            break\n"
        "finally:\n"
        "    over.append(True)\n"
        "    thread.join()\n"
        "assert set(allowed) in seen, seen\n"
        "assert set(allowed) != seen[0]\n"
        "kept_off(2, allowed)\n"
    )


@several
def test_a_system_that_forbids_placing_leaves_workers_where_they_are() -> None:
    """A sandbox, for example: the results are right all the same."""
    passes(
        "import ctypes, platform, struct\n"
        "started(2)\n"
        "filtering, first = {'x86_64': (317, 203), 'aarch64': (277, 122)}[platform.machine()]\n"
        "rules = [(0x20, 0, 0, 0), (0x35, 0, 2, first), (0x25, 1, 0, first + 1)]\n"  # the number, from..to?
        "rules += [(0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7FFF0000)]\n"  # EPERM; allowed
        "code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *rule) for rule in rules))\n"
        "program = struct.pack('HxxxxxxP', len(rules), ctypes.addressof(code))\n"
        "libc = ctypes.CDLL(None)\n"
        "assert libc.prctl(38, 1, 0, 0, 0) == 0\n"
        "if libc.syscall(filtering, 1, 1, program):\n"  # of all threads
        "    sys.exit(0)\n"  # no such filters here
        "try:\n"
        "    own(0)\n"
        "    raise SystemExit('the rule does not hold')\n"
        "except PermissionError:\n"
        "    pass\n"
        "for _ in range(5):\n"
        "    time.sleep(0.02)\n"
        "    assert np.array_equal(chain(20, 2).run([x])[0], x + 20)\n"
    )
