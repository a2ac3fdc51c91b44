"""`cenote serve` for many requests, with reloads in between: lost or wrong answers, and the memory of the server.

    python -m bench.serving_soak --requests 1000000 --reload 5

Needs kserve. Clients of one connection each send rows of numbers to a model y = 2 x as binary tensors over HTTP, check
each answer, and send the next, while another loads the model again every `--reload` seconds. Every tenth of the way a
line with the requests so far, those per second, and the resident memory of the server.
"""

from __future__ import annotations

import argparse
import http.client
import json
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tests.serving.models import save_times
from tests.serving.processes import Server, running

_HEAD = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "parameters": {"binary_data_size": 16}}],
         "outputs": [{"name": "y", "parameters": {"binary_data": True}}]}  # fmt: skip


class Soak:
    """Requests of several clients, and what came of them."""

    def __init__(self, server: Server, requests: int) -> None:
        self.server, self.left, self.done, self.faults = server, requests, 0, list[str]()
        self.lock = threading.Lock()

    def client(self, number: int) -> None:
        """Send requests until none is left. A wrong or missing answer is a fault."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.http, timeout=60)
        head = json.dumps(_HEAD).encode()
        headers = {"Inference-Header-Content-Length": str(len(head))}
        random = np.random.default_rng(number)
        while self.taken():
            x = random.standard_normal((1, 4)).astype(np.float32)
            try:
                connection.request("POST", "/v2/models/double/infer", head + x.tobytes(), headers)
                answer = connection.getresponse()
                content = answer.read()
                right = answer.status == 200 and content[-16:] == (2 * x).tobytes()
                fault = "" if right else f"{answer.status}: {content[:200]!r}"
            except OSError as error:
                fault = f"{type(error).__name__}: {error}"
                connection.close()
            with self.lock:
                self.done += 1
                if fault:
                    self.faults.append(fault)

    def taken(self) -> bool:
        """Take one of the requests that are left; False where there is none."""
        with self.lock:
            self.left -= 1
            return self.left >= 0

    def memory(self) -> float:
        """Resident memory of the server in MB."""
        for line in Path(f"/proc/{self.server.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        return 0.0


def main() -> None:
    """Run the clients and the reloads, and print what came of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--reload", type=float, default=5.0, help="seconds between reloads")
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        save_times(Path(folder) / "double" / "model.onnx", 2)
        command = (
            "-m",
            "cenote",
            "serve",
            folder,
            "--http-port",
            "0",
            "--grpc-port",
            "0",
            "--max-batch",
            "8",
        )
        with running(*command) as server:
            watch(Soak(server, given.requests), given.requests, given.clients, given.reload)


def watch(soak: Soak, requests: int, clients: int, pause: float) -> None:
    """Run all clients, reload meanwhile, and print the state now and then."""
    threads = [threading.Thread(target=soak.client, args=(number,)) for number in range(clients)]
    start = last = time.monotonic()
    reloads, shown = 0, 0
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        time.sleep(0.2)
        if time.monotonic() - last > pause:
            last, reloads = time.monotonic(), reloads + 1
            status, answer = soak.server.post("v2/repository/models/double/load", b"")
            if status != 200:
                soak.faults.append(f"reload: {answer}")
        if soak.done >= (shown + 1) * requests / 10:
            shown += 1
            rate = soak.done / (time.monotonic() - start)
            print(
                f"{soak.done:,} requests, {rate:.0f}/s, {reloads} reloads, {soak.memory():.1f} MB", flush=True
            )
    print(
        f"{soak.done:,} requests, {len(soak.faults)} lost or wrong, {reloads} reloads, {soak.memory():.1f} MB"
    )
    for fault in soak.faults[:5]:
        print(fault)


if __name__ == "__main__":
    main()
