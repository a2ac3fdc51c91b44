"""Where the system refuses memory, threads or locks, or NumPy more axes: our error, and the next run is right."""

from __future__ import annotations

import errno
import mmap
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import helper

import cenote
import cenote.functional as F
from cenote.core.errors import refusals
from tests.frontends.models import model, value
from tests.fuzz.networks import network, picture


def refuse(error: BaseException) -> Callable[..., Any]:
    def refused(*_: Any, **__: Any) -> Any:
        raise error

    return refused


@pytest.mark.parametrize(
    "error", [MemoryError("x"), OSError(errno.ENOMEM, "x"), RuntimeError("can't allocate lock")], ids=repr
)
def test_what_the_system_refuses_is_a_capacity_error(error: Exception) -> None:
    with pytest.raises(cenote.CapacityError, match="a plan"), refusals("a plan"):
        raise error


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOENT, "x"), RuntimeError("else"), cenote.InputError("x")], ids=repr
)
def test_other_errors_pass(error: Exception) -> None:
    with pytest.raises(type(error)) as seen, refusals("a plan"):
        raise error
    assert seen.value is error


@pytest.mark.parametrize(
    ("owner", "name", "error"),
    [
        (np, "zeros", MemoryError()),
        (mmap, "mmap", OSError(errno.ENOMEM, "no memory")),
        (threading, "RLock", RuntimeError("can't allocate lock")),
    ],
    ids=["memory", "mapping", "lock"],
)
def test_a_load_that_is_refused_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, error: Exception
) -> None:
    content = network(linear=3).SerializeToString()
    expected = cenote.load(content, threads=1)(picture())
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, refuse(error))
        with pytest.raises(cenote.CapacityError):
            cenote.load(content, threads=1)(picture())
    assert np.array_equal(cenote.load(content, threads=1)(picture()), expected)


def test_a_function_that_is_refused_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    x = picture()
    expected = F.median_pool(x, 9, padding=4)  # by its reference, prepared before
    with monkeypatch.context() as patch:
        patch.setattr(np, "empty", refuse(MemoryError()))
        patch.setattr(np, "sort", refuse(MemoryError()))
        patch.setattr(np, "median", refuse(MemoryError()))
        patch.setattr(np, "partition", refuse(MemoryError()))
        with pytest.raises(cenote.CapacityError, match="median_pool"):
            F.median_pool(x, 9, padding=4)
    assert np.array_equal(F.median_pool(x, 9, padding=4), expected)


def test_more_axes_than_numpy_broadcasts() -> None:
    wide = model([helper.make_node("Add", ["x", "x"], ["y"])], [value("x", (1,) * 43)], ["y"])
    with pytest.raises(cenote.ShapeError, match="32 axes"):
        cenote.load(wide)


def test_a_layout_that_is_an_array() -> None:
    with pytest.raises(cenote.ArgumentError, match="layout"):
        F.min_pool(picture(), 2, layout=np.array([2, 2]))  # type: ignore[arg-type]
    with pytest.raises(cenote.ArgumentError, match="layout"):
        F.max_pool2d(picture(), 2, layout=np.array(["NCHW", "x"]))  # type: ignore[arg-type]


def test_looking_for_a_plan_leaves_nothing_open(tmp_path: Any) -> None:
    from cenote.plans.reader import is_plan_at

    path = tmp_path / "x"
    path.write_bytes(b"no plan")
    before = len(os.listdir("/proc/self/fd"))
    assert not is_plan_at(path)
    assert len(os.listdir("/proc/self/fd")) == before
