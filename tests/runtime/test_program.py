"""Programs on one and several threads: the same bits, from many Python threads, after a fork, with host steps."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading

import numpy as np
import pytest

from cenote.codegen import jit
from cenote.core.errors import ArgumentError, CapacityError
from cenote.core.types import TensorType
from cenote.kernels.driver import driver_abi
from cenote.runtime.memory import GrowingBytes, address_of, aligned_bytes, aligned_copy
from cenote.runtime.program import Program, even_grains, most_items
from cenote.runtime.steps import KernelStep, Slot, SlotKind
from cenote.runtime.threads import resolve_threads
from tests.runtime.chains import SIZE, add_one_kernel, chain


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    ("items", "grain"), [(1, 1), (2, 1), (65_535, 1), (65_536, 1), (200_003, 1), (200_003, 3)]
)
def test_every_piece_is_done_once_however_many_there_are(items: int, grain: int, threads: int) -> None:
    """In place in the arena, so that a piece done twice shows."""
    address = jit.addresses([add_one_kernel()], jit.named_target("generic"))["test_add_one"]
    places = Slot(SlotKind.INPUT, 0), *[Slot(SlotKind.ARENA, 0)] * 3, Slot(SlotKind.OUTPUT, 0)
    steps = tuple(
        KernelStep(str(index), "test_add_one", address, (source, result), items, grain, 0)
        for index, (source, result) in enumerate(itertools.pairwise(places))
    )
    type = TensorType.of(np.float32, (items * 4,))
    program = Program(steps, (type,), (type,), (), items * 16, driver_abi(), threads)
    x = np.arange(items * 4, dtype=np.float32)
    for _ in range(3):
        assert np.array_equal(program.run([x])[0], x + 4)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_every_step_runs_once_and_in_order(threads: int) -> None:
    x = np.random.default_rng(0).standard_normal(SIZE).astype(np.float32)
    want = x.copy()
    for _ in range(60):
        want = want + np.float32(1)
    program = chain(60, threads)
    for _ in range(50):
        assert np.array_equal(program.run([x])[0], want)


@pytest.mark.parametrize("threads", [1, 2])
def test_host_steps_run_between_native_stretches(threads: int) -> None:
    x = np.arange(SIZE, dtype=np.float32)
    assert np.array_equal(chain(10, threads, host=True).run([x])[0], (x + 5) * 2 + 5)


@pytest.mark.parametrize("threads", [1, 2])
def test_many_python_threads_share_a_program(threads: int) -> None:
    program, failures = chain(20, threads), []

    def work(seed: int) -> None:
        x = np.random.default_rng(seed).standard_normal(SIZE).astype(np.float32)
        want = x.copy()
        for _ in range(20):
            want = want + np.float32(1)
        for _ in range(100):
            if not np.array_equal(program.run([x])[0], want):
                failures.append(seed)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


def test_a_forked_child_gets_threads_of_its_own() -> None:
    # In a process of its own: other libraries of the test suite warn when a process that they live in forks.
    code = (
        "import sys, os; sys.path.insert(0, '.')\n"
        "import numpy as np\n"
        "from tests.runtime.chains import SIZE, chain\n"
        "program, x = chain(20, 2), np.zeros(SIZE, np.float32)\n"
        "program.run([x])\n"
        "child = os.fork()\n"
        "right = np.array_equal(program.run([x])[0], np.full(SIZE, 20, np.float32))\n"
        "if child == 0:\n"
        "    os._exit(0 if right else 1)\n"
        "sys.exit(0 if right and os.waitpid(child, 0)[1] == 0 else 1)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=120, check=False).returncode == 0


def test_a_process_with_sleeping_workers_exits_cleanly() -> None:
    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "import numpy as np\n"
        "from tests.runtime.chains import SIZE, chain\n"
        "print(chain(5, 2).run([np.zeros(SIZE, np.float32)])[0][0])\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (result.returncode, result.stdout.strip(), result.stderr) == (0, "5.0", "")


def test_dead_programs_leave_no_step_tables_behind() -> None:
    from cenote.runtime.threads import team

    x = np.zeros(SIZE, np.float32)
    for _ in range(20):
        chain(3, 2).run([x])
    cache_entry = chain(3, 2)
    for _ in range(1000):
        cache_entry.run([x])
        if not team(2, driver_abi()).graveyard:
            break
    assert not team(2, driver_abi()).graveyard


def test_memory_is_aligned_zeroed_and_bounded() -> None:
    for nbytes in (0, 1, 100, 5 << 20):
        block = aligned_bytes(nbytes, "test")
        assert not nbytes or address_of(block) % 64 == 0
        assert block.nbytes == nbytes
        assert not block.any()
    with pytest.raises(CapacityError, match="test: needs"):
        aligned_bytes(1 << 50, "test")
    copy = aligned_copy(np.arange(12, dtype=np.int16).reshape(3, 4).T, "test")
    assert np.array_equal(copy, np.arange(12).reshape(3, 4).T)


def test_memory_grows_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cenote.runtime.memory._addresses_are_limited", lambda: False)
    block = GrowingBytes("test")
    block.grow(1000)
    assert block.array.nbytes == 1000
    block.grow(3 << 20)
    address, most = address_of(block.array), block._range.nbytes
    block.array[:] = 1
    block.grow(9 << 20)
    assert (address_of(block.array), block.array.nbytes) == (address, 9 << 20)
    assert block.array[: 3 << 20].all(), "pages that were there have not been touched again"
    block.grow(most + 1)
    assert block.array.nbytes == most + 1
    with pytest.raises(CapacityError, match="test: needs"):
        block.grow(1 << 50)
    block.grow(5 << 20)
    assert block.array.nbytes == 5 << 20

    monkeypatch.setattr("cenote.runtime.memory._addresses_are_limited", lambda: True)
    limited = GrowingBytes("test")
    limited.grow(3 << 20)
    assert limited._range.nbytes == 3 << 20, "no more addresses than needed where they are limited"


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "2", 257, np.array([2, 2]), np.array(2.0), b"2"])
def test_thread_counts_are_checked(bad: object) -> None:
    with pytest.raises(ArgumentError, match="whole number from 1 to 256"):
        resolve_threads(bad)  # type: ignore[arg-type]


def test_thread_count_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CENOTE_THREADS", "3")
    assert resolve_threads(None) == 3
    monkeypatch.setenv("CENOTE_THREADS", "many")
    with pytest.raises(ArgumentError, match="CENOTE_THREADS"):
        resolve_threads(None)


@pytest.mark.parametrize(
    ("items", "grain", "threads", "even"),
    [
        (28, 9, 2, 7), (14, 9, 2, 7), (7, 9, 2, 4), (100, 25, 2, 25), (100, 25, 3, 17), (687, 143, 4, 86),
        (28, 9, 1, 9), (4, 9, 2, 9), (18, 2, 2, 1), (3, 1, 2, 1), (0, 5, 2, 5), (1000, 9, 2, 9),
    ],
)  # fmt: skip
def test_threads_get_about_as_many_items(items: int, grain: int, threads: int, even: int) -> None:
    assert even_grains(np.array([items]), np.array([grain]), threads).tolist() == [even]


def test_even_grains_are_never_worse_and_never_tiny() -> None:
    items, grains = (each.ravel() for each in np.meshgrid(np.arange(60), np.arange(1, 30)))
    for threads in (2, 3, 5, 16):
        even = even_grains(items, grains, threads)
        assert (even >= -(-grains // 4)).all()
        assert (even <= grains).all()
        assert (most_items(items, even, threads) <= most_items(items, grains, threads)).all()


def test_what_the_thread_with_most_items_has() -> None:
    rng = np.random.default_rng(0)
    for items, grain, threads in rng.integers(1, 40, (200, 3)):
        has = [0] * threads
        for start in range(0, items, grain):  # whoever has least so far takes the next chunk
            has[has.index(min(has))] += min(grain, items - start)
        assert most_items(np.array([items]), np.array([grain]), threads)[0] == max(has)
