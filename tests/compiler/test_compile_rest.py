"""Kernels that other sizes take are compiled after those for the sizes at hand, while these may run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import cenote
from cenote.codegen import jit
from cenote.kernels.driver import driver_abi
from cenote.plans import later

SEED = 3
DIRECT = {"conv": "direct"}  # it has kernels for few and for many columns
NARROW, WIDE = (np.random.default_rng(size).random((1, 16, 1, size), np.float32) for size in (3, 90))


def model_at(path: Path, seed: int) -> Path:
    """A pointwise convolution on rows of any width, which have kernels for few and for many columns."""
    weights = np.random.default_rng(seed).random((16, 16, 1, 1), np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"]),
            helper.make_node("Celu", ["c"], ["y"], alpha=1 + seed / 8),
        ],
        "rows",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, 1, "width"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def right(model: cenote.Model, x: np.ndarray[Any, Any]) -> bool:
    weights = np.random.default_rng(SEED).random((16, 16), np.float32)
    plain, alpha = np.einsum("mc,ncw->nmw", weights, x[:, :, 0]), 1 + SEED / 8
    wanted = np.maximum(plain, 0) + np.minimum(0, alpha * np.expm1(plain / alpha))
    return bool(np.allclose(model(x)[:, :, 0], wanted, rtol=1e-4, atol=1e-5))


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """Nothing is compiled yet, and nothing is compiled ahead: what would be is noted."""
    noted = list[list[str]]()
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CENOTE_PLAN_CACHE", "100")
    monkeypatch.setattr(jit, "_addresses", {})
    monkeypatch.setattr(jit, "_objects", {})
    monkeypatch.setattr(jit.worker, "start_early", lambda *given: None)
    monkeypatch.setattr(
        jit, "_begin", lambda sources, target: noted.append([each.symbol for each in sources])
    )
    return noted


def loaded() -> set[str]:
    return {symbol for symbol, _ in jit._addresses}


def test_other_sizes_compile_what_they_take_where_nothing_did_so_before(
    begun: list[list[str]], tmp_path: Path
) -> None:
    model = cenote.load(model_at(tmp_path / "rows.onnx", SEED), algorithms=DIRECT)
    assert right(model, WIDE)
    (ahead,) = begun
    assert ahead
    assert not loaded() & {*ahead}
    assert right(model, NARROW)
    assert loaded() >= {*ahead}
    assert right(model, WIDE)


def test_a_plan_that_is_kept_has_all_kernels(begun: list[list[str]], tmp_path: Path) -> None:
    path = model_at(tmp_path / "rows.onnx", SEED)
    assert right(cenote.load(path, algorithms=DIRECT), WIDE)
    later.finish()
    again = cenote.load(path, algorithms=DIRECT)
    count = len(jit._addresses)
    assert right(again, NARROW)
    assert len(jit._addresses) == count, "the plan brought them all"


def test_a_thread_compiles_them_while_others_run(
    begun: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "another"))
    monkeypatch.setattr(jit, "_addresses", {})
    monkeypatch.setattr(jit.worker, "start_early", lambda *given: None)
    driver_abi.cache_clear()  # as in a process that has loaded nothing
    go, sought, told = threading.Event(), jit._sought, list[bool]()

    def patient(sources: Any, *rest: Any) -> Any:
        if threading.current_thread().name == "cenote-compile-rest":
            told.append(go.wait(20))
        return sought(sources, *rest)

    waiting: Callable[..., Any] = patient
    monkeypatch.setattr(jit, "_sought", waiting)
    model = cenote.load(model_at(tmp_path / "rows.onnx", SEED), algorithms=DIRECT)
    assert right(model, WIDE)
    go.set()
    for thread in threading.enumerate():
        if thread.name == "cenote-compile-rest":
            thread.join(60)
    assert told
    assert all(told), "the first answer waited for the kernels of other sizes"
    assert right(model, NARROW)


def test_a_kernel_that_fails_there_is_told_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        symbol = "test_broken_ahead"

        def emit(self, target: object) -> Any:
            raise cenote.CodegenError("no such kernel")

    target = jit.host_target()
    assert jit.addresses([], target, [Broken()]) == {}
    with pytest.raises(cenote.CodegenError, match="no such kernel"):
        jit.addresses([Broken()], target)
