"""Loading object code without LLVM: the same results as LLVM's linker, names for profilers, refusal of nonsense."""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

import numpy as np
import pytest

from cenote.codegen import jit, llvm, loader, worker
from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.math import exp
from cenote.codegen.values import F32
from cenote.core.errors import CapacityError, CodegenError
from cenote.core.target import Target
from tests.codegen.kernels import Broken
from tests.harness import KERNEL
from tests.targets import TARGETS

pytestmark = pytest.mark.skipif(not loader.can_load(), reason="the loader reads object files of Linux only")


def exponential(name: str, target: Target) -> Kernel:
    """A kernel with constants in memory (a table of coefficients), a copy by memcpy, and calls."""
    k = Kernel(name, target, [Parameter("x", F32, pointer=True), Parameter("y", F32, pointer=True)])
    k.declare("memcpy", "ptr (ptr, ptr, i64)")
    k.line(f"call ptr @memcpy(ptr {k.pointer('y').text}, ptr {k.pointer('x').text}, i64 64)")
    for i in k.range(k.begin, k.end):
        k.pointer("y").store(exp(k, k.pointer("x").load(i * 8, 8)), i * 8)
    return k


def call(address: int, items: int) -> np.ndarray:
    x, y = np.linspace(-3, 3, 16, dtype=np.float32), np.zeros(16, np.float32)
    words = (ctypes.c_int64 * 2)(x.ctypes.data, y.ctypes.data)
    KERNEL(address)(ctypes.addressof(words), 0, items, None)
    return y


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_the_same_results_as_by_llvms_linker(target: Target) -> None:
    symbol = f"test_loader_{target.name}"
    code = llvm.object_code(exponential(symbol, target))
    ours, theirs = loader.load({symbol: code})[symbol].address, llvm.link({symbol: code})[symbol]
    assert np.array_equal(call(ours, 2), call(theirs, 2))
    assert np.array_equal(call(ours, 0), np.linspace(-3, 3, 16, dtype=np.float32)), "memcpy of the C library"


def test_perf_learns_the_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CENOTE_PERF_MAP", "1")
    path = Path(f"/tmp/perf-{os.getpid()}.map")
    path.unlink(missing_ok=True)
    target = jit.named_target("generic")
    try:
        jit.addresses([exponential("test_perf_name", target)], target)
        lines = path.read_text().splitlines()
    finally:
        path.unlink(missing_ok=True)
    assert any(re.fullmatch(r"[0-9a-f]+ [0-9a-f]+ test_perf_name", line) for line in lines)
    assert any(line.endswith(" test_perf_name.body") for line in lines)


@pytest.mark.parametrize("kind", ["link", "hard link", "pipe"])
def test_the_map_for_perf_follows_no_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setenv("CENOTE_PERF_MAP", "1")
    monkeypatch.setattr(jit, "PERF_FOLDER", str(tmp_path))
    precious, path = tmp_path / "precious", tmp_path / f"perf-{os.getpid()}.map"
    precious.write_text("content")
    if kind == "link":
        path.symlink_to(precious)
    elif kind == "hard link":
        path.hardlink_to(precious)
    else:
        os.mkfifo(path)
    target = jit.named_target("generic")
    assert jit.addresses([exponential(f"test_perf_{kind[0]}", target)], target), "and goes on without"
    assert precious.read_text() == "content"


def test_object_code_with_any_byte_changed_is_placed_or_refused() -> None:
    code = llvm.object_code(exponential("test_bytes", jit.named_target("generic")))
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        changed = bytearray(code)
        for position in rng.integers(len(code), size=rng.integers(1, 4)):
            changed[position] = rng.integers(256)
        try:
            loader.load({"test_bytes": bytes(changed)})
        except (CodegenError, CapacityError):
            refused += 1
    assert refused


def test_no_room_for_kernels_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*given: object, **named: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    code = llvm.object_code(exponential("test_room", jit.named_target("generic")))
    monkeypatch.setattr(loader.mmap, "mmap", refused)
    with pytest.raises(CapacityError, match="Cannot allocate"):
        loader.load({"test_room": code})


def test_nonsense_is_refused() -> None:
    with pytest.raises(CodegenError, match="not an ELF object file for"):
        loader.load({"k": b"hello"})
    code = llvm.object_code(exponential("test_real", jit.named_target("generic")))
    with pytest.raises(CodegenError, match="does not define another"):
        loader.load({"another": code})
    with pytest.raises(CodegenError, match="C library does not have"):
        loader.outside(b"no_such_function_anywhere")


def test_workers_compile_what_the_caller_would(monkeypatch: pytest.MonkeyPatch) -> None:
    from cenote.kernels.driver import Driver
    from cenote.kernels.layout.memcpy import MemcpySpec

    target, made = jit.named_target("generic"), {}
    sources = [MemcpySpec(), Driver("cenote_run"), Driver("cenote_work")]
    assert worker.compile_in_processes(sources, target, made.__setitem__) == []
    assert made == {source.symbol: llvm.object_code(source.emit(target)) for source in sources}
    for useless in ("/bin/false", "/no/such/program"):  # ends at once, cannot be started
        monkeypatch.setattr(worker.sys, "executable", useless)
        left = worker.compile_in_processes(sources, target, made.__setitem__)
        assert left == sources, "no worker: all is left"


def test_a_kernel_that_llvm_refuses_is_an_error_also_from_a_worker() -> None:

    with pytest.raises(CodegenError, match="LLVM refuses a generated kernel"):
        jit.addresses([Broken()], jit.named_target("generic"))
