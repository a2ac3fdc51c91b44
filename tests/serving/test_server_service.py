"""What a service needs of a server: states, logs, statistics, counters that do not fall, refusals by name.

Skipped where kserve or tritonclient are missing, as `test_server`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.error
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.conftest import Command, cenote_command  # noqa: F401  (a fixture)
from tests.serving.clients import Client
from tests.serving.models import save_times
from tests.serving.processes import SECONDS, Server, running, until

if find_spec("kserve") is None or find_spec("tritonclient") is None:
    pytest.skip("needs kserve and tritonclient", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore")
X = np.arange(8, dtype=np.float32).reshape(2, 4)
PORTS = ("--http-port", "0", "--grpc-port", "0", "--workers", "1")


def serving(folder: Path, log: Path, *options: str) -> Any:
    """A server whose standard error goes into a file."""
    program = (
        "import os, sys; os.dup2(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), 2); del sys.argv[1];"
        "from cenote.cli import main; main()"
    )
    return running("-c", program, str(log), "serve", str(folder), *PORTS, *options)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log") / "log"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, log: Path) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("models")
    save_times(folder / "double" / "3" / "model.onnx", 2)
    save_times(folder / "flat.onnx", 5)
    for version in (1, 2):
        save_times(folder / "pair" / str(version) / "model.onnx", 10 * version)
    (folder / "pair" / "config.pbtxt").write_text("version_policy: { all {} }")
    (folder / "broken").mkdir()
    (folder / "broken" / "model.onnx").write_bytes(b"no model")
    with serving(folder, log, "--keep-going", "--access-log", "--max-batch", "4") as found:
        yield found


@pytest.fixture(params=["http", "grpc"])
def client(request: pytest.FixtureRequest, server: Server) -> Client:
    return Client(request.param, server)


def test_states_are_told_at_the_start(client: Client, log: Path) -> None:
    text = log.read_text()
    assert re.search(r"broken +UNAVAILABLE", text)
    assert re.search(r"double +3 +READY", text)
    assert re.search(r"flat +1 +READY", text)
    assert re.search(r"double: version 3 loaded in", text)
    assert np.array_equal(client.infer("flat", X), 5 * X)


def test_each_request_is_logged_where_it_is_wanted(client: Client, log: Path) -> None:
    client.infer("double", X)
    with client.refused("400", "INVALID_ARGUMENT"):
        client.infer("double", X[:, :3])
    wanted = {
        "http": (r"POST /v2/models/double/infer 200 [\d.]+ ms", r"POST /v2/models/double/infer 400"),
        "grpc": (r"gRPC ModelInfer double [\d.]+ ms", r"gRPC ModelInfer double failed"),
    }[client.protocol]
    for pattern in wanted:
        until(lambda pattern=pattern: bool(re.search(pattern, log.read_text())))


def test_statistics(client: Client) -> None:
    def counted() -> tuple[int, int, int]:
        found = client.triton.get_inference_statistics("double")
        if client.protocol == "grpc":
            (row,) = found.model_stats
            return row.inference_count, row.execution_count, row.inference_stats.compute_infer.ns
        (row,) = found["model_stats"]
        return row["inference_count"], row["execution_count"], row["inference_stats"]["compute_infer"]["ns"]

    client.infer("double", X)
    before = counted()
    for _ in range(3):
        client.infer("double", X)
    after = counted()
    assert (after[0] - before[0], after[1] - before[1]) == (3, 3)
    assert after[2] > before[2]
    everything = client.triton.get_inference_statistics()
    rows = everything.model_stats if client.protocol == "grpc" else everything["model_stats"]
    assert len(rows) == 4  # two of them versions of a model
    with client.refused("404", "NOT_FOUND"):
        client.triton.get_inference_statistics("none")


def test_several_versions_at_once(client: Client, log: Path) -> None:
    """Each by its number, the largest without one; metadata, statistics and readiness of each."""
    for version, factor in (("1", 10), ("2", 20), ("", 20)):
        assert np.array_equal(client.infer("pair", X, model_version=version), factor * X)
    with client.refused("404", "NOT_FOUND"):
        client.infer("pair", X, model_version="3")
    ready = [client.triton.is_model_ready("pair", version) for version in ("1", "2", "3")]
    assert ready == [True, True, False]
    found = client.triton.get_model_metadata("pair", "1")
    statistics = client.triton.get_inference_statistics("pair", "1")
    config = client.triton.get_model_config("pair", "2")
    if client.protocol == "grpc":
        assert (found.name, [*found.versions]) == ("pair", ["2", "1"])
        assert [row.version for row in statistics.model_stats] == ["1"]
    else:
        assert (found["name"], found["versions"]) == ("pair", ["2", "1"])
        assert [row["version"] for row in statistics["model_stats"]] == ["1"]
        assert config["version_policy"] == {"all": {}}
    assert re.search(r"pair +2 +READY", log.read_text())
    assert re.search(r"pair +1 +READY", log.read_text())


def test_configuration(client: Client) -> None:
    found = client.triton.get_model_config("double")
    if client.protocol == "grpc":
        config = found.config
        assert (config.name, config.max_batch_size) == ("double", 4)
        assert (config.input[0].data_type, [*config.input[0].dims]) == (11, [4])  # TYPE_FP32
        assert (config.output[0].name, [*config.output[0].dims]) == ("y", [4])
    else:
        assert (found["name"], found["max_batch_size"]) == ("double", 4)
        assert found["input"] == [{"name": "x", "data_type": "TYPE_FP32", "dims": [4]}]
    with client.refused("404", "NOT_FOUND"):
        client.triton.get_model_config("broken")


def test_the_server_names_its_extensions(client: Client) -> None:
    found = client.triton.get_server_metadata()
    extensions = found.extensions if client.protocol == "grpc" else found["extensions"]
    assert {"statistics", "model_configuration"} <= {*extensions}


@pytest.mark.parametrize("option", [{"timeout": 1000}, {"priority": 3}, {"sequence_id": 7}], ids=str)
def test_parameters_of_requests_are_refused_by_name(client: Client, option: dict[str, int]) -> None:
    from tritonclient.utils import InferenceServerException

    with pytest.raises(
        InferenceServerException, match=rf"the parameter {next(iter(option))} is not supported"
    ):
        client.infer("double", X, **option)


def test_parameters_of_loading_are_refused_by_name(client: Client) -> None:
    from tritonclient.utils import InferenceServerException

    with pytest.raises(InferenceServerException, match=r"loading takes no parameters \('?config"):
        client.triton.load_model("double", config=json.dumps({"max_batch_size": 2}))
    client.triton.load_model("double")


def test_streams_are_refused_by_name(server: Server) -> None:
    import tritonclient.grpc as module

    triton = module.InferenceServerClient(f"127.0.0.1:{server.grpc}")
    errors: list[Any] = []
    triton.start_stream(lambda result, error: errors.append(error))
    until(lambda: bool(errors))
    triton.stop_stream()
    assert "ModelStreamInfer is not supported" in str(errors[0])


def test_counters_never_fall_and_latencies_are_counted(client: Client, server: Server) -> None:
    def answered() -> float:
        found = re.search(
            r'cenote_answered_total{model="double",version="3"} ([\d.]+)', server.get("metrics")
        )
        assert found
        return float(found[1])

    client.infer("double", X)
    before = answered()
    client.triton.load_model("double")
    assert answered() == before
    client.infer("double", X)
    assert answered() == before + 1
    text = server.get("metrics")
    buckets = re.findall(
        r'cenote_request_seconds_bucket{le="([^"]+)",model="double",version="3"} ([\d.]+)', text
    )
    assert buckets[-1][0] == "+Inf"
    assert float(buckets[-1][1]) >= 2


def test_health_by_the_command_line(server: Server, cenote_command: Command) -> None:  # noqa: F811
    url = f"http://127.0.0.1:{server.http}"
    assert cenote_command("health", url).out == "ready\n"
    assert json.loads(cenote_command("health", url, "--model", "flat", "--json").out)["ready"] is True
    ended = cenote_command("health", url, "--model", "broken")
    assert (ended.code, ended.err.startswith("not ready: http://")) == (1, True)
    assert cenote_command("health", "http://127.0.0.1:9").code == 1


@pytest.mark.parametrize(
    ("files", "message"),
    [((), "holds no models: put one at"), (("broken/model.onnx",), "model 'broken'")],
    ids=["empty", "broken"],
)
def test_a_server_without_models_ends(files: tuple[str, ...], message: str, tmp_path: Path) -> None:
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_bytes(b"no model")
    command = [sys.executable, "-m", "cenote", "serve", str(tmp_path), *PORTS, "--keep-going"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 1
    assert message in " ".join(done.stderr.split())


def test_a_client_writes_no_lines_into_the_log(server: Server, log: Path) -> None:
    with pytest.raises(urllib.error.HTTPError):
        server.get("v2/models/one%0Aforged/ready")
    server.post("v2/repository/models/two%0Aforged/load", b"")
    until(lambda: "two%0Aforged" in log.read_text())
    assert not [line for line in log.read_text().splitlines() if line.startswith("forged")]
