"""Memory of large results: used again when, and only when, nobody holds them."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import cenote
from cenote.core.errors import CapacityError
from cenote.runtime import outputs
from cenote.runtime.memory import ALIGNMENT, address_of
from cenote.runtime.outputs import ALIGNED, LARGE, OutputMemory
from tests.diagnosis.causes.models import model as made

SHAPE = (LARGE // 4,)


def test_memory_that_nobody_holds_is_given_out_again() -> None:
    memory = OutputMemory()
    first = memory.make(SHAPE, np.float32)
    place = address_of(first)
    second = memory.make(SHAPE, np.float32)
    assert address_of(second) != place
    del first
    again = memory.make(SHAPE, np.float32)
    assert address_of(again) == place
    assert again.flags.writeable
    assert again.flags.c_contiguous


@pytest.mark.parametrize(
    "hold",
    [
        lambda y: y[1:],
        lambda y: y.reshape(2, -1)[0].T,
        lambda y: memoryview(y),
        lambda y: np.frombuffer(y, np.int32),
        lambda y: np.from_dlpack(y),
        lambda y: y.view(np.uint32)[::2],
    ],
)  # fmt: skip
def test_memory_that_somebody_still_sees_is_not(hold) -> None:  # type: ignore[no-untyped-def]
    memory = OutputMemory()
    result = memory.make(SHAPE, np.float32)
    place, held = address_of(result), hold(result)
    del result
    assert address_of(memory.make(SHAPE, np.float32)) != place
    del held
    assert place in {address_of(memory.make(SHAPE, np.float32)) for _ in range(2)}


def test_other_shapes_and_small_results_have_memory_of_their_own() -> None:
    memory = OutputMemory()
    memory.make(SHAPE, np.float32)
    assert memory.make((2, SHAPE[0]), np.float32).shape == (2, SHAPE[0])
    assert memory.make(SHAPE, np.int32).dtype == np.int32
    assert memory.make((3,), np.float32).flags.owndata


@pytest.mark.parametrize("numbers", [ALIGNED // 4, ALIGNED // 4 + 1, LARGE // 4 - 1, LARGE // 4, LARGE])
def test_results_of_some_size_are_aligned(numbers: int) -> None:
    memory = OutputMemory()
    held = [memory.make((1, numbers), np.float32) for _ in range(3)]
    for result in held:
        assert address_of(result) % ALIGNMENT == 0
        assert result.flags.c_contiguous
        assert result.flags.writeable
        result[...] = 1
    del held, result
    assert address_of(memory.make((numbers,), np.int32)) % ALIGNMENT == 0


def test_memory_is_given_out_again_for_another_type_and_shape() -> None:
    memory = OutputMemory()
    first = memory.make(SHAPE, np.float32)
    place = address_of(first)
    del first
    again = memory.make((2, SHAPE[0] // 4), np.float64)
    assert address_of(again) == place
    assert again.shape == (2, SHAPE[0] // 4)


def test_no_more_is_remembered_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "_KEPT", 3 * (LARGE + ALIGNMENT))
    memory = OutputMemory()
    held = [memory.make(SHAPE, np.float32) for _ in range(10)]
    assert len(memory._blocks) == 3
    del held
    memory.make((4 * SHAPE[0],), np.float32)
    assert sum(block.nbytes for block in memory._blocks) <= 8 * LARGE
    memory.clear()
    assert not memory._blocks


def test_without_counts_all_memory_is_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs.sys, "_is_gil_enabled", lambda: False, raising=False)
    memory = OutputMemory()
    memory.make(SHAPE, np.float32)
    assert not memory._blocks


def test_it_can_be_off_for_a_while() -> None:
    memory = OutputMemory()
    with memory.off():
        memory.make(SHAPE, np.float32)
        assert not memory._blocks
    memory.make(SHAPE, np.float32)
    assert len(memory._blocks) == 1


def test_a_model_gives_out_the_memory_of_results_that_are_gone() -> None:
    rows = np.ones((1024, 512), np.float32)
    graph = made([("Relu", ["x"], ["y"], {})], {"x": rows.shape}, ["y"], {})
    for threads in (1, 2):
        with cenote.load(graph.SerializeToString(), threads=threads) as model:
            first, second = model(rows), model(2 * rows)
            np.testing.assert_array_equal(first, rows)
            np.testing.assert_array_equal(second, 2 * rows)
            place = address_of(first)
            del first
            assert address_of(model(3 * rows)) == place
            np.testing.assert_array_equal(second, 2 * rows)
        np.testing.assert_array_equal(second, 2 * rows)


def test_threads_never_share_memory() -> None:
    memory, wrong = OutputMemory(), list[int]()

    def work(number: int) -> None:
        for _ in range(300):
            result = memory.make(SHAPE, np.float32)
            result[::1024] = number
            if (result[::1024] != number).any():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_cannot_be_had_is_refused() -> None:
    with pytest.raises(CapacityError, match="output"):
        OutputMemory().make((1 << 60,), np.float32)
