"""Arrays of other libraries, odd memory, `out`, the cache of prepared calls, forks."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from cenote.core.errors import ArgumentError, CapacityError, InputError
from cenote.core.types import BFLOAT16
from cenote.functional import dispatch
from cenote.runtime.arrays import as_numpy
from tests.functional.inputs import noise


class OnlyDlpack:
    """An array that offers nothing but DLPack."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def test_layouts_of_memory() -> None:
    """A view gives what its copy gives, for one and two inputs, and comes back unchanged."""
    x = noise(3, 4, 9, 8)
    views = {
        "reversed": x[:, ::-1, ::-1, ::-1], "stepped": x[:, ::2, 1::2, ::3], "transposed": x.transpose(3, 2, 1, 0),
        "broadcast": np.broadcast_to(x[:, :1], x.shape), "fortran": np.asfortranarray(x), "swapped": x.astype(">f4"),
    }  # fmt: skip
    for label, view in views.items():
        dense = np.ascontiguousarray(view, np.float32)
        for function, args in ((F.max_pool2d, (2, 1)), (F.avg_pool2d, (2,)), (F.adaptive_avg_pool2d, (2,))):
            np.testing.assert_array_equal(function(view, *args), function(dense, *args), err_msg=label)
        y, where = F.max_pool2d(dense, 2, return_indices=True)
        reordered = np.asfortranarray(y), where[:, :, ::-1][:, :, ::-1].astype(">i8")
        size = dense.shape[2:]
        np.testing.assert_array_equal(
            F.max_unpool2d(*reordered, 2, output_size=size), F.max_unpool2d(y, where, 2, output_size=size)
        )


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(2, 3, 6, 5)
    want = torch.nn.functional.max_pool2d(x, 2, return_indices=True)
    got = F.max_pool2d(x, 2, return_indices=True)
    assert all(isinstance(y, torch.Tensor) for y in got)
    assert all(map(torch.equal, got, want))
    half = x.bfloat16()
    assert torch.equal(F.max_pool2d(half, 2), torch.nn.functional.max_pool2d(half, 2))
    kept = F.max_pool2d(x.to(memory_format=torch.channels_last), 2)
    assert kept.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(kept, want[0])
    out = torch.empty_like(want[0])
    assert F.max_pool2d(x, 2, out=out) is out
    assert torch.equal(out, want[0])
    boxes = torch.tensor([[0, 0.0, 0, 4, 4]])
    assert isinstance(F.roi_align(x, boxes, 2), torch.Tensor)
    with pytest.raises(InputError, match=r"max_pool2d: input asks for a gradient.*cenote\.torch"):
        F.max_pool2d(x.clone().requires_grad_(), 2)
    with torch.no_grad():
        assert torch.equal(F.max_pool2d(x.clone().requires_grad_(), 2), want[0])


def test_jax_arrays() -> None:
    jnp = pytest.importorskip("jax.numpy")
    x = jnp.arange(16.0).reshape(1, 1, 4, 4)
    y = F.max_pool2d(x, 2)
    assert type(y) is type(x)
    np.testing.assert_array_equal(np.asarray(y), [[[[5, 7], [13, 15]]]])
    assert F.avg_pool2d(x.astype(jnp.bfloat16), 2).dtype == jnp.bfloat16


def test_other_dlpack() -> None:
    x = noise(1, 2, 4, 4)
    y = F.max_pool2d(OnlyDlpack(x), 2)
    np.testing.assert_array_equal(y, F.max_pool2d(x, 2))


def test_what_is_no_array() -> None:
    masked = np.ma.masked_array(noise(4, 4), mask=np.eye(4))
    for wrong, word in (([[1.0, 2], [3, 4]], "list"), (None, "NoneType"), (masked, "mask"), ("x", "str")):
        with pytest.raises(InputError, match=rf"max_pool2d: input .*{word}"):
            F.max_pool2d(wrong, 2)
    for dtype in (np.complex64, np.uint32, object, "datetime64[s]"):
        with pytest.raises(TypeError, match="element type"):
            F.max_pool2d(np.zeros((4, 4), dtype), 2)
    with pytest.raises(TypeError, match="allowed"):
        F.lp_pool2d(np.zeros((4, 4), np.int32), 2, 2)


def test_more_memory_than_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused before anything as large as the result is made."""
    x = noise(1, 1, 4, 4)
    for call in (
        lambda: F.adaptive_avg_pool2d(x, 1 << 28),
        lambda: F.adaptive_max_pool2d(x, (4, 1 << 50), True),
    ):
        with pytest.raises(CapacityError, match=r"adaptive_\w+_pool2d: the result f32\[1,1,.* needs"):
            call()
    with pytest.raises(CapacityError, match=r"input of shape \[1, 1, 4194304, 4194304\] needs"):
        F.global_max_pool(np.broadcast_to(np.float32(0), (1, 1, 1 << 22, 1 << 22)))


def test_scalars_and_matrices_are_arrays() -> None:
    array, restore = as_numpy(np.float32(3))
    assert (array.shape, restore(array) is array) == ((), True)
    matrix = np.arange(4.0).reshape(2, 2).view(np.matrix)
    assert type(F.max_pool2d(matrix, 2)) is np.ndarray


def test_out_of_two_results() -> None:
    x = noise(1, 2, 4, 6)
    out = np.empty((1, 2, 2, 3), np.float32), np.empty((1, 2, 2, 3), np.int64)
    assert F.max_pool2d(x, 2, return_indices=True, out=out) is out
    for got, want in zip(out, F.max_pool2d(x, 2, return_indices=True), strict=True):
        np.testing.assert_array_equal(got, want)
    frozen = np.empty((1, 2, 2, 3), np.float32)
    frozen.flags.writeable = False
    with pytest.raises(ArgumentError, match="read-only"):
        F.max_pool2d(x, 2, out=frozen)
    with pytest.raises(ArgumentError, match="out"):
        F.max_pool2d(x, 2, out=[0.0])
    twice = np.empty((1, 2, 2, 3), np.int64)
    with pytest.raises(ArgumentError, match="overlaps"):
        F.max_pool2d(x.astype(np.int64), 2, return_indices=True, out=(twice, twice))


def test_calls_are_prepared_once(prepared_anew: None, monkeypatch: pytest.MonkeyPatch) -> None:
    x = noise(1, 2, 6, 6)
    for _ in range(3):
        F.max_pool2d(x, 2)
    assert len(dispatch._kept) == 1
    F.max_pool2d(x, (2, 2))
    F.max_pool2d(x.astype(np.float16), 2)
    F.max_pool2d(x[..., ::2], 2)
    assert len(dispatch._kept) == 4
    F.max_pool2d(x, np.int64(2))  # works, but shares its bytes with others: not kept
    assert len(dispatch._kept) == 4
    monkeypatch.setattr(dispatch, "MOST_KEPT", 4)
    F.max_pool2d(x, 3)
    assert len(dispatch._kept) == 1


def test_every_name_is_public() -> None:
    assert len(F.__all__) == len(set(F.__all__))
    for name in F.__all__:
        assert callable(getattr(F, name))
        assert getattr(F, name).__doc__
    assert np.dtype("bfloat16") == BFLOAT16


def test_type_checkers_see_the_same_names() -> None:
    folder = Path(F.__file__ or "").parent
    stub = ast.parse((folder / "__init__.pyi").read_text(encoding="utf-8"))
    seen = {node.name for node in stub.body if isinstance(node, ast.FunctionDef)}
    seen |= {
        name.name
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
        if name.asname
    }
    assert seen == {*F.__all__}
    assert not {path.stem for path in folder.iterdir()} & set(F.__all__), (
        "a file would be found in the function's place"
    )


FORK = """
import os, numpy as np, cenote.functional as F
x = np.random.default_rng(0).standard_normal((2, 3, 33, 31), np.float32)
want = F.max_pool2d(x, 3, 2, threads=2)
child = os.fork()
if child == 0:
    ok = (F.max_pool2d(x, 3, 2, threads=2) == want).all() and (F.avg_pool2d(x, 3, threads=3) > -9).all()
    os._exit(0 if ok else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(
    not hasattr(sys, "getandroidapilevel") and sys.platform == "win32", reason="no fork on Windows"
)
def test_after_fork() -> None:
    """Threads do not survive a fork: a child that pools makes its own."""
    assert (
        subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], timeout=120, check=False).returncode == 0
    )


def test_refused_memory_names_the_function_that_was_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions that run others, and those that make arrays before they run, name themselves as one operator does."""

    def refuse(*arguments: Any, **keywords: Any) -> Any:
        raise MemoryError("Unable to allocate")

    x, statistics = noise(2, 3, 4, 4), np.ones(3, np.float32)
    calls = {
        "batch_norm": ("normalization", lambda: F.batch_norm(x, statistics, statistics)),
        "layer_norm": ("normalization", lambda: F.layer_norm(x, [4], bias=np.ones(4, np.float32))),
        "gru": ("recurrent", lambda: F.gru(x[0], None, [])),
    }
    for name, (module, function) in calls.items():
        with monkeypatch.context() as patch:
            patch.setattr(importlib.import_module(f"cenote.functional.{module}"), "given_array", refuse)
            with pytest.raises(CapacityError, match=rf"^{name}: there is not enough"):
                function()
