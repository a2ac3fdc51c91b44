"""onnxruntime's profiles: a file of events in Chrome's trace format. Here an event is a load or a run as a whole."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# About the number that onnxruntime keeps.
_MOST_EVENTS = 1_000_000


class SessionProfile:
    """Recorded events of a session, if `on`. `start`: nanoseconds of the monotonic clock."""

    def __init__(self, prefix: str, on: bool) -> None:
        self.on, self.start = on, time.monotonic_ns()
        self._prefix = prefix
        self._events: list[dict[str, Any]] = []

    @contextmanager
    def event(self, name: str) -> Iterator[None]:
        """Record the time of the code within."""
        begin = time.monotonic_ns()
        yield
        if self.on and len(self._events) < _MOST_EVENTS:
            self._events.append(
                {
                    "cat": "Session",
                    "pid": os.getpid(),
                    "tid": threading.get_native_id(),
                    "dur": (time.monotonic_ns() - begin) // 1000,
                    "ts": (begin - self.start) // 1000,
                    "ph": "X",
                    "name": name,
                    "args": {},
                }
            )

    def end(self) -> str:
        """Write the events, a line each, and stop recording. Return the file's name; "" where nothing is recorded."""
        if not self.on:
            return ""
        self.on = False
        path = f"{self._prefix}{time.strftime('%Y-%m-%d_%H-%M-%S')}.json"
        lines = ",\n".join(json.dumps(event) for event in self._events)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"[\n{lines}\n]\n")
        return path
