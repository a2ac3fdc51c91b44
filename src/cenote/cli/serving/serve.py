"""`cenote serve`: a folder of models as a server."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

import cenote
from cenote.cli.console import err, say


@dataclass(frozen=True)
class Requests:
    """Limits of requests, alone and together."""

    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            min=1,
            max=256,
            help="Calls of a model at once (default: one per physical core).",
            show_default=False,
        ),
    ] = None
    max_batch: Annotated[
        int, typer.Option("--max-batch", min=1, help="Rows of the first axis that requests are joined to.")
    ] = 1
    max_delay: Annotated[
        float,
        typer.Option("--max-delay", min=0, help="Seconds that a request may wait for others to join it."),
    ] = 0.0
    max_queue: Annotated[
        int, typer.Option("--max-queue", min=1, help="Requests per model that may wait; others get 503.")
    ] = 128
    max_request: Annotated[
        int, typer.Option("--max-request", min=1, max=2**31 - 1, help="Bytes of a body; larger ones get 413.")
    ] = 2**31 - 1


def serve(
    options: cenote.LoadOptions,
    requests: Requests,
    folder: Annotated[
        Path,
        typer.Argument(
            help="Holds NAME/model.onnx (.cenote, .tflite, …) or NAME/VERSION/model.onnx for each model.",
            show_default=False,
        ),
    ],
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; 0.0.0.0: every network. No authentication.")
    ] = "127.0.0.1",
    http_port: Annotated[
        int, typer.Option("--http-port", min=0, max=65535, help="0: the system chooses.")
    ] = 8080,
    grpc_port: Annotated[
        int, typer.Option("--grpc-port", min=0, max=65535, help="0: the system chooses.")
    ] = 8081,
    versions: Annotated[
        str,
        typer.Option(
            "--versions",
            help="How many versions of a model are served, from the largest down, or 'all'; a config.pbtxt's "
            "version_policy goes before it.",
        ),
    ] = "1",
    keep_going: Annotated[
        bool,
        typer.Option("--keep-going", help="Serve the other models where one cannot be loaded at the start."),
    ] = False,
    access_log: Annotated[bool, typer.Option("--access-log", help="Log a line for each request.")] = False,
) -> None:
    """Serve the models of a folder over HTTP and gRPC, by the Open Inference Protocol (KServe v2, Triton).

    Models run on one thread each, unless --threads says more.

    Ends at SIGTERM or Ctrl-C, when what it has accepted is answered. Needs kserve: pip install kserve.
    """
    options = options.changed(threads=options.threads or 1)
    # A line for each load, reload and failure; one for each request where that is wanted.
    logging.getLogger("cenote.serving").setLevel(logging.INFO)
    logging.getLogger("cenote.serving.access").setLevel(logging.INFO if access_log else logging.WARNING)
    cenote.serving.serve(
        folder,
        host=host,
        http_port=http_port,
        grpc_port=grpc_port,
        versions=versions,
        **dataclasses.asdict(requests),
        load=lambda path: cenote.load_with(path, options),
        keep_going=keep_going,
        loaded=_tell,
        started=lambda http, grpc: say(f"serving {folder}: http://{host}:{http}, gRPC {host}:{grpc}"),
    )


def _tell(rows: Sequence[dict[str, str]]) -> None:
    """Print the models of the folder with their state, on standard error."""
    table = Table(box=None, pad_edge=False)
    for column in ("model", "version", "state", "reason"):
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(escape(row[column]) for column in ("name", "version", "state", "reason")))
    err().print(table)
