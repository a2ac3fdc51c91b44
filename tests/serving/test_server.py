"""A real server process on this machine's loopback, and Triton's own clients, over HTTP and over gRPC.

Skipped where kserve or tritonclient are missing: pip install 'cenote[test]' kserve 'tritonclient[all]'.
"""

from __future__ import annotations

import gzip
import json
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.serving.clients import Client
from tests.serving.models import save_times
from tests.serving.processes import SECONDS, Server, running, until

if find_spec("kserve") is None or find_spec("tritonclient") is None:
    pytest.skip("needs kserve and tritonclient", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the client libraries
X = np.arange(8, dtype=np.float32).reshape(2, 4)
SCRIPT = str(Path(__file__).with_name("gated_server.py"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("models")
    save_times(folder / "double" / "model.onnx", 2)
    save_times(folder / "triple" / "7" / "model.onnx", 3)
    command = (
        "-m",
        "cenote",
        "serve",
        str(folder),
        "--http-port",
        "0",
        "--grpc-port",
        "0",
        "--max-batch",
        "8",
    )
    with running(*command, "--workers", "2") as found:
        yield found


@pytest.fixture
def gated(tmp_path: Path) -> Iterator[Server]:
    save_times(tmp_path / "gated" / "model.onnx", 2)
    save_times(tmp_path / "double" / "model.onnx", 2)
    with running(SCRIPT, str(tmp_path), "0", "0", "2") as found:
        yield found


@pytest.fixture(params=["http", "grpc"])
def client(request: pytest.FixtureRequest, server: Server) -> Client:
    return Client(request.param, server)


def test_health_and_metadata(client: Client) -> None:
    triton = client.triton
    assert triton.is_server_live()
    assert triton.is_server_ready()
    assert triton.is_model_ready("double")
    assert not triton.is_model_ready("none")
    assert [triton.is_model_ready("triple", version) for version in ("7", "8")] == [True, False]
    with client.refused("404", "NOT_FOUND"):
        triton.get_model_metadata("triple", "8")
    found = triton.get_model_metadata("triple", "7")
    if client.protocol == "grpc":
        assert found.inputs[0].shape == [-1, 4]
        assert found.versions == ["7"]
        found = {"name": found.name, "platform": found.platform, "outputs": found.outputs}
    else:
        assert found["versions"] == ["7"]
        assert found["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    assert (found["name"], found["platform"], len(found["outputs"])) == ("triple", "cenote", 1)


def test_binary_tensors(client: Client) -> None:
    assert np.array_equal(client.infer("double", X), 2 * X)
    asked = [client.module.InferRequestedOutput("y")]
    assert np.array_equal(client.infer("triple", X, outputs=asked, request_id="7"), 3 * X)
    large = np.ones((1_000_000, 4), np.float32)  # 16 MB: more than kserve's own limit
    assert np.array_equal(client.infer("double", large), 2 * large)


def test_versions(client: Client) -> None:
    assert np.array_equal(client.infer("triple", X, model_version="7"), 3 * X)
    with client.refused("404", "NOT_FOUND"):
        client.infer("triple", X, model_version="8")


def test_wrong_inputs(client: Client) -> None:
    with client.refused("400", "INVALID_ARGUMENT") as caught:
        client.infer("double", np.zeros((2, 5), np.float32))
    assert "input 'x' has shape [2, 5], the model takes x: float32[n,4]" in str(caught.value)
    with client.refused("400", "INVALID_ARGUMENT") as caught:
        client.infer("double", X.astype(np.float64), datatype="FP64")
    assert "x.astype('float32')" in str(caught.value)
    with client.refused("400", "INVALID_ARGUMENT") as caught:
        client.infer("double", X, name="z")
    assert "'z' is no input of the model" in str(caught.value)
    with client.refused("400", "INVALID_ARGUMENT") as caught:
        client.infer("double", X, outputs=[client.module.InferRequestedOutput("nothing")])
    assert "'nothing' is no output" in str(caught.value)
    with client.refused("400", "INVALID_ARGUMENT") as caught:
        client.infer("double", X, outputs=[client.module.InferRequestedOutput("y", class_count=2)])
    assert "classification is not supported" in str(caught.value)
    with client.refused("404", "NOT_FOUND"):
        client.infer("none", X)
    assert np.array_equal(client.infer("double", X), 2 * X)


def test_load_and_unload(client: Client) -> None:
    triton = client.triton
    triton.unload_model("triple")
    assert not triton.is_model_ready("triple")
    with client.refused("404", "NOT_FOUND"):
        client.infer("triple", X)
    index = triton.get_model_repository_index()
    rows = index if client.protocol == "http" else [{"name": r.name, "state": r.state} for r in index.models]
    assert {row["name"]: row["state"] for row in rows} == {"double": "READY", "triple": "UNAVAILABLE"}
    triton.load_model("triple")
    assert np.array_equal(client.infer("triple", X), 3 * X)
    with client.refused("404", "NOT_FOUND"):
        triton.load_model("none")


def test_many_clients_at_once(server: Server, client: Client) -> None:
    def call(n: int) -> bool:
        own = Client(client.protocol, server)
        return all(np.array_equal(own.infer("double", X + n), 2 * (X + n)) for _ in range(5))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(call, range(8)))


def test_json(server: Server) -> None:
    import tritonclient.http as module

    triton = module.InferenceServerClient(f"127.0.0.1:{server.http}")
    given = module.InferInput("x", [2, 4], "FP32")
    given.set_data_from_numpy(X, binary_data=False)
    for binary in (False, True):
        found = triton.infer(
            "double", [given], outputs=[module.InferRequestedOutput("y", binary_data=binary)]
        )
        assert np.array_equal(found.as_numpy("y"), 2 * X)


@pytest.mark.parametrize(
    ("body", "length"),
    [
        (b"", None),
        (b"{", None),
        (b"[]", None),
        (b"{}", None),
        (b'{"inputs": 3}', None),
        (b'{"inputs": [{"name": "x"}]}', None),
        (b'{"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32"}]}', None),
        (b'{"inputs": [{"name": "x", "shape": "ab", "datatype": "FP32", "data": [1]}]}', None),
        (b'{"inputs": [{"name": "x", "shape": 4, "datatype": "FP32", "data": [1]}]}', None),
        (b'{"inputs": [{"name": {}, "shape": [4], "datatype": "FP32", "data": [1]}]}', None),
        (b'{"inputs": [{"name": "x", "shape": [1, 1], "datatype": 7, "data": [1]}], "id": 3}', None),
        (b'{"inputs": [], "parameters": 3}', None),
        (b'{"inputs": []}abc', 14),
        (b'{"inputs": []}', 15),
        (b'{"inputs": []}', "many"),
        (
            b'{"inputs": [{"name":"x","shape":[1],"datatype":"FP32","parameters":{"binary_data_size":9}}]}',
            None,
        ),
        (
            b'{"inputs": [{"name":"x","shape":[1],"datatype":"FP32","parameters":{"binary_data_size":-1}}]}',
            None,
        ),
    ],
)
@pytest.mark.parametrize("kind", ["application/octet-stream", "application/json"])
def test_malformed_requests(server: Server, body: bytes, length: Any, kind: str) -> None:
    headers = {} if length is None else {"Inference_Header_Content_Length": str(length)}
    status, answer = server.post("v2/models/double/infer", body, Content_Type=kind, **headers)
    assert status == 400
    assert answer["error"]


def test_shared_memory_is_refused_by_name(server: Server) -> None:
    given = {"name": "x", "datatype": "FP32", "shape": [1, 4], "parameters": {"shared_memory_region": "r"}}
    status, answer = server.post("v2/models/double/infer", json.dumps({"inputs": [given]}).encode())
    assert (status, answer["error"]) == (400, "'x': the parameter shared_memory_region is not supported")


def test_compressed_bodies_are_refused_by_name(server: Server) -> None:
    status, answer = server.post("v2/models/double/infer", gzip.compress(b"{}"), Content_Encoding="gzip")
    assert (status, answer["error"]) == (
        415,
        "Content-Encoding: 'gzip' is not supported; send the body as it is",
    )


@pytest.mark.parametrize("path", ["v2/models/double/trace", "v2/nothing"])
def test_addresses_that_are_not_there(server: Server, path: str) -> None:
    assert server.post(path, b"{}") in ((404, {"error": "Not Found"}), (405, {"error": "Method Not Allowed"}))


def _words(**others: Any) -> dict[str, Any]:
    given = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}
    return {
        "id": "7",
        "inputs": [{**given, **{k: v for k, v in others.items() if k in given}}],
        "outputs": [{"name": others.get("output", "y")}],
        **{k: v for k, v in others.items() if k not in (*given, "output")},
    }


ODD = [
    {"id": "\ud800"},  # half of a surrogate pair, which no answer can hold: these were answered by 500
    {"name": "\ud800"},
    {"output": "\udfff"},
    {"datatype": "\ud800"},
    {"shape": [True, 4]},
    {"shape": [1.0, 4]},
    {"data": [True, 2, 3, 4]},
    {"datatype": "INT64", "data": [5, True, 1, 1]},
    {"datatype": "INT64", "data": [5.0, 1, 1, 1]},
    {"parameters": {"binary_data_output": "no"}},
    {"parameters": {"binary_data_output": 1}},
    {"parameters": [1]},
    {"outputs": [{"name": "y", "parameters": {"binary_data": 1}}]},
    {"outputs": ["y"]},
    {"inputs": ["x"]},
    {"id": 7},
]


@pytest.mark.parametrize("kind", ["application/octet-stream", "application/json"])
def test_json_is_read_strictly(server: Server, kind: str) -> None:
    def post(**others: Any) -> Any:
        body = json.dumps(_words(**others)).encode()
        return server.post("v2/models/double/infer", body, Content_Type=kind)

    assert post()[1]["outputs"][0]["data"] == [2, 4, 6, 8]
    for odd in ODD:
        status, answer = post(**odd)
        assert (status, bool(answer["error"])) == (400, True), odd
    assert post(model_version="9")[0] == 404


def test_larger_requests_than_the_server_takes(tmp_path: Path) -> None:
    save_times(tmp_path / "double" / "model.onnx", 2)
    command = f"-m cenote serve {tmp_path} --http-port 0 --grpc-port 0 --max-request 4000".split()
    with running(*command) as server:
        small, large = np.ones((50, 4), np.float32), np.ones((500, 4), np.float32)
        for protocol, status in (("http", "413"), ("grpc", "RESOURCE_EXHAUSTED")):
            client = Client(protocol, server)
            with client.refused(status, status):
                client.infer("double", large)
            assert np.array_equal(client.infer("double", small), 2 * small)
        with socket.create_connection(("127.0.0.1", server.http), timeout=SECONDS) as connection:
            connection.sendall(
                b"POST /v2/models/double/infer HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
            )
            for _ in range(5):  # without a length, and without an end
                connection.sendall(b"3e8\r\n" + b" " * 1000 + b"\r\n")
            assert b" 413 " in connection.recv(65536)


def test_malformed_messages_of_grpc(server: Server) -> None:
    """Random bytes, and fields that contradict each other, are errors of the client; the server goes on."""
    import grpc
    from tritonclient.grpc import service_pb2

    random = np.random.default_rng(0)
    request = service_pb2.ModelInferRequest(model_name="double", id="7")
    request.inputs.add(name="x", datatype="FP32", shape=[1, 4])
    request.raw_input_contents.append(X[:1].tobytes())
    whole = request.SerializeToString()
    messages = [whole[:n] for n in range(len(whole))]
    for _ in range(200):
        damaged = bytearray(whole)
        for at in random.integers(0, len(whole), 3):
            damaged[at] = random.integers(256)
        messages.append(bytes(damaged))
    for change in (
        {"shape": [-1, 4]},
        {"shape": [2**62, 2**62]},
        {"datatype": "FP64"},
        {"datatype": "FP8"},
        {"name": ""},
    ):
        odd = service_pb2.ModelInferRequest()
        odd.CopyFrom(request)
        for field, value in change.items():
            if field == "shape":
                del odd.inputs[0].shape[:]
                odd.inputs[0].shape.extend(value)
            else:
                setattr(odd.inputs[0], field, value)
        messages.append(odd.SerializeToString())
    twice = service_pb2.ModelInferRequest()
    twice.CopyFrom(request)
    twice.raw_input_contents.append(b"1234")  # contents of no input
    messages.append(twice.SerializeToString())
    refused = []
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc}") as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        for message in messages:
            try:
                call(message, timeout=SECONDS)
            except grpc.RpcError as error:
                refused.append((error.code().name, error.details()))
        assert {name for name, _ in refused} == {"INVALID_ARGUMENT", "NOT_FOUND"}, refused
        assert call(whole, timeout=SECONDS)


def test_overload_is_refused_and_what_was_accepted_is_answered(gated: Server, tmp_path: Path) -> None:
    clients = {protocol: Client(protocol, gated) for protocol in ("http", "grpc")}
    with ThreadPoolExecutor(3) as pool:
        accepted = [pool.submit(Client("grpc", gated).infer, "gated", X + n) for n in range(3)]
        until(lambda: gated.waiting("gated") == 2)  # one runs, two wait: as many as may
        for each in clients.values():
            with each.refused("503", "UNAVAILABLE") as caught:
                each.infer("gated", X)
            assert "2 requests wait already" in str(caught.value)
            assert np.array_equal(each.infer("double", X), 2 * X)  # other models have room
        (tmp_path / "open").touch()
        for n, future in enumerate(accepted):
            assert np.array_equal(future.result(SECONDS), 2 * (X + n))


def _http_request(model: str) -> bytes:
    words = {"inputs": [{"name": "x", "shape": [2, 4], "datatype": "FP32", "data": X.ravel().tolist()}]}
    body = json.dumps(words).encode()
    head = f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


def _received(connection: socket.socket) -> bytes:
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


def test_slow_clients_hold_up_nobody(server: Server, client: Client) -> None:
    request = _http_request("double")
    slow = [socket.create_connection(("127.0.0.1", server.http), timeout=SECONDS) for _ in range(20)]
    for number, connection in enumerate(slow):
        connection.sendall(request[: len(request) * number // 20])  # in the middle of a line, of the body
    for _ in range(3):
        assert np.array_equal(client.infer("double", X), 2 * X)
    for number, connection in enumerate(slow):
        connection.sendall(request[len(request) * number // 20 :])
    for connection in slow:
        with connection:
            assert b" 200 OK" in _received(connection)


def test_sigterm_answers_what_was_accepted(gated: Server, tmp_path: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        accepted = [pool.submit(Client(p, gated).infer, "gated", X) for p in ("http", "grpc", "http")]
        until(lambda: gated.waiting("gated") == 2)
        gated.process.send_signal(signal.SIGTERM)
        until(lambda: not _listens(gated.http))
        (tmp_path / "open").touch()
        assert all(np.array_equal(future.result(SECONDS), 2 * X) for future in accepted)
    assert gated.process.wait(SECONDS) == 0


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=SECONDS).close()
    except OSError:
        return False
    return True


def test_killed_and_started_again_on_the_same_ports(tmp_path: Path) -> None:
    save_times(tmp_path / "double" / "model.onnx", 2)
    save_times(tmp_path / "gated" / "model.onnx", 2)
    with running(SCRIPT, str(tmp_path), "0", "0", "2") as first:
        client = Client("http", first)
        assert np.array_equal(client.infer("double", X), 2 * X)
        with ThreadPoolExecutor(1) as pool:
            lost = pool.submit(Client("http", first).infer, "gated", X)
            until(lambda: 'cenote_accepted_total{model="gated",version="1"} 1.0' in first.get("metrics"))
            first.process.kill()
            assert isinstance(lost.exception(SECONDS), Exception)  # no answer, and none that is wrong
        first.process.wait(SECONDS)
    with running(SCRIPT, str(tmp_path), str(first.http), str(first.grpc), "2") as second:
        assert np.array_equal(client.infer("double", X), 2 * X)  # the same client, connected anew
        assert np.array_equal(Client("grpc", second).infer("double", X), 2 * X)


def test_metrics(server: Server) -> None:
    Client("http", server).infer("double", X)
    found = server.get("metrics")
    assert 'cenote_answered_total{model="double",version="1"}' in found
    assert "request_predict_seconds_count" in found
