"""Model.map: streams of inputs in batches, drawn ahead of their use."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cenote
from cenote.core.errors import ArgumentError, InputError, ShapeError
from cenote.runtime.batches import ahead
from tests.onnx_texts import NETWORK, TWO, noise, parsed

WAIT = 30  # seconds after which a test gives up


@pytest.fixture(scope="module")
def network() -> cenote.Model:
    return cenote.load(parsed(NETWORK), threads=1)


def seen_shapes(model: cenote.Model, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of the first input of every inference from now on."""
    shapes: list[tuple[int, ...]] = []
    run = model._run

    def watched(given: Any) -> Any:
        shapes.append(next(iter(given.values())).shape)
        return run(given)

    monkeypatch.setattr(model, "_run", watched)
    return shapes


@pytest.mark.parametrize("batch", [1, 3, 4, 100])
def test_results_in_order_and_a_smaller_last_batch(
    network: cenote.Model, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [noise(1, 3, 6, 6) for _ in range(10)]
    wanted = [network(x) for x in items]
    shapes = seen_shapes(network, monkeypatch)
    results = list(network.map(iter(items), batch=batch))
    assert [len(y) for y in results] == [1] * 10
    for y, want in zip(results, wanted, strict=True):
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)
    sizes = [shape[0] for shape in shapes]
    assert sizes == [batch] * (10 // batch) + [10 % batch] * bool(10 % batch)


def test_items_may_leave_out_the_batch_axis(network: cenote.Model) -> None:
    items = [noise(3, 6, 6) for _ in range(5)]
    for batch in (1, 2):
        results = list(network.map(items, batch=batch))
        for x, y in zip(items, results, strict=True):
            assert y.shape == (10,)
            np.testing.assert_allclose(y, network(x[None])[0], rtol=1e-5, atol=1e-5)


def test_items_of_several_rows_and_of_other_sizes(
    network: cenote.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [noise(n, 3, side, 6) for n, side in [(2, 6), (1, 6), (1, 9), (3, 6), (1, 6)]]
    wanted = [network(x) for x in items]
    shapes = seen_shapes(network, monkeypatch)
    for y, want in zip(network.map(items, batch=2), wanted, strict=True):
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)
    assert shapes == [(3, 3, 6, 6), (1, 3, 9, 6), (4, 3, 6, 6)]


def test_several_inputs_and_outputs() -> None:
    model = cenote.load(parsed(TWO), threads=1)
    pairs = [(noise(1, 4), noise(1, 4)) for _ in range(5)]
    for items in (pairs, [{"b": b, "a": a} for a, b in pairs]):
        for (a, b), result in zip(pairs, model.map(items, batch=2), strict=True):
            assert type(result) is tuple
            np.testing.assert_array_equal(result[0], a + b)
            np.testing.assert_array_equal(result[1], a - b)


def test_arrays_of_another_library_come_back(network: cenote.Model) -> None:
    torch = pytest.importorskip("torch")
    for y in network.map([torch.zeros(1, 3, 6, 6) for _ in range(3)], batch=2):
        assert isinstance(y, torch.Tensor)
        assert y.shape == (1, 10)


def test_nothing_in_nothing_out(network: cenote.Model) -> None:
    assert list(network.map([])) == []
    assert list(network.map((), batch=8)) == []


def test_an_error_in_the_stream_comes_after_the_results_before_it(network: cenote.Model) -> None:
    def stream() -> Iterator[np.ndarray]:
        yield from (noise(1, 3, 6, 6) for _ in range(5))
        raise OSError("the disk is gone")

    results: list[Any] = []
    with pytest.raises(OSError, match="the disk is gone"):
        results.extend(network.map(stream(), batch=3))
    assert len(results) == 5


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("a path", "input 'x': is a str"),
        ((np.zeros(1), np.zeros(1)), "an item holds 2 inputs, the model has 1"),
        (np.zeros((1, 3, 6, 6)), "input 'x' is float64"),
        ({"z": np.zeros((1, 3, 6, 6), np.float32)}, "'z' is no input of the model"),
    ],
)
def test_a_bad_item_comes_after_the_results_before_it(network: cenote.Model, item: Any, message: str) -> None:
    results: list[Any] = []
    items = [*(noise(1, 3, 6, 6) for _ in range(4)), item, noise(1, 3, 6, 6)]
    with pytest.raises(InputError, match=message):
        results.extend(network.map(items, batch=3))
    assert len(results) == 4


def test_what_cannot_be_divided_is_refused() -> None:
    model = cenote.load(parsed("g (float[N,4] x) => (float s) { s = ReduceSum<keepdims=0>(x) }"), threads=1)
    rows = [np.ones((1, 4), np.float32)] * 2
    assert list(model.map(rows)) == [4.0, 4.0]
    with pytest.raises(ShapeError, match=r"output 's' has shape .* its first axis is not the batch"):
        list(model.map(rows, batch=2))


@pytest.mark.parametrize("batch", [0, -1, 1.5, True, None])
def test_a_bad_batch_is_refused_at_once(network: cenote.Model, batch: Any) -> None:
    with pytest.raises(ArgumentError, match="batch"):
        network.map([], batch=batch)


# ---- drawing ahead --------------------------------------------------------------------------------------------------


def test_the_stream_is_drawn_ahead_but_not_far() -> None:
    drawn, changed = [], threading.Condition()

    def stream() -> Iterator[int]:
        for i in range(100):
            with changed:
                drawn.append(i)
                changed.notify()
            yield i

    items = ahead(stream(), depth=2)
    assert next(items) == 0
    with changed:  # one was read, two more may be waiting: drawn while nobody asks
        assert changed.wait_for(lambda: len(drawn) == 3, WAIT)
    assert next(items) == 1
    with changed:
        assert changed.wait_for(lambda: len(drawn) == 4, WAIT)
    assert list(items) == list(range(2, 100))


def test_nothing_is_drawn_before_the_first_result_is_asked_for(network: cenote.Model) -> None:
    drawn: list[int] = []
    results = network.map(drawn.append(1) or noise(1, 3, 6, 6) for _ in range(3))
    assert not drawn
    next(results)
    assert drawn


def test_closing_stops_the_thread_and_closes_the_stream(network: cenote.Model) -> None:
    closed = threading.Event()
    drawn: list[int] = []

    def stream() -> Iterator[np.ndarray]:
        try:
            while True:
                drawn.append(1)
                yield noise(1, 3, 6, 6)
        finally:
            closed.set()

    results = network.map(stream(), batch=2)
    next(results)
    workers = [thread for thread in threading.enumerate() if thread.name == "cenote-inputs"]
    results.close()
    for worker in workers:
        worker.join(WAIT)
        assert not worker.is_alive()
    assert closed.wait(WAIT)
    assert len(drawn) <= 8, "two batches ahead, one in work"
    assert list(results) == []


def test_closing_does_not_wait_for_a_stream_that_hangs() -> None:
    release = threading.Event()

    def stream() -> Iterator[int]:
        yield 0
        release.wait(WAIT)
        yield 1

    items = ahead(stream())
    assert next(items) == 0
    items.close()
    release.set()


def test_what_is_no_stream_is_refused() -> None:
    with pytest.raises(TypeError, match="not iterable"):
        list(ahead(5))  # type: ignore[call-overload]
