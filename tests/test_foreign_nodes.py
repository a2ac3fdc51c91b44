"""A model with three nodes from outside the package: a function, a class, a class with a kernel; whole lives of it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import cenote
from cenote.codegen import cache
from cenote.core.extensions import registry
from cenote.core.types import Array
from cenote.serving import Batcher
from tests.core.extensions.packages import written
from tests.shop_classes import SHRINK
from tests.shop_models import picture
from tests.wheel import ROOT

EXAMPLE = ROOT / "examples" / "extension" / "src"
SHAPES = ((1, 3, 40, 41), (2, 3, 5, 9), (1, 3, 130, 70))


def _model() -> bytes:
    """Relu, a function, Relu, a class, a sum, a kernel; of any size."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Center", ["a"], ["b"], "center", domain="example"),
        helper.make_node("Shrink", ["b"], ["c"], "class", domain="shop", by=0.125),
        helper.make_node("Add", ["c", "x"], ["d"]),
        helper.make_node("Shrink", ["d"], ["e"], "kernel", domain="example", by=0.25),
        helper.make_node("AveragePool", ["e"], ["y"], kernel_shape=[2, 2]),
    ]
    ends = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3, height, width])]
        for name, height, width in (("x", "h", "w"), ("y", None, None))
    ]
    opsets = [helper.make_opsetid(name, version) for name, version in (("", 17), ("example", 1), ("shop", 1))]
    graph = helper.make_graph(nodes, "foreign", *ends)
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def _shrunk(x: Array, by: float) -> Array:
    return np.sign(x) * np.maximum(np.abs(x) - by, 0)


def expected(x: Array) -> Array:
    """What the model makes, by NumPy in float64."""
    y = np.maximum(x.astype(np.float64), 0)
    y = _shrunk(_shrunk(y - y.mean((1, 2, 3), keepdims=True), 0.125) + x, 0.25)
    return np.lib.stride_tricks.sliding_window_view(y, (2, 2), (2, 3)).mean((4, 5))


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The model in a folder from which the operators' modules are imported, until the end of the test."""
    for name in ("_registered", "_installed", "_classes"):
        monkeypatch.setattr(registry, name, {})
    for name in [name for name in sys.modules if name.partition(".")[0] == "cenote_example"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(EXAMPLE)
    written(tmp_path, {"shop_shrink.py": SHRINK}, monkeypatch)
    for name in ("cenote_example", "shop_shrink"):
        __import__(name)
    (tmp_path / "foreign.onnx").write_bytes(_model())
    return tmp_path / "foreign.onnx"


def test_any_size_has_the_same_bits_on_one_thread_and_on_two(path: Path) -> None:
    one, two = (cenote.load(path, threads=threads) for threads in (1, 2))
    for shape in SHAPES:
        x = picture(*shape)
        y = one(x)
        np.testing.assert_allclose(y, expected(x), rtol=0, atol=1e-6)
        np.testing.assert_array_equal(two(x), y)
    for word in ("example.Center", "shop.shrink", "vectors"):
        assert word in str(one.plan)


def test_it_is_verified_and_profiled(path: Path) -> None:
    x = picture(*SHAPES[0])
    assert cenote.verify(path, inputs={"x": x}).ok
    steps = cenote.load(path, threads=1).profile({"x": x}, seconds=0.01).steps
    assert {"example.Center", "shop.shrink", "example.shrink"} <= {
        step.op.partition("(")[0] for step in steps
    }


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # of JAX, where another test imported it
def test_callers_share_it(path: Path) -> None:
    """Threads, a service that gathers calls, and a forked process."""
    model, answers = cenote.load(path, threads=2), {}
    pictures = [picture(*shape, seed=seed) for seed, shape in enumerate(SHAPES * 2)]

    def call(index: int) -> None:
        answers[index] = model(pictures[index])

    threads = [threading.Thread(target=call, args=(index,)) for index in range(len(pictures))]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for index, x in enumerate(pictures):
        np.testing.assert_array_equal(answers[index], model(x))
    batcher = Batcher(model, max_batch=2)
    try:
        served: Any = batcher.run({"x": pictures[0]})
        np.testing.assert_array_equal(next(iter(served.values())), answers[0])
    finally:
        batcher.close()
    child = os.fork()
    if not child:
        os._exit(0 if np.array_equal(model(pictures[0]), answers[0]) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


RUN = (
    "import cenote, numpy as np; np.save('y.npy', cenote.load('foreign.cenote', threads=1)(np.load('x.npy')))"
)


def test_a_plan_file_brings_them_or_says_what_is_missing(path: Path) -> None:
    x = picture(*SHAPES[0])
    model = cenote.load(path, threads=1)
    y = model(x)
    model.save(path.with_suffix(".cenote"))
    np.save(path.with_name("x.npy"), x)

    def run(*folders: Path) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "src", *folders)))}
        return subprocess.run(
            [sys.executable, "-P", "-c", RUN],
            cwd=path.parent, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip

    done = run(EXAMPLE, path.parent)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(path.with_name("y.npy")), y)
    # Not where the model lies beside the plan either, to compile it anew.
    model.save(path.with_suffix(".cenote"), str(path))
    last = run(EXAMPLE).stderr.strip().splitlines()[-1]
    assert "UnsupportedError: " in last
    assert "shop_shrink" in last


def test_a_process_without_llvmlite_has_no_version_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As cenote-runtime, when it is to compile a plan anew: it then says that it cannot."""

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(PathFinder, "find_spec", lambda name: None)
    monkeypatch.setattr(metadata, "version", missing)
    assert cache.llvm_version.__wrapped__() == ""
