"""A server for tests: as `cenote serve FOLDER`, but the model `gated` computes only while a file `open` is in FOLDER.

python gated_server.py FOLDER HTTP_PORT GRPC_PORT MAX_QUEUE
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import cenote
from cenote.core.types import Declared
from cenote.serving import serve


class Gated:
    """y = 2 x, when the gate is open."""

    inputs = (Declared("x", np.dtype(np.float32), ("n", 4)),)
    declared_outputs = (Declared("y", np.dtype(np.float32), ("n", 4)),)

    def __init__(self, gate: Path) -> None:
        self.gate = gate

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        while not self.gate.exists():
            time.sleep(0.01)
        return {"y": 2 * inputs["x"]}


def load(path: Path) -> Any:
    return Gated(path.parents[1] / "open") if path.parent.name == "gated" else cenote.load(path, threads=1)


def started(http: int, grpc: int) -> None:
    print(f"serving http://127.0.0.1:{http} gRPC 127.0.0.1:{grpc}", flush=True)


if __name__ == "__main__":
    folder, http, grpc, max_queue = sys.argv[1:]
    serve(
        folder,
        http_port=int(http),
        grpc_port=int(grpc),
        workers=1,
        max_queue=int(max_queue),
        load=load,
        started=started,
    )
