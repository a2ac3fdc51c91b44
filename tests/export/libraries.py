"""Exported libraries as functions of this process: linked by the system's C compiler, called on memory between guard
pages."""

from __future__ import annotations

import ctypes
import mmap
import platform
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cenote
from cenote.codegen import jit
from cenote.core.target import plain_target

CC = shutil.which("cc") or shutil.which("gcc")
needs_cc = pytest.mark.skipif(
    CC is None or platform.machine() != "x86_64", reason="no C compiler (cc) on an x86-64 machine"
)
_libc = ctypes.CDLL(None, use_errno=True)


def as_on(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let models of this process be planned as exports of a level of x86-64 are: by its plain figures."""
    target = plain_target(level, "x86_64-unknown-linux-gnu")
    monkeypatch.setattr(jit, "host_target", lambda: target)


def guarded(nbytes: int, fill: int = 0xA5) -> np.ndarray:
    """Bytes of junk that end where a page begins that nobody may touch; another lies before them."""
    page = mmap.PAGESIZE
    body = -(-max(nbytes, 1) // page) * page
    memory = mmap.mmap(-1, body + 2 * page)
    whole = np.frombuffer(memory, np.uint8)
    start = whole.ctypes.data
    for guard in (start, start + page + body):
        assert _libc.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(page), 0) == 0
    part = whole[page + body - nbytes : page + body]
    part[...] = fill
    return part


def guarded_copy(array: np.ndarray) -> np.ndarray:
    """A copy of an array, between guard pages."""
    memory = guarded(array.nbytes)
    memory[...] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return memory


def linked(folder: Path, name: str, *more: str) -> Path:
    """The static library as a shared one that needs no other."""
    assert CC is not None
    path = folder / "linked.so"
    flags = ["-shared", "-nostdlib", "-Wl,--no-undefined", "-Wl,--whole-archive"]
    subprocess.run(
        [CC, *flags, str(folder / f"lib{name}.a"), "-Wl,--no-whole-archive", *more, "-o", str(path)],
        check=True,
    )
    return path


@dataclass
class Library:
    """An exported model of this process: `run` and `run_on` take arrays and return the outputs."""

    folder: Path
    name: str
    outputs: Sequence[tuple[tuple[int, ...], Any]]
    weights: bool = False
    prefix: str = ""
    native: Any = field(init=False)
    _weights: np.ndarray | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.prefix = self.prefix or self.name
        self.native = ctypes.CDLL(str(linked(self.folder, self.name)))
        if self.weights:
            content = np.fromfile(self.folder / f"{self.name}.bin", np.uint8)
            self._weights = guarded_copy(content)

    def workspace(self, threads: int = 0) -> np.ndarray:
        """A workspace that ends at a guard page, filled with what reads as NaN."""
        function = getattr(self.native, f"{self.prefix}_workspace" + "_on" * bool(threads))
        function.restype = ctypes.c_size_t
        return guarded(function(*([ctypes.c_size_t(threads)] if threads else [])), 0xFF)

    def run(self, *inputs: np.ndarray) -> list[np.ndarray]:
        return self._called(f"{self.prefix}_run", inputs, self.workspace())

    def run_on(self, parallel: Callable[..., None], threads: int, *inputs: np.ndarray) -> list[np.ndarray]:
        """Run with a function `parallel(piece, job, items, grain)` of Python."""
        size, pointer = ctypes.c_size_t, ctypes.c_void_p
        piece_type = ctypes.CFUNCTYPE(None, pointer, size, size, size)
        type_of = ctypes.CFUNCTYPE(None, pointer, pointer, pointer, size, size)
        called = type_of(lambda _, piece, job, items, grain: parallel(piece_type(piece), job, items, grain))
        return self._called(f"{self.prefix}_run_on", inputs, self.workspace(threads), called, None)

    def _called(
        self, function: str, inputs: Sequence[np.ndarray], workspace: np.ndarray, *rest: Any
    ) -> list[np.ndarray]:
        copies = [guarded_copy(x) for x in inputs]
        results = [
            guarded(int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize)
            for shape, dtype in self.outputs
        ]
        own = [self._weights] if self._weights is not None else []
        memory = [ctypes.c_void_p(each.ctypes.data) for each in (*copies, *results, *own, workspace)]
        status = getattr(self.native, function)(*memory, *rest)
        assert status == 0, f"status {status}"
        for copy, x in zip(copies, inputs, strict=True):
            assert copy.tobytes() == np.ascontiguousarray(x).tobytes(), "an input was written"
        return [
            result.view(dtype).reshape(shape)
            for result, (shape, dtype) in zip(results, self.outputs, strict=True)
        ]


def exported(source: Any, folder: Path, target: str, model: cenote.Model, **options: Any) -> Library:
    """The library of a model, whose last run gives the types of its outputs."""
    cenote.export_model(source, folder, target=target, name="net", **options)
    outputs = [(each.shape, each.dtype) for each in model.outputs]
    return Library(folder, "net", outputs, weights=(folder / "net.bin").exists())  # type: ignore[arg-type]


def noise(model: cenote.Model, shapes: Mapping[str, Sequence[int]] | None = None) -> list[np.ndarray]:
    """Random inputs of a model in order."""
    rng = np.random.default_rng(5)
    found = []
    for each in model.inputs:
        declared = [size if isinstance(size, int) else 1 for size in each.shape or ()]
        shape = tuple((shapes or {}).get(each.name, declared))
        values = rng.standard_normal(shape) * 2 if each.dtype.kind == "f" else rng.integers(0, 2, shape)
        found.append(values.astype(each.dtype))
    return found


def assert_same_bits(found: Sequence[np.ndarray], expected: Any) -> None:
    """Equal bits, or NaN at the same places."""
    expected = expected if isinstance(expected, tuple) else (expected,)
    for a, b in zip(found, expected, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        if b.dtype.kind == "f":
            np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
            a, b = np.nan_to_num(a, nan=0), np.nan_to_num(b, nan=0)
        assert a.tobytes() == b.tobytes()
