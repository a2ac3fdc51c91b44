"""The requests that wait: a bounded queue from which workers take groups that can run as one."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import field
from typing import Any

from cenote.core.deferred import dataclass
from cenote.core.errors import UnavailableError


@dataclass(eq=False)
class Request:
    """Inputs by name and the future of their outputs.

    `kind` is equal for requests that can run as one, and None for one that runs alone. `rows`: the number of rows of
    the batch axis that it takes.
    """

    inputs: Mapping[str, Any]
    kind: tuple[Any, ...] | None
    rows: int
    future: Future[dict[str, Any]] = field(default_factory=Future)
    arrived: float = field(default_factory=time.monotonic)


class RequestQueue:
    """A queue, first in, first out, except that requests of one kind join the oldest of them, up to `max_rows`
    rows."""

    def __init__(self, limit: int, max_rows: int, max_delay: float) -> None:
        self._limit, self._max_rows, self._max_delay = limit, max_rows, max_delay
        self._waiting: deque[Request] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, request: Request) -> None:
        """Append a request. Raises UnavailableError when `limit` requests wait already, and once closed."""
        with self._changed:
            if self._closed:
                raise UnavailableError("the model is being closed and takes no more requests")
            if len(self._waiting) >= self._limit:
                self._waiting = deque(each for each in self._waiting if not each.future.cancelled())
            if len(self._waiting) >= self._limit:
                raise UnavailableError(
                    f"{len(self._waiting)} requests wait already, as many as may (max_queue); try again later"
                )
            self._waiting.append(request)
            self._changed.notify()

    def take(self) -> list[Request] | None:
        """Wait for requests and return the next ones to run as one; None once the queue is closed and empty."""
        with self._changed:
            while True:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                if not self._waiting:
                    return None
                group, full = self._group()
                left = group[0].arrived + self._max_delay - time.monotonic()
                if not full and not self._closed and left > 0:
                    self._changed.wait(left)
                    continue
                taken = set(map(id, group))
                self._waiting = deque(each for each in self._waiting if id(each) not in taken)
                if self._waiting:
                    self._changed.notify()
                return group

    def _group(self) -> tuple[list[Request], bool]:
        """Return the oldest request and those that join it, and whether no later one could. The caller holds the
        lock."""
        first = self._waiting[0]
        if first.kind is None or first.rows >= self._max_rows:
            return [first], True
        group: list[Request] = []
        rows = 0
        for each in self._waiting:
            if each.kind == first.kind:
                if rows + each.rows > self._max_rows:
                    return group, True
                group.append(each)
                rows += each.rows
        return group, rows == self._max_rows

    def close(self) -> None:
        """Take no more requests; those that wait can still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def refuse(self) -> None:
        """Answer all requests in the queue with UnavailableError."""
        with self._changed:
            refused, self._waiting = self._waiting, deque()
        for each in refused:
            if each.future.set_running_or_notify_cancel():
                each.future.set_exception(UnavailableError("the model was closed before this request ran"))
