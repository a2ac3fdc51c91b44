"""Exported networks in Chromium, beside onnxruntime-web and LiteRT.js: all engines take turns in one page.

    npm install --prefix FOLDER onnxruntime-web @litertjs/core
    python -m bench.anywhere.browser --npm FOLDER/node_modules [--page docs/benchmarks/anywhere.md]

The networks are those of `bench.export`, for LiteRT.js those of `bench.convert_litert`. The server below sends the
headers for cross-origin isolation: without them there are no threads, and the clock is coarse.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import tempfile
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

import cenote
from bench.anywhere.page import page
from bench.files import MODEL_FOLDER, ModelFiles
from bench.machine import describe

NETWORKS = (
    "lenet5,shufflenet_v2_x1,mobilenet_v2,squeezenet1_1,efficientnet_b0,googlenet,resnet18,densenet121,resnet50,"
    "yolov8n"
)
ENGINES = "cenote,cenote_plain,cenote_2,onnxruntime_web,onnxruntime_web_2,litert_js"
_TIMEOUT = 600  # seconds for a network


def export(files: ModelFiles, folder: Path) -> dict[str, Any]:
    """Write a network's exports, its input and its answer; return sizes of the files."""
    x = files.read("x").astype(np.float32)
    out = folder / files.name
    options: dict[str, Any] = {"target": "wasm32", "name": "net"}
    both = cenote.export_model(files.onnx, out / "both", threads=2, **options)
    plain = out / "plain"
    plain.mkdir(parents=True, exist_ok=True)
    for path in both:  # the same export, told that there are no relaxed instructions
        if path.suffix == ".mjs":
            (plain / path.name).write_text(path.read_text().replace('"wasm32-relaxed": "', '"none": "'))
        elif "relaxed" not in path.name:
            shutil.copy(path, plain / path.name)
    x.tofile(out / "x.f32")
    files.read("y").astype(np.float32).tofile(out / "y.f32")
    (out / "described.json").write_text(json.dumps({"shape": list(x.shape)}))
    sizes = {path.name: path.stat().st_size for path in both}
    return {
        "code": sizes["net.wasm"],
        "relaxed": sizes["net.relaxed.wasm"],
        "script": sizes["net.mjs"],
        "weights": sizes["net.bin"],
    }


class _Server(ThreadingHTTPServer):
    """Server of some folders by the first word of the path, which keeps what a page reports."""

    def __init__(self, folders: dict[str, Path]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folders, self.done, self.found = folders, threading.Event(), ""


class _Handler(SimpleHTTPRequestHandler):
    extensions_map = {
        **SimpleHTTPRequestHandler.extensions_map,
        ".wasm": "application/wasm",
        ".mjs": "text/javascript",
    }
    server: _Server  # type: ignore[assignment]  # the base class names any server

    def translate_path(self, path: str) -> str:
        first, _, rest = path.partition("?")[0].lstrip("/").partition("/")
        folder = self.server.folders.get(first)
        return "absent" if folder is None or ".." in rest else str(folder / rest)

    def end_headers(self) -> None:
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def do_POST(self) -> None:
        self.server.found = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.send_response(200)
        self.end_headers()
        self.server.done.set()

    def log_message(self, *_: object) -> None:
        pass


def measure(server: _Server, browser: str, name: str, rounds: int, engines: str) -> dict[str, Any]:
    """Return what the page reports of a network."""
    server.done.clear()
    url = f"http://127.0.0.1:{server.server_port}/bench/bench.html?name={name}&rounds={rounds}&engines={engines}"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
        process = subprocess.Popen(
            [browser, *flags, url], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            if not server.done.wait(_TIMEOUT):
                return {"results": {}}
        finally:
            process.terminate()
            process.wait()
    found: dict[str, Any] = json.loads(server.found)
    return found


def row(name: str, found: dict[str, Any], sizes: dict[str, Any]) -> dict[str, Any]:
    """Return a network's figures: per engine median, least, ready and error, or why there are none."""
    engines: dict[str, Any] = {}
    for engine, result in found["results"].items():
        if "failed" in result:
            engines[engine] = result
            continue
        times = result["times"]
        engines[engine] = {
            "median": statistics.median(times),
            "least": min(times),
            "ready": result["made"] + result["first"],
            "error": result["error"],
        }
    return {"name": name, "sizes": sizes, "engines": engines, "agent": found.get("agent", "")}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.anywhere.browser", description=__doc__)
    parser.add_argument("--npm", type=Path, required=True, help="folder node_modules with the peers")
    parser.add_argument(
        "--folder", type=Path, default=MODEL_FOLDER, help="where bench.export wrote the networks"
    )
    parser.add_argument("--models", default=NETWORKS)
    parser.add_argument("--engines", default=ENGINES)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--browser", default=shutil.which("chromium") or "chromium")
    parser.add_argument("--output", type=Path, help="append JSON lines to this file")
    parser.add_argument("--page", type=Path, help="write a page")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(temporary)
        here = Path(__file__).parent
        folders = {"npm": arguments.npm, "out": out, "models": arguments.folder.resolve(), "bench": here}
        server = _Server(folders)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for name in arguments.models.split(","):
            sizes = export(ModelFiles(name, arguments.folder.resolve()), out)
            found = row(
                name, measure(server, arguments.browser, name, arguments.rounds, arguments.engines), sizes
            )
            rows.append(found)
            print(json.dumps(found), flush=True)
            if arguments.output:
                with arguments.output.open("a") as file:
                    file.write(json.dumps(found) + "\n")
            shutil.rmtree(out / name)
    if arguments.page:
        arguments.page.write_text(page(rows, describe(), arguments.rounds))


if __name__ == "__main__":
    main()
