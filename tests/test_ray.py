"""Cenote on Ray: the class that takes batches by itself, real workers of which one is killed, and a deployment."""

from __future__ import annotations

import json
import os
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cenote
from cenote.ray import Predictor, deployment

ROOT = Path(__file__).resolve().parents[1]
MODEL = ROOT / "src" / "cenote" / "data" / "fashion.onnx"
PICTURES = 3000


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "fashion.cenote"
    model = cenote.load(MODEL, threads=1)
    for batch in (1, 50):
        model(pictures(batch))
    model.save(path, MODEL)
    return path


def pictures(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((count, 1, 28, 28), dtype=np.float32)


def names() -> tuple[str, str]:
    model = cenote.load(MODEL, threads=1)
    return model.inputs[0].name, model.output_names[0]


def test_a_batch_is_a_dict_of_columns(plan: Path) -> None:
    x, (name, output) = pictures(7), names()
    expected = cenote.load(plan, threads=1)(x)
    assert np.array_equal(Predictor(plan)({name: x})[output], expected)
    assert np.array_equal(Predictor(plan)({"anything": x})[output], expected), "the only column"
    named = Predictor(plan, columns={name: "picture"}, outputs={output: "scores"}, keep=["id"])
    answers = named({"id": np.arange(7), "picture": x.astype(np.float64), "more": np.zeros(7)})
    assert list(answers) == ["id", "scores"]
    assert np.array_equal(answers["scores"], expected)
    objects = np.empty(7, object)
    for i in range(7):
        objects[i] = x[i]
    assert np.array_equal(named({"id": np.arange(7), "picture": objects})["scores"], expected)


def test_what_does_not_fit_is_told(plan: Path) -> None:
    name, output = names()
    with pytest.raises(cenote.ArgumentError, match="'z' is no input or output"):
        Predictor(plan, columns={"z": "picture"})
    with pytest.raises(cenote.ArgumentError, match="kept and would be outputs"):
        Predictor(plan, keep=[output])
    predictor = Predictor(plan, columns={name: "picture"}, keep=["id"])
    with pytest.raises(cenote.InputError, match=r"no column 'picture'; the batch has \['id', 'x'\]"):
        predictor({"id": np.arange(2), "x": pictures(2)})
    sizes = np.empty(2, object)
    sizes[0], sizes[1] = np.zeros((1, 28, 28)), np.zeros((1, 27, 28))
    with pytest.raises(cenote.InputError, match="arrays of several sizes"):
        predictor({"id": np.arange(2), "picture": sizes})
    with pytest.raises(cenote.InputError, match="int64"):
        predictor({"id": np.arange(2), "picture": np.zeros((2, 1, 28, 28), np.int64)})


def test_a_plan_for_another_cpu_is_made_again(plan: Path, tmp_path: Path, monkeypatch: Any) -> None:
    """As after a journey: the plan is stale, the model that it names is there."""
    from cenote.codegen import jit
    from cenote.plans import format

    stale = tmp_path / "stale.cenote"
    with monkeypatch.context() as patch:
        made = format.world(jit.host_target())
        patch.setattr(format, "world", lambda target: {**made, "version": "0.0.0"})
        model = cenote.load(MODEL, threads=1)
        model.plan_for({model.inputs[0].name: (3, 1, 28, 28)})
        model.save(stale, MODEL)
    x, (name, output) = pictures(3), names()
    answers = Predictor(stale)({name: x})[output]
    np.testing.assert_allclose(answers, cenote.load(MODEL, threads=1)(x), rtol=0, atol=1e-4)


def test_the_recipe_for_spark(plan: Path, monkeypatch: Any) -> None:
    """What `predict_batch_udf` is given: a function that makes, in each worker, one from arrays to arrays."""
    text = (ROOT / "docs" / "distributed.md").read_text(encoding="utf-8")
    program = text.split("## Spark")[1].split("```python\n")[1].split("```")[0]
    namespace: dict[str, Any] = {}
    exec(program.split("# With Spark")[0].replace("/shared/model.cenote", str(plan)), namespace)
    x = pictures(4)
    assert np.array_equal(namespace["make_predict_fn"]()(x), cenote.load(plan, threads=1)(x))


# ---- with Ray ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    found = pytest.importorskip("ray")
    found.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    yield found
    found.shutdown()


@pytest.mark.filterwarnings("ignore")
def test_every_picture_is_answered_once_though_a_worker_dies(ray: Any, plan: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    x, (name, output) = pictures(PICTURES), names()
    marker = tmp_path / "killed"

    class Dies(Predictor):
        def __call__(self, batch: Any) -> Any:
            if 1500 in batch["id"] and not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return {**Predictor.__call__(self, batch), "process": np.full(len(batch["id"]), os.getpid())}

    rows = ray.data.from_items([{"id": i, "picture": x[i]} for i in range(PICTURES)], override_num_blocks=12)
    how = {"model": str(plan), "columns": {name: "picture"}, "keep": ["id"]}
    answers = rows.map_batches(
        Dies, fn_constructor_kwargs=how, batch_size=50, num_cpus=1,
        compute=ray.data.ActorPoolStrategy(size=2),
    ).take_all()  # fmt: skip
    assert marker.exists(), "a worker was killed"
    assert sorted(row["id"] for row in answers) == list(range(PICTURES)), "each once"
    assert len({row["process"] for row in answers}) >= 2
    expected = cenote.load(MODEL, threads=1)(x)
    for row in answers:
        np.testing.assert_allclose(row[output], expected[row["id"]], rtol=0, atol=1e-4)


@pytest.mark.filterwarnings("ignore")
def test_a_deployment_answers_by_handle_and_by_http(ray: Any, plan: Path) -> None:
    serve = pytest.importorskip("ray.serve")
    x, (name, output) = pictures(2), names()
    expected = cenote.load(plan, threads=1)(x)
    try:
        serve.start(http_options={"port": 18765})
        handle = serve.run(deployment(plan, num_replicas=1, ray_actor_options={"num_cpus": 1}))
        assert np.array_equal(handle.predict.remote({name: x}).result(timeout_s=60)[output], expected)
        assert np.allclose(ask({name: x.tolist()})[output], expected)
        with pytest.raises(urllib.error.HTTPError) as caught:
            ask({name: [[1.0]]})
        assert caught.value.code == 400
        assert "error" in json.load(caught.value)
    finally:
        serve.shutdown()


def ask(content: Any) -> Any:
    request = urllib.request.Request("http://127.0.0.1:18765/", json.dumps(content).encode())
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)
