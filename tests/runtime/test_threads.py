"""Teams whose threads cannot start, forks, nested runs, exits, memory: no hang, no crash, the same results."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable

import numpy as np
import pytest

from cenote.core.errors import ArgumentError
from cenote.core.target import physical_cores
from cenote.runtime import threads as runtime
from tests.runtime.chains import SIZE as CHAIN_SIZE
from tests.runtime.chains import chain
from tests.runtime.long_runs import SIZE, in_a_process, repeating

START = "import sys, os, signal, threading, time\nimport numpy as np\n"


@pytest.mark.parametrize("failing", [1, 2, 4])
def test_a_thread_that_cannot_start_makes_a_smaller_team(
    failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts, begin = 0, runtime._thread.start_new_thread

    def start(function: Callable[..., object], arguments: tuple[object, ...]) -> int:
        nonlocal starts
        starts += 1
        if starts == failing:
            raise RuntimeError("can't start new thread")
        return begin(function, arguments)

    monkeypatch.setattr(runtime, "_teams", {})
    monkeypatch.setattr(runtime._thread, "start_new_thread", start)
    x = np.arange(CHAIN_SIZE, dtype=np.float32)
    with pytest.warns(RuntimeWarning, match=f"{failing} instead of 5"):
        first = chain(20, 5).run([x])[0]
    for _ in range(400):
        assert np.array_equal(chain(20, 5).run([x])[0], x + 20)
    assert np.array_equal(first, x + 20)
    (team,) = runtime._teams.values()
    assert team.present == set(range(1, failing))
    chain(20, 5).prepare()
    assert team.present == {1, 2, 3, 4}
    with team.guard.lock:
        team.dismiss()
    assert not team.present


LIMITED = START + (
    "import resource, warnings\n"
    "from tests.runtime.chains import SIZE, chain\n"
    "x = np.arange(SIZE, dtype=np.float32)\n"
    "assert np.array_equal(chain(20, 2).run([x])[0], x + 20)\n"
    "pages = int(open('/proc/self/statm').read().split()[0]) * 4096\n"
    "size = threading.stack_size(64 << 20)\n"
    "resource.setrlimit(resource.RLIMIT_AS, (pages + (200 << 20), -1))\n"  # room for two or three stacks
    "with warnings.catch_warnings(record=True) as caught:\n"
    "    warnings.simplefilter('always')\n"
    "    for _ in range(400):\n"
    "        assert np.array_equal(chain(20, 32).run([x])[0], x + 20)\n"
    "assert np.array_equal(chain(20, 3).run([x])[0], x + 20)\n"
    "print([str(each.message) for each in caught])\n"
)


def test_a_real_limit_of_address_space_makes_a_smaller_team() -> None:
    result = in_a_process(LIMITED)
    assert result.returncode == 0, result.stderr
    assert "instead of 32" in result.stdout


def test_no_crash_at_exit_while_workers_spin() -> None:
    code = START + (
        "from tests.runtime.chains import SIZE, chain\n"
        "for threads in (2, 3, 5):\n"
        "    chain(5, threads).run([np.zeros(SIZE, np.float32)])\n"
    )
    for _ in range(4):
        result = in_a_process(code, CENOTE_SPIN="100000")
        assert (result.returncode, result.stderr) == (0, "")


def test_no_crash_at_exit_while_a_daemon_thread_runs_a_program() -> None:
    code = START + (
        "from tests.runtime.long_runs import SIZE, repeating\n"
        "program = repeating(10**10, int(sys.argv[1]))\n"
        "threading.Thread(target=program.run, args=([np.zeros(SIZE, np.float32)],), daemon=True).start()\n"
        "time.sleep(0.5)\n"
    )
    for threads in (1, 2):
        assert in_a_process(code, threads).returncode == 0


@pytest.mark.parametrize("variable", ["CENOTE_SPIN", "CENOTE_THREADS", "CENOTE_PLAN_CACHE"])
@pytest.mark.parametrize("value", ["-1", str(1 << 63), "9" * 5000, "1.5", "many"])
def test_integer_settings_have_a_range(variable: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from cenote.core.settings import SETTINGS

    monkeypatch.setenv(variable, value)
    (setting,) = [each for each in SETTINGS if each.variable == variable]
    with pytest.raises(ArgumentError, match=f"{variable}: .* is not a whole number from 0 to"):
        setting.integer()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_signal_handler_may_run_the_model_that_it_interrupts(threads: int) -> None:
    code = START + (
        "from tests.runtime.long_runs import SIZE, repeating\n"
        "program, x, seen = repeating(2 * 10**7, int(sys.argv[1])), np.arange(SIZE, dtype=np.float32), []\n"
        "def handler(*_):\n"
        "    signal.setitimer(signal.ITIMER_REAL, 0)\n"
        "    seen.append(program.run([x * 2])[0])\n"
        "signal.signal(signal.SIGALRM, handler)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.03)\n"
        "assert np.array_equal(program.run([x])[0], x + 2)\n"
        "assert np.array_equal(seen[0], x * 2 + 2)\n"
    )
    result = in_a_process(code, threads)
    assert result.returncode == 0, result.stderr


def test_a_fork_while_another_thread_runs_a_program() -> None:
    code = START + (
        "from tests.runtime.long_runs import SIZE, repeating\n"
        "long, short, x = repeating(10**7, 2), repeating(1000, 2), np.arange(SIZE, dtype=np.float32)\n"
        "other = threading.Thread(target=long.run, args=([x],))\n"
        "other.start()\n"
        "time.sleep(0.1)\n"
        "child = os.fork()\n"
        "right = all(np.array_equal(p.run([x])[0], x + 2) for p in (short, long))\n"
        "if child == 0:\n"
        "    os._exit(0 if right else 1)\n"
        "other.join()\n"
        "sys.exit(0 if right and os.waitpid(child, 0)[1] == 0 else 1)\n"
    )
    assert in_a_process(code).returncode == 0


@pytest.mark.parametrize("threads", [1, 2])
def test_a_signal_handler_may_fork_in_the_middle_of_a_run(threads: int) -> None:
    """The parent's run is right. The child has no workers: its run ends with an error, and the next one is right."""
    code = START + (
        "from cenote.core.errors import UnsupportedError\n"
        "from tests.runtime.long_runs import SIZE, repeating\n"
        "program, x, children = repeating(2 * 10**7, int(sys.argv[1])), np.arange(SIZE, dtype=np.float32), []\n"
        "def handler(*_):\n"
        "    signal.setitimer(signal.ITIMER_REAL, 0)\n"
        "    children.append(os.fork())\n"
        "    if not children[0]:\n"
        "        assert np.array_equal(program.run([x * 2])[0], x * 2 + 2)\n"
        "signal.signal(signal.SIGALRM, handler)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.03)\n"
        "try:\n"
        "    right = np.array_equal(program.run([x])[0], x + 2)\n"
        "except UnsupportedError as error:\n"
        "    right = children == [0] and 'forked in the middle of a run' in str(error)\n"
        "right = right and np.array_equal(program.run([x])[0], x + 2)\n"
        "if not children[0]:\n"
        "    os._exit(0 if right else 1)\n"
        "sys.exit(0 if right and os.waitpid(children[0], 0)[1] == 0 else 1)\n"
    )
    result = in_a_process(code, threads)
    assert result.returncode == 0, result.stderr


def test_callers_of_a_team_share_one_arena() -> None:
    program, x = chain(20, 2), np.zeros(CHAIN_SIZE, np.float32)
    callers = [threading.Thread(target=lambda: [program.run([x]) for _ in range(20)]) for _ in range(24)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert 1 <= len(program._free) <= max(1, physical_cores() // 2)


def test_few_large_arenas_are_kept_after_many_callers_at_once() -> None:
    program = repeating(10**5, 1)
    object.__setattr__(program, "arena_bytes", 100 << 20)
    x = np.zeros(SIZE, np.float32)
    callers = [threading.Thread(target=program.run, args=([x],)) for _ in range(12)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert 1 <= len(program._free) <= max(1, physical_cores())


def test_memory_stays_the_same_over_many_programs() -> None:
    code = START + (
        "import gc\n"
        "from tests.runtime.chains import SIZE, chain\n"
        "x = np.zeros(SIZE, np.float32)\n"
        "def resident():\n"
        "    gc.collect()\n"
        "    return int(open('/proc/self/statm').read().split()[1]) * 4096\n"
        "def some(count):\n"
        "    for index in range(count):\n"
        "        chain(20, 1 + index % 3).run([x])\n"
        "some(300)\n"
        "before = resident()\n"
        "some(3000)\n"
        "print(resident() - before)\n"
    )
    result = in_a_process(code)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) < 3 << 20  # a step table and an arena are 4 KB and more, 12 MB for all


def test_an_exit_leaves_no_word_behind_from_programs_that_are_still_there() -> None:
    code = START + (
        "from tests.runtime.chains import SIZE, chain\n"
        "import builtins\n"
        "builtins.kept = [chain(5, 2), chain(5, 1)]\n"
        "for each in builtins.kept:\n"
        "    each.run([np.zeros(SIZE, np.float32)])\n"
    )
    result = in_a_process(code)
    assert (result.returncode, result.stderr) == (0, "")


def test_no_warning_where_all_threads_start() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chain(3, 4).prepare()
