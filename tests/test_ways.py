"""The tables of docs/life_of_a_layer.md: which files a call of a pool and a load pass, followed call by call."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import cenote
from cenote import functional
from cenote.codegen import jit
from cenote.core.types import TensorType
from cenote.functional import callers
from cenote.functional.ways import way as ways
from cenote.kernels.builtin import Builtin
from cenote.ops.base import Lowering
from cenote.ops.pool import algorithms
from cenote.ops.pool.window import MaxPool
from cenote.plans import later
from tests import harness

PACKAGE = Path(cenote.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "life_of_a_layer.md"
COMMON = ("core", "codegen", "runtime")
SHARED = (
    *COMMON,
    "ops/base.py",
    "ops/traits.py",
    "ops/checks.py",
    "ops/runner.py",
    "kernels/driver/",
    *(
        f"kernels/{name}.py"
        for name in ("base", "builtin", "launch", "constants", "cost_model", "lanes", "row_lanes")
    ),
)
ROOMS = ("frontends", "passes", "graph")  # rows of the table of a load that are folders


def table(title: str) -> dict[str, str]:
    """The files of a section's table, in order, with the last cell of their row."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {title}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([\w/.]+)` \|(?:.*\|)? ?(.*?) ?\|$", section, re.MULTILINE)
    return {name.rstrip("/"): last for name, last in rows}


@contextmanager
def followed(note: Callable[[str, str, FrameType], None], left_out: tuple[str, ...]) -> Iterator[None]:
    """Calls `note(caller's file, callee's file, frame)` for each call; files left out are looked through."""
    stack: list[str] = []

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event not in ("call", "return") or not path.is_relative_to(PACKAGE):
            return
        file = path.relative_to(PACKAGE).as_posix()
        if file.startswith(left_out):
            return
        file = file.split("/")[0] if file.startswith(ROOMS) else file
        if event == "call":
            note(stack[-1] if stack else "", file, frame)
            stack.append(file)
        elif stack:
            stack.pop()

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(before)


def test_the_way_of_a_pool(prepared_anew: None) -> None:
    op = MaxPool((3, 3), (1, 1), ((1, 1), (1, 1)))
    x = np.zeros((1, 16, 56, 56), np.float32)
    functional.max_pool2d(x[:, :1], 3, 1, 1)  # its family is imported when it is first used
    types = [TensorType.known(x)]
    lowering = ways.way_of(op, types, op.infer(*types), 1)
    assert isinstance(lowering, Lowering)
    assert lowering.name == "small_window"
    (call,) = harness.calls_of(op, lowering, types)
    callers.forget()
    seen: set[str] = set()
    with followed(lambda _, file, frame: seen.add(file), SHARED):
        functional.max_pool2d(x, 3, 1, 1)
        call.spec.emit(jit.host_target())
    rivals = {f"kernels/pool/{each.name}.py" for each in algorithms.WINDOWS if each.name != "small_window"}
    rivals |= {"kernels/pool/horizontal.py"}  # what some of them share
    way = table("The way of a pool")
    assert seen - rivals == {*way}
    assert len(way) <= 12


def test_the_second_call_of_a_pool_is_short(prepared_anew: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a builtin; with one, a known call is its function's own line alone."""
    monkeypatch.setattr(Builtin, "is_possible", staticmethod(lambda: False))
    x = np.zeros((1, 16, 56, 56), np.float32)
    functional.max_pool2d(x, 3, 1, 1)
    seen: set[str] = set()
    with followed(lambda _, file, frame: seen.add(file), ()):
        functional.max_pool2d(x, 3, 1, 1)
    short = {"functional/callers.py", "functional/dispatch.py", "kernels/launch.py"}
    assert seen == {"functional/pool/max.py", *short}


def model_at(path: Path, seed: int) -> Path:
    """A convolution with an activation, in a file."""
    weights = np.random.default_rng(seed).standard_normal((4, 4, 3, 3)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Relu", ["c"], ["y"])],
        "way",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 9, 9])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [helper.make_tensor("w", TensorProto.FLOAT, weights.shape, weights.ravel())],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def way_of(path: Path, order: dict[str, int]) -> tuple[set[str], set[tuple[str, str, str]]]:
    """The files that a load passes, and calls that go up in the table."""
    seen: set[str] = set()
    upwards: set[tuple[str, str, str]] = set()

    def note(caller: str, file: str, frame: FrameType) -> None:
        seen.add(file)
        generated = frame.f_code.co_flags & inspect.CO_GENERATOR  # resumed by whom it was handed to
        if caller and not generated and order[file] < order[caller]:
            upwards.add((caller, file, frame.f_code.co_qualname))

    with followed(note, (*COMMON, "kernels", "ops")):
        cenote.load(path)
    return seen, upwards


def test_the_way_of_a_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CENOTE_PLAN_CACHE", "100")
    cenote.load(model_at(tmp_path / "other.onnx", 0))  # imports what compiles
    path = model_at(tmp_path / "way.onnx", 1)
    rows = table("The way of a load")
    order = {name: place for place, name in enumerate(rows)}
    seen, upwards = way_of(path, order)
    assert not upwards
    later.finish()
    another_thread = {"plans/writer.py", "compiler/report.py"}
    assert seen == {*rows} - {"plans/records.py", "plans/templates.py"} - another_thread
    seen, upwards = way_of(path, order)
    assert not upwards
    assert seen == {name for name, warm in rows.items() if warm == "yes"}
