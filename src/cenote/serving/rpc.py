"""The gRPC side of a server: kserve's servicer, and the calls of Triton's clients that it lacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from kserve.errors import InvalidInput
from kserve.protocol.grpc import grpc_predict_v2_pb2 as messages
from kserve.protocol.grpc.interceptors import ExceptionToStatusInterceptor
from kserve.protocol.grpc.servicer import InferenceServicer

from cenote.serving.adapter import Extension, NotFoundError, Plane, not_loaded

_SERVICE = "GRPCInferenceService"


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
    handlers["RepositoryIndex"] = grpc.unary_unary_rpc_method_handler(_index_of(extension))
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
        return messages.ModelMetadataResponse(**await self._data_plane.model_metadata(request.name))


def _handler(servicer: InferenceServicer, method: Any) -> Any:
    request = getattr(messages, method.input_type.name)
    response = getattr(messages, method.output_type.name)
    read = _with_name(request) if method.name.startswith("Repository") else request.FromString
    answer = getattr(servicer, method.name)

    async def called(content: bytes, context: Any) -> Any:
        try:
            message = read(content)
        except (DecodeError, UnicodeDecodeError) as error:
            # gRPC's own answer would be UNKNOWN, with a traceback.
            raise InvalidInput(f"the message is malformed: {error}") from error
        return await answer(message, context)

    return grpc.unary_unary_rpc_method_handler(called, response_serializer=response.SerializeToString)


def _with_name(kind: Any) -> Callable[[bytes], Any]:
    """Return a reader of requests to load or unload: kserve's definition has the model's name in field 1, Triton's in
    field 2."""

    def read(content: bytes) -> Any:
        message = kind.FromString(content)
        for unknown in UnknownFieldSet(message):
            if unknown.field_number == 2 and isinstance(unknown.data, bytes):
                message.model_name = unknown.data.decode()
        return message

    return read


def _index_of(extension: Extension) -> Callable[[bytes, Any], Any]:
    """Return the call RepositoryIndex of Triton's protocol, whose messages kserve lacks; they consist of strings
    alone."""

    async def index(request: bytes, context: Any) -> bytes:
        rows = await extension.index()
        fields = ("name", "version", "state", "reason")
        packed = (
            b"".join(_field(i + 1, row[name].encode()) for i, name in enumerate(fields)) for row in rows
        )
        return b"".join(_field(1, row) for row in packed)

    return index


def _field(number: int, content: bytes) -> bytes:
    """Encode a field of protobuf: its number and kind, its length in groups of seven bits, its bytes."""
    length, left = bytearray(), len(content)
    while left > 127:
        length.append(left % 128 + 128)
        left //= 128
    return bytes([number << 3 | 2, *length, left]) + content
