"""A server for a folder of models: the Open Inference Protocol over HTTP and gRPC, by kserve."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from cenote.core.errors import ArgumentError, UnsupportedError
from cenote.core.locks import importing
from cenote.serving.batcher import ServableModel
from cenote.serving.repository import Repository
from cenote.serving.versions import VersionPolicy

# Bytes: the largest length that gRPC can count, and Triton's default.
LARGEST_REQUEST = 2**31 - 1


def serve(
    folder: str | os.PathLike[str],
    *,
    host: str = "127.0.0.1",
    http_port: int = 8080,
    grpc_port: int = 8081,
    versions: VersionPolicy | int | str = 1,
    workers: int | None = None,
    max_batch: int = 1,
    max_delay: float = 0.0,
    max_queue: int = 128,
    max_request: int = LARGEST_REQUEST,
    grace: float = 30.0,
    load: Callable[[Path], ServableModel] | None = None,
    keep_going: bool = False,
    loaded: Callable[[list[dict[str, str]]], None] = lambda rows: None,
    started: Callable[[int, int], None] = lambda http, grpc: None,
) -> None:
    """Serve the models of a folder (`Repository`) until SIGTERM or SIGINT. Call it in the main thread.

    host: address to listen on; by default this machine only, "0.0.0.0" for every network (there is no authentication).
    http_port, grpc_port: 0 lets the system choose; `started` is called with both ports when they are open.
    versions, workers, max_batch, max_delay, max_queue, load: those of `Repository`.
    max_request: bytes of a request's body, at most 2 GiB - 1; larger ones get 413 (gRPC:
        RESOURCE_EXHAUSTED).
    keep_going: serve the models that can be loaded where others cannot; by default the server ends then.
    loaded: called with the rows of `Repository.index` when every model has been tried, before `started`.
    grace: seconds that a request may still take after the signal. New requests are refused then; a second signal ends
        the waiting.

    Raises UnsupportedError where kserve is not installed, ArgumentError for numbers out of range, the error of the
    first model that cannot be loaded, MissingFileError for a folder without models, OSError for a port
    that cannot be opened.
    """
    for name, port in (("http_port", http_port), ("grpc_port", grpc_port)):
        if not 0 <= port <= 65535:
            raise ArgumentError(f"{name}: {port} is not from 0 to 65535")
    if not 1 <= max_request <= LARGEST_REQUEST:
        raise ArgumentError(f"max_request: {max_request} is not from 1 to {LARGEST_REQUEST}")
    network = _network()
    options = {
        "versions": versions,
        "workers": workers,
        "max_batch": max_batch,
        "max_delay": max_delay,
        "max_queue": max_queue,
    }
    repository = Repository(folder, load=load, **options)  # type: ignore[arg-type]
    try:
        try:
            repository.load_all(keep_going)
        finally:
            loaded(repository.index())
        network.run(repository, host, http_port, grpc_port, max_request, grace, started)
    finally:
        repository.close()


def _network() -> Any:
    """Import the part that needs kserve. Its model server reads the command line of the importing program, which is
    hidden."""
    arguments, sys.argv = sys.argv, sys.argv[:1]
    try:
        with importing():
            return import_module("cenote.serving.network")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("cenote"):
            raise
        raise UnsupportedError(
            f"serving over a network needs kserve ({error.name} is not installed): pip install kserve"
        ) from error
    finally:
        sys.argv = arguments
