"""`cenote serve` beside the same server with onnxruntime as its model. `python -m bench.serving --help`

Needs kserve and onnxruntime in the environment that runs it. Per network and engine a fresh server process on this
machine's loopback, its workers of one thread each; a process of clients beside it, a thread and a connection each,
which send one picture as a binary tensor over HTTP, wait for the answer and send the next. Engines take turns,
`--rounds` times; the table has medians over the rounds of requests per second and of the 50th and 99th percentile of a
request's time. "bare" is one caller on one thread in a process without a server, and "overhead" what one client's
median adds to it. Server and clients share the cores: with few of them, the clients' work is part of what is seen.
"""

import argparse
import http.client
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

NETWORKS = ("mobilenet_v2", "resnet50")
ENGINES = ("cenote", "onnxruntime")
MODELS = Path(__file__).parent / ".models"


class OnnxRuntimeModel:
    """An onnxruntime session of one thread, as a server wants a model."""

    def __init__(self, path: Path) -> None:
        import onnxruntime

        from cenote.core.types import Declared

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.inputs = tuple(
            Declared(each.name, np.dtype(np.float32), tuple(each.shape)) for each in self.session.get_inputs()
        )
        self.names = [each.name for each in self.session.get_outputs()]

    def run(self, inputs: Any) -> dict[str, Any]:
        """Outputs by name."""
        return dict(zip(self.names, self.session.run(self.names, inputs), strict=True))


def load(engine: str, path: Path) -> Any:
    """A model of one thread."""
    import cenote

    return cenote.load(path, threads=1) if engine == "cenote" else OnnxRuntimeModel(path)


def picture(model: Any) -> tuple[str, np.ndarray]:
    """The name of the only input, and numbers for it; open sizes are 1 for the batch, else 224."""
    declared = model.inputs[0]
    shape = [d if isinstance(d, int) else 224 if axis else 1 for axis, d in enumerate(declared.shape)]
    return declared.name, np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def serve(engine: str, folder: str, workers: int, max_batch: int) -> None:
    """A server, until it is ended; its first line of output is the port."""
    from cenote.serving import serve as run_server

    run_server(
        folder,
        http_port=0,
        grpc_port=0,
        workers=workers,
        max_batch=max_batch,
        load=lambda path: load(engine, path),
        started=lambda web, grpc: print(web, flush=True),
    )


def bare(engine: str, path: Path, seconds: float) -> dict[str, Any]:
    """The median of a call's time in milliseconds, and the request that a client sends."""
    model = load(engine, path)
    name, x = picture(model)
    times: list[float] = []
    model.run({name: x})
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        model.run({name: x})
        times.append(1e3 * (time.perf_counter() - start))
    return {"ms": median(times), "name": name, "shape": x.shape}


def clients(port: int, count: int, name: str, shape: Sequence[int], seconds: float) -> dict[str, float]:
    """So many clients at once: requests a second, and percentiles of a request's time in milliseconds."""
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    tensor = {
        "name": name,
        "shape": list(shape),
        "datatype": "FP32",
        "parameters": {"binary_data_size": x.nbytes},
    }
    words = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    headers = {"Inference-Header-Content-Length": str(len(words)), "Content-Type": "application/octet-stream"}
    body, times, problems = words + x.tobytes(), list[list[float]](), list[str]()
    ready, end = threading.Barrier(count + 1), [0.0]

    def one() -> None:
        own: list[float] = []
        times.append(own)
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.connect()
        ready.wait()
        while (start := time.perf_counter()) < end[0]:
            connection.request("POST", "/v2/models/net/infer", body, headers)
            answer = connection.getresponse()
            content = answer.read()
            if answer.status != 200:
                problems.append(content.decode())
                return
            own.append(1e3 * (time.perf_counter() - start))
        connection.close()

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    start = time.perf_counter()
    end[0] = start + seconds
    ready.wait()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - start
    if problems:
        raise SystemExit(f"{len(problems)} requests failed: {problems[0]}")
    every = np.concatenate(times)
    return {"rate": len(every) / took, "p50": np.percentile(every, 50), "p99": np.percentile(every, 99)}


def _own(*arguments: Any) -> list[str]:
    return [sys.executable, "-m", "bench.serving", *map(str, arguments)]


def _answer(*arguments: Any) -> Any:
    return json.loads(subprocess.run(_own(*arguments), check=True, stdout=subprocess.PIPE).stdout)


def measured(engine: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One round of one engine: the bare call, then every number of clients."""
    alone = _answer("--bare", engine, folder / "net" / "model.onnx", "--seconds", options.seconds)
    result: dict[str, Any] = {"bare": alone["ms"]}
    command = _own("--serve", engine, folder, "--workers", options.workers, "--max-batch", options.max_batch)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            port = int(server.stdout.readline())
            shape = ",".join(map(str, alone["shape"]))
            _answer("--call", port, 1, alone["name"], shape, "--seconds", 1)
            for count in options.clients:
                found = _answer("--call", port, count, alone["name"], shape, "--seconds", options.seconds)
                result[str(count)] = found
        finally:
            server.terminate()
    return result


def table(network: str, rounds: dict[str, list[dict[str, Any]]], counts: Sequence[int]) -> str:
    """Markdown of one network."""

    def middle(engine: str, count: str, field: str) -> float:
        return float(median(each[count][field] for each in rounds[engine]))

    lines = [
        f"\n### {network}\n",
        "| clients | engine | requests/s | p50 ms | p99 ms |",
        "|---:|---|---:|---:|---:|",
    ]
    for count in map(str, counts):
        for engine in rounds:
            cells = [middle(engine, count, field) for field in ("rate", "p50", "p99")]
            lines.append(f"| {count} | {engine} | " + " | ".join(f"{cell:.1f}" for cell in cells) + " |")
    lines.append("")
    for engine in rounds:
        alone = median(each["bare"] for each in rounds[engine])
        over = middle(engine, str(counts[0]), "p50") - alone
        lines.append(f"{engine}: bare call {alone:.2f} ms, overhead at {counts[0]} client {over:.2f} ms  ")
    return "\n".join(lines)


def main() -> None:
    """The command line; --serve, --bare and --call are the processes that it starts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=Path, default=MODELS, help="folder of NETWORK.onnx")
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--engines", nargs="+", default=ENGINES)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--max-batch", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write all figures there")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--bare", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--call", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        engine, folder = options.serve
        serve(engine, folder, options.workers, options.max_batch)
    elif options.bare:
        print(json.dumps(bare(options.bare[0], Path(options.bare[1]), options.seconds)))
    elif options.call:
        port, count, name, shape = options.call
        extents = [int(extent) for extent in shape.split(",")]
        print(json.dumps(clients(int(port), int(count), name, extents, options.seconds)))
    else:
        figures = {}
        for network in options.networks:
            rounds: dict[str, list[dict[str, Any]]] = {engine: [] for engine in options.engines}
            with tempfile.TemporaryDirectory() as folder:
                place = Path(folder) / "net"
                place.mkdir()
                (place / "model.onnx").symlink_to((options.models / f"{network}.onnx").resolve())
                for _ in range(options.rounds):
                    for engine in options.engines:
                        rounds[engine].append(measured(engine, Path(folder), options))
            figures[network] = rounds
            print(table(network, rounds, options.clients), flush=True)
        if options.json:
            options.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
