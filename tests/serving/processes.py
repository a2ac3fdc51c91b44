"""Server processes for tests, and requests to them without a client library."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 90  # nobody waits longer


@dataclass
class Server:
    """A running server."""

    process: subprocess.Popen[str]
    http: int
    grpc: int

    def get(self, path: str) -> str:
        """The body that an address answers with."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/{path}", timeout=SECONDS) as answer:
            return str(answer.read().decode())

    def post(self, path: str, body: bytes, **headers: str) -> tuple[int, Any]:
        """Status and JSON of the answer to a body."""
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(f"http://127.0.0.1:{self.http}/{path}", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def waiting(self, model: str) -> int:
        """Requests in the queue of a model, as the metrics say."""
        found = re.search(
            rf'cenote_waiting_requests{{model="{model}",version="1"}} (\d+)', self.get("metrics")
        )
        assert found
        return int(found[1])


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, for which there is no event."""
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.02)


@contextlib.contextmanager
def running(*command: str) -> Iterator[Server]:
    """A server of this command line, killed at the end if it still runs."""
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    with subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            assert process.stdout
            line = process.stdout.readline()
            ports = re.fullmatch(r"serving.* http://127.0.0.1:(\d+),? gRPC 127.0.0.1:(\d+)\n", line)
            assert ports, line
            yield Server(process, int(ports[1]), int(ports[2]))
        finally:
            process.kill()
