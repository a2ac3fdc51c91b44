"""The gRPC side of a server: kserve's servicer, and the calls of Triton's clients that it lacks."""

from __future__ import annotations

import inspect
import logging
import sys
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import grpc
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from kserve.errors import InvalidInput
from kserve.protocol.grpc import grpc_predict_v2_pb2 as messages
from kserve.protocol.grpc.interceptors import ExceptionToStatusInterceptor
from kserve.protocol.grpc.servicer import InferenceServicer

from cenote.serving.adapter import Extension, NotFoundError, Plane, refusal_of_parameters
from cenote.serving.repository import not_loaded
from cenote.serving.versions import addressed
from cenote.serving.wire import Fields, configuration_fields, encoded, index_fields, statistics_fields

_SERVICE = "GRPCInferenceService"
_access = logging.getLogger("cenote.serving.access")


def grpc_server(
    plane: Plane, extension: Extension, host: str, port: int, max_request: int
) -> tuple[Any, int]:
    """Return a server that has not started, and its port. Raises OSError for a port that cannot be opened."""
    options = [
        # kserve's own limit of 8 MiB is 13 pictures of 3x224x224 floats.
        ("grpc.max_send_message_length", -1),
        ("grpc.max_receive_message_length", max_request),
        # Otherwise a second server would share the port silently.
        ("grpc.so_reuseport", 0),
    ]
    server = grpc.aio.server(interceptors=(ExceptionToStatusInterceptor(),), options=options)
    servicer = _Servicer(plane, extension)
    service = messages.DESCRIPTOR.services_by_name[_SERVICE]
    handlers = {method.name: _handler(servicer, method) for method in service.methods}
    handlers["ModelStreamInfer"] = grpc.stream_stream_rpc_method_handler(_no_streams)

    async def index(_: str) -> Fields:
        return index_fields(await extension.index())

    handlers["RepositoryIndex"] = _answering(index)
    handlers["ModelStatistics"] = _answering(lambda name: statistics_fields(plane.statistics(name)))
    handlers["ModelConfig"] = _answering(lambda name: configuration_fields(plane.configuration(name)))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.full_name, handlers),))
    address = f"[{host}]" if ":" in host else host
    try:
        return server, server.add_insecure_port(f"{address}:{port}")
    except RuntimeError as error:
        raise OSError(f"port {port} of {host} cannot be opened for gRPC") from error


class _Servicer(InferenceServicer):  # type: ignore[misc]
    """kserve's servicer, with versions checked and readiness answered: kserve's own ignores versions, and raises an
    error when asked whether a model that is not loaded is ready."""

    async def ModelReady(self, request: Any, context: Any) -> Any:  # noqa: N802  (gRPC's name)
        """Answer False for a model that is not loaded."""
        found = self._data_plane.served(request.name, request.version)
        return messages.ModelReadyResponse(ready=found is not None)

    async def ModelMetadata(self, request: Any, context: Any) -> Any:  # noqa: N802  (gRPC's name)
        """Answer as HTTP does, with the version that is served."""
        if self._data_plane.served(request.name, request.version) is None:
            raise NotFoundError(not_loaded(request.name, request.version))
        address = addressed(request.name, request.version)
        return messages.ModelMetadataResponse(**await self._data_plane.model_metadata(address))


async def _no_streams(requests: object, context: grpc.aio.ServicerContext) -> None:
    """Refuse the call of models that answer more than once."""
    await context.abort(
        grpc.StatusCode.UNIMPLEMENTED,
        "ModelStreamInfer is not supported: a model answers a request once; use ModelInfer",
    )


def _handler(servicer: InferenceServicer, method: Any) -> Any:
    request = getattr(messages, method.input_type.name)
    response = getattr(messages, method.output_type.name)
    read = _with_name(request) if method.name.startswith("Repository") else request.FromString
    answer = getattr(servicer, method.name)

    async def called(content: bytes, context: Any) -> Any:
        start = time.perf_counter()
        try:
            message = read(content)
        except (DecodeError, UnicodeDecodeError) as error:
            # gRPC's own answer would be UNKNOWN, with a traceback.
            raise InvalidInput(f"the message is malformed: {error}") from error
        try:
            return await answer(message, context)
        finally:
            if _access.isEnabledFor(logging.INFO):
                name = getattr(message, "model_name", "") or getattr(message, "name", "")
                failed = " failed" if sys.exception() else ""
                took = 1e3 * (time.perf_counter() - start)
                _access.info(
                    "%s gRPC %s %s%s %.1f ms", context.peer(), method.name, quote(name), failed, took
                )

    return grpc.unary_unary_rpc_method_handler(called, response_serializer=response.SerializeToString)


def _with_name(kind: Any) -> Callable[[bytes], Any]:
    """Return a reader of requests to load or unload: kserve's definition has the model's name in field 1, Triton's in
    field 2."""

    def read(content: bytes) -> Any:
        message = kind.FromString(content)
        for unknown in UnknownFieldSet(message):
            if unknown.field_number == 2 and isinstance(unknown.data, bytes):
                message.model_name = unknown.data.decode()
            # Parameters: an entry of a map is a message whose field 1 is the name.
            if unknown.field_number == 3 and kind is messages.RepositoryModelLoadRequest:
                raise InvalidInput(refusal_of_parameters([_key(unknown.data)]))
        return message

    return read


def _key(entry: object) -> str:
    """Return the name in an entry of a map from names: its field 1."""
    if not isinstance(entry, bytes) or entry[:1] != b"\n" or len(entry) < 2:
        return "?"
    return entry[2 : 2 + entry[1]].decode(errors="replace")


def _answering(make: Callable[[str], Any]) -> Any:
    """Return the handler of a call whose messages kserve lacks: requests have a model's name and version in fields 1
    and 2, if they have any, as those for metadata; `make` returns the fields of the answer, or their coroutine."""

    async def called(content: bytes, context: Any) -> bytes:
        try:
            request = messages.ModelMetadataRequest.FromString(content)
        except (DecodeError, UnicodeDecodeError) as error:
            raise InvalidInput(f"the message is malformed: {error}") from error
        found = make(addressed(request.name, request.version))
        return encoded(await found if inspect.isawaitable(found) else found)

    return grpc.unary_unary_rpc_method_handler(called)
