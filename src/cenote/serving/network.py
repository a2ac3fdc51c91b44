"""The sockets of a server: HTTP and gRPC on one event loop, until a signal ends it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

# The application that the routes are registered in.
import kserve.model_server
import orjson
import uvicorn
from fastapi.exceptions import RequestValidationError
from kserve.errors import InvalidInput, ModelNotFound, ServerNotReady
from kserve.protocol.rest.server import RESTServer
from prometheus_client import REGISTRY
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from cenote.core.errors import shown
from cenote.serving.adapter import Extension, Metrics, Plane, Registry, refusal_of_parameters
from cenote.serving.repository import Repository, not_loaded
from cenote.serving.rpc import grpc_server
from cenote.serving.versions import addressed

_access = logging.getLogger("cenote.serving.access")


class _Server(uvicorn.Server):  # type: ignore[misc]
    """uvicorn's server without its own signal handlers: both protocols end together."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Rest(RESTServer):  # type: ignore[misc]
    """kserve's HTTP routes, without a log line for each request."""

    max_request: int

    def _add_middlewares(self, app: Any) -> None:
        app.add_middleware(_Front, plane=self.dataplane, max_request=self.max_request)

    def _add_exception_handlers(self, app: Any) -> None:
        super()._add_exception_handlers(app)
        app.add_exception_handler(HTTPException, lambda _, error: _told(error.detail, error.status_code))
        app.add_exception_handler(
            RequestValidationError, lambda _, error: _told(f"the request is malformed: {error}", 400)
        )

    def _register_endpoints(self, app: Any) -> None:
        plane: Plane = self.dataplane

        async def load(model_name: str, request: Request) -> Any:
            _check_parameters(await request.body())
            return await self.model_repository_extension.load(model_name)

        async def index() -> list[dict[str, str]]:
            found: list[dict[str, str]] = await self.model_repository_extension.index()
            return found

        async def stats(model_name: str = "") -> dict[str, Any]:
            return plane.statistics(model_name)

        async def config(model_name: str) -> dict[str, Any]:
            return plane.configuration(model_name)

        # Before kserve's own: its load ignores the body, and its metadata would take "stats" for a model.
        app.add_api_route("/v2/repository/models/{model_name}/load", load, methods=["POST"])
        app.add_api_route("/v2/repository/index", index, methods=["POST"])
        app.add_api_route("/v2/models/stats", stats, methods=["GET"])
        app.add_api_route("/v2/models/{model_name}/stats", stats, methods=["GET"])
        app.add_api_route("/v2/models/{model_name}/config", config, methods=["GET"])
        super()._register_endpoints(app)


def _check_parameters(body: bytes) -> None:
    """Refuse the parameters of a request to load, by name: files and options are those of the server."""
    try:
        words = orjson.loads(body) if body.strip() else {}
        parameters = words.get("parameters") or {}
        names = [str(name) for name in parameters]
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidInput(f"the request is malformed: {error}") from error
    if names:
        raise InvalidInput(refusal_of_parameters(names))


def _logged(scope: Scope, send: Send) -> Any:
    """Return a `send` that logs the request when its answer begins."""
    start = time.perf_counter()
    client = (scope.get("client") or ("?",))[0]
    path = quote(scope["path"])  # a line break in it would be a line of the log

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            took = 1e3 * (time.perf_counter() - start)
            _access.info("%s %s %s %d %.1f ms", client, scope["method"], path, message["status"], took)
        await send(message)

    return sending


def _told(problem: str, status: int) -> JSONResponse:
    """Return an answer with an error message, in the form of the protocol."""
    return JSONResponse({"error": problem}, status)


class _Front:
    """Middleware that checks each request before kserve sees it.

    It refuses bodies that are too large or compressed. In v2/models/NAME/versions/VERSION/… it makes name and version
    one word (`addressed`), as kserve knows no versions. It declares the bodies of inference requests to be bytes, so
    that one reader (`adapter`) reads them all.
    """

    def __init__(self, app: Any, plane: Plane, max_request: int) -> None:
        self.app, self.plane, self.max_request = app, plane, max_request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        words = scope.get("path", "").split("/")
        if words[1:3] == ["v2", "models"] and words[4:5] == ["versions"] and len(words) > 5:
            if self.plane.served(words[3], words[5]) is None:
                await _told(not_loaded(words[3], words[5]), 404)(scope, receive, send)
                return
            words[3:6] = [addressed(words[3], words[5])]
            path = "/".join(words)
            scope = {**scope, "path": path, "raw_path": path.encode()}
        headers = dict(scope.get("headers", ()))
        if int(headers.get(b"content-length", 0)) > self.max_request:
            await _told(self._too_large(), 413)(scope, receive, send)
            return
        if _access.isEnabledFor(logging.INFO) and scope["type"] == "http":
            send = _logged(scope, send)
        coding = headers.get(b"content-encoding", b"identity").decode("latin-1")
        if coding.lower() not in ("", "identity"):
            problem = f"Content-Encoding: {shown(coding)} is not supported; send the body as it is"
            await _told(problem, 415)(scope, receive, send)
            return
        if words[1:3] == ["v2", "models"] and words[4:] == ["infer"]:
            headers[b"content-type"] = b"application/octet-stream"
            scope = {**scope, "headers": list(headers.items())}
        await self.app(scope, self._counted(receive), send)

    def _counted(self, receive: Receive) -> Any:
        """Return a `receive` that refuses a body sent in pieces (chunked) once it is too large."""
        taken = 0

        async def counted() -> Any:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self.max_request:
                raise HTTPException(413, self._too_large())
            return message

        return counted

    def _too_large(self) -> str:
        return f"the request's body is larger than {self.max_request} bytes (--max-request)"


def _quiet(record: logging.LogRecord) -> bool:
    """Keep a client's errors, and requests at a bad time, out of the log: the client gets them, without a traceback
    here."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, InvalidInput | ModelNotFound | ServerNotReady)


async def _until_signal(
    registry: Registry,
    host: str,
    http: socket.socket,
    grpc_port: int,
    max_request: int,
    grace: float,
    started: Any,
) -> None:
    plane, extension = Plane(registry), Extension(registry)
    rest = _Rest(f"{kserve.model_server.__name__}:app", plane, extension, 0, grace_period=int(grace))
    rest.max_request = max_request
    rest.config.access_log = False
    rest.create_application()
    web = _Server(rest.config)
    remote, grpc_port = grpc_server(plane, extension, host, grpc_port, max_request)
    ended = asyncio.Event()

    def end() -> None:
        # The second signal does not wait.
        web.force_exit = ended.is_set()
        plane.draining = True
        ended.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end)
    await remote.start()
    serving = asyncio.create_task(web.serve(sockets=[http]))
    while not web.started and not serving.done():
        await asyncio.sleep(0.01)
    started(http.getsockname()[1], grpc_port)
    ending = asyncio.create_task(ended.wait())
    await asyncio.wait({serving, ending}, return_when=asyncio.FIRST_COMPLETED)
    web.should_exit = plane.draining = True
    ending.cancel()
    await asyncio.gather(serving, remote.stop(grace))
    await asyncio.to_thread(registry.repository.close)


def run(
    repository: Repository,
    host: str,
    http_port: int,
    grpc_port: int,
    max_request: int,
    grace: float,
    started: Callable[[int, int], None],
) -> None:
    """Serve until SIGTERM or SIGINT, then answer what was accepted, at most `grace` seconds long."""
    logging.getLogger("kserve").addFilter(_quiet)
    # A notice of FastAPI's to kserve's authors, which every server would print at its first request.
    warnings.filterwarnings("ignore", "ORJSONResponse is deprecated")
    registry = Registry(repository)
    metrics = Metrics(registry)
    REGISTRY.register(metrics)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        # With the protocol named, asyncio turns off Nagle's algorithm: otherwise a small answer after a large request
        # waits for a delayed acknowledgement, 40 ms.
        with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as http:
            http.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                http.bind((host, http_port))
            except OSError as error:
                raise OSError(f"port {http_port} of {host} cannot be opened: {error.strerror}") from error
            asyncio.run(_until_signal(registry, host, http, grpc_port, max_request, grace, started))
    finally:
        REGISTRY.unregister(metrics)
        logging.getLogger("kserve").removeFilter(_quiet)
