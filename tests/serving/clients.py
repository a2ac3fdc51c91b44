"""Triton's clients, over HTTP and over gRPC."""

from __future__ import annotations

from typing import Any

import pytest

from tests.serving.processes import Server


class Client:
    """One of Triton's clients, and how its errors say what happened."""

    def __init__(self, protocol: str, server: Server) -> None:
        if protocol == "http":
            import tritonclient.http as module
        else:
            import tritonclient.grpc as module
        self.module = module
        self.protocol = protocol
        port = server.http if protocol == "http" else server.grpc
        self.triton = module.InferenceServerClient(f"127.0.0.1:{port}")

    def infer(self, model: str, x: Any, name: str = "x", datatype: str = "FP32", **options: Any) -> Any:
        given = self.module.InferInput(name, list(x.shape), datatype)
        given.set_data_from_numpy(x)
        return self.triton.infer(model, [given], **options).as_numpy("y")

    def refused(self, http: str, grpc: str) -> Any:
        """Expects an error with the status of this protocol."""
        from tritonclient.utils import InferenceServerException

        status = http if self.protocol == "http" else f"StatusCode.{grpc}"
        return pytest.raises(InferenceServerException, match=rf"(?s)\[{status}\]")
