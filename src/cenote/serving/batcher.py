"""Many callers on one model: requests wait in a bounded queue, and workers run them, joined into batches where they
fit."""

from __future__ import annotations

import asyncio
import os
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import fields, replace
from typing import Any, Protocol, Self

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, UnavailableError, refusals, shown
from cenote.core.types import Array, Declared
from cenote.runtime.arrays import same
from cenote.runtime.batches import Batch, Entry
from cenote.runtime.inputs import fitting, foreign
from cenote.runtime.signature import Signature
from cenote.serving.queue import Request, RequestQueue


class ServableModel(Protocol):
    """A model that can be served: a `cenote.Model`, or any object with declared inputs that gives outputs by name."""

    @property
    def inputs(self) -> Sequence[Declared]: ...

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Counters:
    """Counts of a Batcher's work. Seconds are sums over requests (`waited`) and over runs (`computed`).

    `answered` requests got outputs, `failed` ones an error of their own; `refused` ones met a full or closed queue.
    `runs` counts runs of the model, `split` those for several requests that failed: each request then ran alone.
    """

    accepted: int = 0
    answered: int = 0
    failed: int = 0
    refused: int = 0
    runs: int = 0
    split: int = 0
    waited_seconds: float = 0.0
    computed_seconds: float = 0.0

    def __add__(self, other: Counters) -> Counters:
        return Counters(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


class Batcher:
    """A queue and `workers` threads that answer concurrent requests to one model, several in one run where they fit.

    model: a `cenote.Model`; with threads=1, workers run side by side on its one set of weights, without a lock.
    max_batch: rows of the first axis in one run, from 1 on. Above 1, the first axis of every input and output must be a
        batch whose rows do not depend on each other. A request of more rows runs by itself.
    max_delay: seconds that a request may wait for others to join it. 0: a free worker runs the requests that wait at
    once.
    max_queue: requests that may wait for a worker; further ones are refused.
    workers: threads that run the model.

    Requests whose dtypes agree, and whose shapes agree behind the first axis, are joined, in order of arrival. Each
    gets outputs or an error of its own: inputs that do not fit the model are refused when they are submitted, and
    where a run of several requests fails, each of them runs again alone. Rows in a batch of another size may differ
    in the last bits, as in any call.

    Raises ArgumentError for numbers out of range, and for max_batch above 1 where an input's first axis is fixed or it
    has none; CapacityError where the system has no thread left.
    """

    def __init__(
        self,
        model: ServableModel,
        max_batch: int = 1,
        max_delay: float = 0.0,
        *,
        max_queue: int = 128,
        workers: int = 1,
    ) -> None:
        for name, number in (("max_batch", max_batch), ("max_queue", max_queue), ("workers", workers)):
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise ArgumentError(f"{name}: {shown(number)} is not a whole number from 1 on")
        if (
            isinstance(max_delay, bool)
            or not isinstance(max_delay, int | float)
            or not 0 <= max_delay <= 3600
        ):
            raise ArgumentError(f"max_delay: {shown(max_delay)} is no number of seconds from 0 to 3600")
        if max_batch > 1 and (problem := why_alone(model.inputs)):
            raise ArgumentError(f"max_batch: {problem}; it must be 1")
        self.model, self.max_batch, self.workers = model, max_batch, workers
        self._signature = Signature(model.inputs)
        self._joins = max_batch > 1
        self._process = os.getpid()
        self._queue = RequestQueue(max_queue, max_batch, float(max_delay))
        self._tally = _Tally()
        self._threads: list[threading.Thread] = []
        # Workers hold the queue, not the Batcher: when a Batcher is dropped, they answer the requests that wait, and
        # end.
        weakref.finalize(self, _close, self._queue, self._process)
        try:
            for number in range(workers):
                self._start(f"cenote-worker-{number}")
        except BaseException:
            self._queue.close()
            raise

    def _start(self, name: str) -> None:
        arguments = (self._queue, self.model, self._tally)
        thread = threading.Thread(target=_work, args=arguments, name=name, daemon=True)
        with refusals("a worker of a Batcher"):
            thread.start()
        self._threads.append(thread)

    @property
    def counters(self) -> Counters:
        """The counts of all work so far."""
        return self._tally.counters

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a worker now."""
        return len(self._queue)

    def submit(self, inputs: Mapping[str, Any]) -> Future[dict[str, Array]]:
        """Return the future of the outputs, by name, for inputs by name. A request that is cancelled while it waits
        is not run.

        Raises InputError for inputs that do not fit the model, UnavailableError for a full queue and for a Batcher that
        was closed or made before a fork. An error of the run (ShapeError beyond a bound) is the future's exception.
        Neither inputs nor outputs are copied where this can be avoided: do not write to an input before it is
        answered.
        """
        if os.getpid() != self._process:
            raise UnavailableError(
                "this Batcher was made before a fork, and its workers stayed there; make one here"
            )
        request = self._request(inputs)
        try:
            self._queue.put(request)
        except UnavailableError:
            self._tally.add(refused=1)
            raise
        self._tally.add(accepted=1)
        return request.future

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Return outputs by name, for inputs by name: waits for them. Errors as `submit`, and those of the run."""
        return self.submit(inputs).result()

    async def async_run(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Run as `run` does, without blocking the event loop; cancelling the task cancels a request that still
        waits."""
        return await asyncio.wrap_future(self.submit(inputs))

    def close(self, drain: bool = True) -> None:
        """Take no more requests, answer those that wait (drain=False: give them UnavailableError), and end the workers.

        Returns when all requests have their answer. May be called again, and from several threads.
        """
        _close(self._queue, self._process)
        if os.getpid() != self._process:
            return
        if not drain:
            self._queue.refuse()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _request(self, inputs: Mapping[str, Any]) -> Request:
        self._signature.check_names(inputs)
        if any(declared.form for declared in self._signature.inputs):
            # Sequences and optionals are checked by the model.
            return Request(dict(inputs), None, 1)
        arrays = {}
        for declared in self._signature.inputs:
            array = inputs[declared.name]
            arrays[declared.name] = fitting(foreign(array, declared)[0], declared)
        self._signature.types(tuple([array.shape for array in arrays.values()]))
        rows = {array.shape[0] for array in arrays.values()} if self._joins else {1}
        if not self._joins or len(rows) != 1 or 0 in rows:
            return Request(arrays, None, 1)
        return Request(arrays, Entry(arrays, False, same).kind, rows.pop())


def why_alone(inputs: Sequence[Declared]) -> str:
    """Return why requests to a model with these inputs cannot be joined; "" where they can."""
    if not inputs:
        return "the model has no inputs"
    for declared in inputs:
        if declared.form or declared.shape is None or not declared.shape:
            return f"input '{declared}' has no batch axis"
        if isinstance(declared.shape[0], int):
            return f"the first axis of input '{declared}' is fixed"
    return ""


def _close(queue: RequestQueue, process: int) -> None:
    """Close the queue of this process: in a forked child its lock may be held by a thread that is not there."""
    if os.getpid() == process:
        queue.close()


class _Tally:
    """Counters that several threads add to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.counters = Counters()

    def add(self, **more: float) -> None:
        with self._lock:
            now = self.counters
            self.counters = replace(now, **{name: getattr(now, name) + n for name, n in more.items()})


def _work(queue: RequestQueue, model: ServableModel, tally: _Tally) -> None:
    """Answer groups of requests until the queue is closed and empty: the main function of a worker."""
    while (group := queue.take()) is not None:
        _answer(model, group, tally)
        # An idle worker keeps no arrays.
        del group


def _answer(model: ServableModel, group: Sequence[Request], tally: _Tally) -> None:
    """Run a group as one. Where that fails, run each request alone, which shows the request that is at fault."""
    live = [request for request in group if request.future.set_running_or_notify_cancel()]
    if len(live) > 1:
        try:
            results = _run_as_one(model, live, tally)
        except Exception:
            tally.add(split=1)
        else:
            for request, outputs in zip(live, results, strict=True):
                request.future.set_result(outputs)
            return
    for request in live:
        _run_alone(model, request, tally)


def _run_as_one(model: ServableModel, requests: Sequence[Request], tally: _Tally) -> list[dict[str, Array]]:
    start = time.monotonic()
    batch = Batch([Entry(request.inputs, False, same) for request in requests])
    outputs = model.run(batch.inputs())
    results = [dict(zip(outputs, part, strict=True)) for part in batch.parts(outputs)]
    took, waited = time.monotonic() - start, sum(start - request.arrived for request in requests)
    tally.add(answered=len(requests), runs=1, waited_seconds=waited, computed_seconds=took)
    return results


def _run_alone(model: ServableModel, request: Request, tally: _Tally) -> None:
    start = time.monotonic()
    outputs, problem = {}, None
    try:
        outputs = model.run(request.inputs)
    except BaseException as error:
        problem = error
    took, waited = time.monotonic() - start, start - request.arrived
    done = "answered" if problem is None else "failed"
    tally.add(**{done: 1}, runs=1, waited_seconds=waited, computed_seconds=took)
    if problem is None:
        request.future.set_result(outputs)
    else:
        request.future.set_exception(problem)
