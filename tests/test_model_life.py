"""Models in programs: pickled, forked, spawned, awaited, closed, and called from many threads."""

from __future__ import annotations

import asyncio
import gc
import io
import multiprocessing
import pickle
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import cenote
from cenote.core.errors import InputError, ModelError
from cenote.runtime.program import Instance

TEXT = """life (float[N,2,H,W] x) => (float[N,3] y)
  <float[3,2,3,3] w> { a = Conv<pads=[1,1,1,1]>(x, w)  b = GlobalAveragePool(a)  y = Flatten(b) }"""
X = np.random.default_rng(1).standard_normal((2, 2, 6, 6)).astype(np.float32)


def proto(scale: float = 1.0) -> onnx.ModelProto:
    text = TEXT.replace("<float[3,2,3,3] w>", "")
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 18]>\n{text}')
    weights = scale * np.random.default_rng(0).standard_normal((3, 2, 3, 3)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    return model


@pytest.fixture
def path(tmp_path: Path) -> Path:
    onnx.save(proto(), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def answer(model: cenote.Model) -> np.ndarray:
    """What a process is to compute; at the top of the module, where another finds it."""
    y: np.ndarray = model(X)
    return y


# ---- pickles --------------------------------------------------------------------------------------------------------


KINDS = {
    "bytes": Path.read_bytes,
    "bytearray": lambda path: bytearray(path.read_bytes()),
    "memoryview": lambda path: memoryview(path.read_bytes()),
    "message": lambda path: proto(),
}


@pytest.mark.parametrize("source", ["path", "plan", *KINDS])
def test_a_pickled_model_gives_the_same_bits(path: Path, source: str) -> None:
    model = cenote.load(path)
    want = model(X)
    if source == "plan":
        model.save(path.with_suffix(".cenote"))
        model = cenote.load(path.with_suffix(".cenote"), denormals="flush")
    elif source != "path":
        model = cenote.load(KINDS[source](path))
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again(X), want)
    assert again.denormals == model.denormals


@pytest.mark.parametrize("kind", ["bytearray", "message"])
def test_a_source_that_changes_after_the_load_changes_nothing(path: Path, kind: str) -> None:
    """Neither the plans for new sizes, nor values inside, nor a pickle."""
    source = bytearray(path.read_bytes()) if kind == "bytearray" else proto()
    model, other = cenote.load(source), cenote.load(path)
    if isinstance(source, bytearray):
        source[:] = proto(2.0).SerializeToString()
    else:
        source.CopyFrom(proto(2.0))
    for x in (X, X[:1], np.concatenate([X, X])[:, :, :5]):
        assert np.array_equal(model(x), other(x))
    assert np.array_equal(model.run({"x": X}, ["a"])["a"], other.run({"x": X}, ["a"])["a"])
    assert np.array_equal(pickle.loads(pickle.dumps(model))(X), other(X))


def test_a_pickle_holds_the_options(path: Path) -> None:
    shapes = {"x": ("n<=4", 2, "h<=8", "w<=8")}
    model = cenote.load(
        path, threads=1, precision="exact", weights="bfloat16", denormals="flush", shapes=shapes
    )
    again = pickle.loads(pickle.dumps(model))
    assert (again.threads, again.precision, again.denormals) == (1, "exact", "flush")
    with pytest.raises(cenote.ShapeError, match="at most 8"):
        again(np.zeros((1, 2, 9, 8), np.float32))
    assert again._shared.options.weights == "bfloat16"


def test_a_pickle_names_its_file_wherever_it_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    content = pickle.dumps(cenote.load("m.onnx"))
    monkeypatch.chdir("/")
    assert np.array_equal(pickle.loads(content)(X), cenote.load(path)(X))


def test_a_model_finds_its_file_from_another_folder(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    model = cenote.load("m.onnx")
    wanted = model(X)
    monkeypatch.chdir("/")
    (inner,) = model.run({"x": X}, outputs=[model.outputs[0].name]).values()
    assert np.array_equal(inner, wanted)
    assert np.array_equal(model.changed(threads=1)(X), wanted)


def test_a_pickle_whose_file_has_changed_is_refused(path: Path) -> None:
    content = pickle.dumps(cenote.load(path))
    onnx.save(proto(2.0), path)
    with pytest.raises(ModelError, match=r"has changed since the model was pickled"):
        pickle.loads(content)
    path.unlink()
    with pytest.raises(cenote.MissingFileError):
        pickle.loads(content)


def test_a_model_from_an_open_file_cannot_be_pickled() -> None:
    model = cenote.load(io.BytesIO(proto().SerializeToString()))
    with pytest.raises(TypeError, match=r"cannot be pickled: it was read from an open file"):
        pickle.dumps(model)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_compute_what_this_one_does(path: Path, method: str) -> None:
    model = cenote.load(path)
    want = model(X)
    with ProcessPoolExecutor(1, multiprocessing.get_context(method)) as pool:
        assert np.array_equal(pool.submit(answer, model).result(60), want)
    assert np.array_equal(model(X), want)


# ---- await ----------------------------------------------------------------------------------------------------------


def test_runs_are_awaited_side_by_side(path: Path) -> None:
    model = cenote.load(path, threads=1)

    async def several() -> Sequence[dict[str, np.ndarray]]:
        return await asyncio.gather(*(model.async_run({"x": scale * X}) for scale in (1, 2, 3)))

    for scale, got in zip((1, 2, 3), asyncio.run(several()), strict=True):
        assert np.array_equal(got["y"], model(scale * X))


def test_calls_in_threads_of_an_event_loop_are_right(path: Path) -> None:
    """More callers than cores, each with pictures of its own, and sizes that take turns."""
    model = cenote.load(path, threads=1)
    pictures = [np.ascontiguousarray(scale * X[:, :, : 6 - scale % 2]) for scale in range(1, 9)]
    wanted = [model(x) for x in pictures]

    async def one(x: np.ndarray) -> list[np.ndarray]:
        return [await asyncio.to_thread(model, x) for _ in range(25)]

    async def every() -> Sequence[list[np.ndarray]]:
        return await asyncio.gather(*map(one, pictures))

    for want, answers in zip(wanted, asyncio.run(every()), strict=True):
        assert all(np.array_equal(want, each) for each in answers)


def test_an_awaited_run_raises_what_a_run_does(path: Path) -> None:
    with pytest.raises(InputError, match="'z' is no input"):
        asyncio.run(cenote.load(path).async_run({"z": X}))


def test_an_awaited_run_takes_names_of_values(path: Path) -> None:
    got = asyncio.run(cenote.load(path).async_run({"x": X}, ["a"]))
    assert got["a"].shape == (2, 3, 6, 6)


# ---- closing --------------------------------------------------------------------------------------------------------


def test_a_closed_model_runs_no_more_and_holds_nothing(path: Path) -> None:
    with cenote.load(path) as model:
        model(X)
        held = weakref.ref(model.plan.program)
        arena = weakref.ref(model._shared.workplaces)
    calls: list[Callable[[], Any]] = [
        lambda: model(X),
        lambda: model.run({"x": X}),
        lambda: model.run({"x": X}, ["a"]),
        lambda: list(model.map([X])),
        lambda: model.plan_for({"x": X.shape}),
        lambda: model.save(path.with_suffix(".cenote")),
        lambda: model.profile(X),
        lambda: model.diagnose(X),
    ]
    for call in calls:
        with pytest.raises(InputError, match="the model is closed"):
            call()
    with pytest.raises(TypeError, match="cannot be pickled: it is closed"):
        pickle.dumps(model)
    gc.collect()
    assert held() is None
    assert arena() is None
    model.close()
    assert "threads=" in repr(model)


def test_a_model_is_closed_where_its_block_ends_by_an_error(path: Path) -> None:
    with pytest.raises(ZeroDivisionError), cenote.load(path) as model:
        1 / 0  # noqa: B018
    with pytest.raises(InputError, match="closed"):
        model(X)


def test_runs_that_are_under_way_outlive_closing(path: Path) -> None:
    model = cenote.load(path, threads=1)
    want, wrong = model(X), []

    def caller() -> None:
        try:
            while True:
                if not np.array_equal(model(X), want):
                    wrong.append("another answer")
        except InputError:
            pass

    threads = [threading.Thread(target=caller) for _ in range(4)]
    for thread in threads:
        thread.start()
    model.close()
    for thread in threads:
        thread.join(60)
    assert not wrong
    assert not any(thread.is_alive() for thread in threads)


# ---- many threads ---------------------------------------------------------------------------------------------------


def test_callers_of_a_model_of_one_thread_compute_at_the_same_time(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs wait for each other where they compute: each could only end if the other had begun."""
    model = cenote.load(path, threads=1)
    want = model(X)
    together, run = threading.Barrier(2, timeout=60), Instance.run

    def meeting(self: Instance, *arguments: Any) -> list[np.ndarray]:
        together.wait()
        return run(self, *arguments)

    monkeypatch.setattr(Instance, "run", meeting)
    results: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: results.append(model(X))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(results) == 2
    assert all(np.array_equal(result, want) for result in results)
