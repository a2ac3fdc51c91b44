"""The Batcher: what is joined, whose error it is, how much may wait, and what becomes of requests when it closes."""

from __future__ import annotations

import asyncio
import gc
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cenote
from cenote.core.types import Declared
from cenote.serving import Batcher
from tests.serving.models import Doubling, save_times


def rows(count: int, width: int = 4, value: float = 1.0) -> dict[str, Any]:
    return {"x": np.full((count, width), value, np.float32)}


def held_batcher(*arguments: Any, **options: Any) -> tuple[Batcher, Doubling, Any]:
    """A Batcher whose only worker is in a run, so that what is submitted next waits; and the future of that run."""
    model = Doubling(held=True)
    batcher = Batcher(model, *arguments, **options)
    first = batcher.submit(rows(1))
    assert model.entered.acquire(timeout=60)
    return batcher, model, first


def test_what_waits_is_joined_in_order_up_to_max_batch() -> None:
    batcher, model, _ = held_batcher(4)
    waiting = [batcher.submit(rows(n, value=n)) for n in (1, 2, 1, 3)]
    model.go.set()
    for n, future in zip((1, 2, 1, 3), waiting, strict=True):
        assert np.array_equal(future.result(60)["y"], np.full((n, 4), 2 * n))
    batcher.close()
    assert model.runs == [1, 4, 3]
    assert batcher.counters.answered == batcher.counters.accepted == 5
    assert batcher.counters.runs == 3


def test_other_shapes_are_not_joined_but_wait_their_turn() -> None:
    batcher, model, _ = held_batcher(8)
    waiting = [batcher.submit(rows(1, width)) for width in (4, 5, 4, 5)]
    model.go.set()
    assert [future.result(60)["y"].shape for future in waiting] == [(1, 4), (1, 5), (1, 4), (1, 5)]
    assert model.runs == [1, 2, 2]
    batcher.close()


def test_a_request_of_more_rows_runs_by_itself() -> None:
    batcher, model, _ = held_batcher(2)
    waiting = [batcher.submit(rows(n)) for n in (5, 1, 1)]
    model.go.set()
    assert [len(future.result(60)["y"]) for future in waiting] == [5, 1, 1]
    assert model.runs == [1, 5, 2]
    batcher.close()


def test_without_max_batch_nothing_is_joined() -> None:
    batcher, model, _ = held_batcher()
    waiting = [batcher.submit(rows(1)) for _ in range(3)]
    model.go.set()
    assert all(future.result(60) for future in waiting)
    assert model.runs == [1, 1, 1, 1]
    batcher.close()


def test_a_wrong_input_is_refused_before_it_waits() -> None:
    batcher, model, first = held_batcher(4)
    good = batcher.submit(rows(1))
    for wrong in (
        {"x": np.zeros((1, 4))},
        {"z": np.zeros((1, 4), np.float32)},
        {"x": np.zeros(4, np.float32)},
        {},
    ):
        with pytest.raises(cenote.InputError):
            batcher.submit(wrong)
    assert batcher.waiting == 1
    model.go.set()
    assert first.result(60)
    assert good.result(60)
    batcher.close()


def test_an_error_of_a_run_is_the_error_of_the_request_whose_fault_it_is() -> None:
    batcher, model, _ = held_batcher(8)
    waiting = [batcher.submit(rows(1, value=value)) for value in (1, -1, 2)]
    model.go.set()
    assert waiting[0].result(60)["y"][0, 0] == 2
    with pytest.raises(ValueError, match="negative"):
        waiting[1].result(60)
    assert waiting[2].result(60)["y"][0, 0] == 4
    batcher.close()
    counters = batcher.counters
    assert (counters.answered, counters.failed, counters.split) == (3, 1, 1)


def test_outputs_that_are_no_batch_are_computed_one_by_one() -> None:
    class Summing(Doubling):
        def run(self, inputs: Any) -> Any:
            return {"y": super().run(inputs)["y"].sum(0)}

    model = Summing(held=True)
    with Batcher(model, 4) as batcher:
        futures = [batcher.submit(rows(1))]
        assert model.entered.acquire(timeout=60)
        futures += [batcher.submit(rows(1, value=value)) for value in (2, 3)]
        model.go.set()
        assert [future.result(60)["y"][0] for future in futures] == [2, 4, 6]


def test_a_full_queue_refuses() -> None:
    batcher, model, first = held_batcher(max_queue=2)
    waiting = [batcher.submit(rows(1)) for _ in range(2)]
    with pytest.raises(cenote.UnavailableError, match="2 requests wait already"):
        batcher.submit(rows(1))
    assert batcher.counters.refused == 1
    model.go.set()
    assert all(future.result(60) for future in [first, *waiting])
    batcher.run(rows(1))  # there is room again
    batcher.close()


def test_a_cancelled_request_is_not_run_and_makes_room() -> None:
    batcher, model, _ = held_batcher(max_queue=1)
    dropped = batcher.submit(rows(3))
    assert dropped.cancel()
    kept = batcher.submit(rows(2))
    model.go.set()
    assert len(kept.result(60)["y"]) == 2
    batcher.close()
    assert model.runs == [1, 2]


def test_closing_answers_what_was_accepted() -> None:
    batcher, model, first = held_batcher(2)
    waiting = [batcher.submit(rows(1)) for _ in range(3)]
    closing = threading.Thread(target=batcher.close)
    closing.start()
    model.go.set()
    closing.join(60)
    assert not closing.is_alive()
    assert all(future.done() and future.result()["y"].any() for future in [first, *waiting])
    with pytest.raises(cenote.UnavailableError, match="closed"):
        batcher.submit(rows(1))
    batcher.close()


def test_closing_without_draining_refuses_what_waits() -> None:
    batcher, model, first = held_batcher()
    waiting = [batcher.submit(rows(1)) for _ in range(3)]
    closing = threading.Thread(target=batcher.close, kwargs={"drain": False})
    closing.start()
    for future in waiting:
        with pytest.raises(cenote.UnavailableError, match="closed before"):
            future.result(60)
    model.go.set()
    closing.join(60)
    assert first.result(60)["y"].any()
    assert model.runs == [1]


def test_max_delay_waits_for_others_until_the_batch_is_full() -> None:
    model = Doubling()
    with Batcher(model, 3, max_delay=3600) as batcher:
        futures = [batcher.submit(rows(1)) for _ in range(3)]
        assert all(future.result(60) for future in futures)
    assert model.runs == [3]


def test_closing_ends_the_delay() -> None:
    batcher = Batcher(Doubling(), 2, max_delay=3600)
    future = batcher.submit(rows(1))
    batcher.close()
    assert future.result(0)["y"].any()


def test_max_delay_ends() -> None:
    model = Doubling()
    with Batcher(model, 3, max_delay=0.01) as batcher:
        assert batcher.run(rows(1))["y"].any()
    assert model.runs == [1]


def test_workers_run_side_by_side() -> None:
    model = Doubling(held=True)
    with Batcher(model, workers=3) as batcher:
        futures = [batcher.submit(rows(1)) for _ in range(3)]
        for _ in futures:  # all three are in a run at once
            assert model.entered.acquire(timeout=60)
        model.go.set()
        assert all(future.result(60) for future in futures)


def test_awaited() -> None:
    async def all_of_them(batcher: Batcher) -> list[Any]:
        return await asyncio.gather(*(batcher.async_run(rows(1, value=n)) for n in range(5)))

    with Batcher(Doubling(), 2) as batcher:
        assert [outputs["y"][0, 0] for outputs in asyncio.run(all_of_them(batcher))] == [0, 2, 4, 6, 8]


def test_a_dropped_batcher_ends_its_workers() -> None:
    batcher = Batcher(Doubling(), workers=2)
    threads = batcher._threads
    del batcher
    gc.collect()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


def test_of_another_process() -> None:
    with Batcher(Doubling()) as batcher:
        batcher._process -= 1  # as in a forked child, which has no workers
        with pytest.raises(cenote.UnavailableError, match="fork"):
            batcher.submit(rows(1))
        batcher._process += 1


@pytest.mark.parametrize(
    "options",
    [
        {"max_batch": 0},
        {"max_batch": True},
        {"max_batch": 1.5},
        {"max_delay": -1},
        {"max_delay": float("nan")},
        {"max_queue": 0},
        {"workers": 0},
    ],
)
def test_numbers_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(cenote.ArgumentError, match=next(iter(options))):
        Batcher(Doubling(), **options)


@pytest.mark.parametrize("shape", [(1, 4), (), None])
def test_a_model_without_an_open_first_axis_is_not_batched(shape: Any) -> None:
    model = Doubling()
    model.inputs = (Declared("x", np.dtype(np.float32), shape),)  # type: ignore[misc]
    with pytest.raises(cenote.ArgumentError, match="max_batch"):
        Batcher(model, 2)
    Batcher(model).close()


@settings(max_examples=40)
@given(
    requests=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 2), st.integers(-1, 6)), max_size=25),
    max_batch=st.integers(1, 6),
    max_delay=st.sampled_from([0.0, 0.001]),
    workers=st.integers(1, 3),
    drain=st.booleans(),
)
def test_every_request_gets_its_own_answer(
    requests: list[tuple[int, int, int]], max_batch: int, max_delay: float, workers: int, drain: bool
) -> None:
    model = Doubling()
    batcher = Batcher(model, max_batch, max_delay, workers=workers)
    futures = [batcher.submit(rows(n, width, value)) for n, width, value in requests]
    batcher.close(drain=drain)
    refused = 0
    for (n, width, value), future in zip(requests, futures, strict=True):
        error = future.exception(0)  # there is an answer to each by now
        if isinstance(error, cenote.UnavailableError):
            refused += 1
        elif value < 0 and n:
            assert isinstance(error, ValueError)
        else:
            assert np.array_equal(future.result()["y"], np.full((n, width), 2 * value, np.float32))
    counters = batcher.counters
    assert refused == 0 or not drain
    assert counters.accepted == len(requests) == counters.answered + counters.failed + refused
    assert all(size <= max_batch or size in {n for n, _, _ in requests} for size in model.runs)


def test_a_model_of_cenote_gives_the_same_bits(tmp_path: Path) -> None:
    model = cenote.load(save_times(tmp_path / "model.onnx", 3.7), threads=1)
    x = np.random.default_rng(0).standard_normal((12, 4)).astype(np.float32)
    with Batcher(model, 5, workers=2) as batcher:
        futures = [batcher.submit({"x": x[n : n + 1]}) for n in range(12)]
        assert all(
            np.array_equal(each.result(60)["y"][0], x[n] * np.float32(3.7)) for n, each in enumerate(futures)
        )
