"""Damage to plan files is found, whatever its place and the file's size, and costs little to look for."""

from __future__ import annotations

import errno
import mmap
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import cenote
from cenote.plans import fingerprint, later, reader
from cenote.plans.format import MAGIC, PAGE
from cenote.plans.reader import is_plan_at
from cenote.plans.source import Source
from cenote.runtime import pieces

X = np.ones((1, 512), np.float32)


def large_model(path: Path, rows: int = 512, columns: int = 1500) -> Path:
    """One Gemm with 3 MB of weights."""
    weights = np.random.default_rng(0).standard_normal((rows, columns)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w"], ["y"])], "large",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, rows])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, columns])],
        [numpy_helper.from_array(weights, "w")],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The plan file of a model with more weights than are looked at in every load; a cache of its own."""
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "m.cenote"
    cenote.load(large_model(tmp_path / "m.onnx"), threads=1).save(path)
    assert path.stat().st_size > 2 * fingerprint._SMALL * fingerprint.CHUNK
    return path


def flip(path: Path, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))


def settle(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the file had been written some time ago."""
    monkeypatch.setattr(fingerprint, "_SETTLED", -1 << 62)


def test_a_flipped_bit_anywhere_is_found(plan: Path) -> None:
    expected, size, rng = cenote.load(plan, threads=1)(X), plan.stat().st_size, np.random.default_rng(7)
    found = 0
    for bit in [int(rng.integers(8 * size)) for _ in range(150)] + [
        int(rng.integers(8 * 9000)) for _ in range(50)
    ]:
        flip(plan, bit)
        try:
            assert np.array_equal(cenote.load(plan, threads=1)(X), expected), f"bit {bit} answered wrongly"
        except (cenote.ModelError, cenote.UnsupportedError):
            found += 1
        flip(plan, bit)
    assert found > 150, "padding alone is harmless"
    assert np.array_equal(cenote.load(plan, threads=1)(X), expected)


def test_a_file_that_was_found_sound_is_not_read_whole_again(
    plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums = list[int]()
    monkeypatch.setattr(
        fingerprint.zlib, "crc32", lambda data, start=0: sums.append(len(data)) or crc(data, start)
    )
    monkeypatch.setattr(fingerprint, "_known", set())
    cenote.load(plan, threads=1)
    cenote.load(plan, threads=1)
    assert len(sums) > 20, "just written: it could change again with the same date"
    settle(plan, monkeypatch)
    whole = len(sums) // 2
    for expected in (whole, 0):
        sums.clear()
        cenote.load(plan, threads=1)
        assert len(sums) == expected
    monkeypatch.setattr(fingerprint, "_known", set())  # as another process
    sums.clear()
    cenote.load(plan, threads=1)
    assert not sums


crc = fingerprint.zlib.crc32


def test_the_verdict_ends_with_the_file_it_was_about(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle(plan, monkeypatch)
    cenote.load(plan, threads=1)
    before = plan.stat()
    time.sleep(0.05)  # the clock of dates ticks every 1 to 10 ms
    flip(plan, 8 * (before.st_size - 20_000))
    os.utime(plan, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(cenote.ModelError, match="weights in the plan file are damaged"):
        cenote.load(plan, threads=1)


def test_a_start_of_the_machine_ends_it_too(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle(plan, monkeypatch)
    cenote.load(plan, threads=1)
    state = plan.stat()
    assert fingerprint._is_known(state)
    monkeypatch.setattr(fingerprint, "_boot", lambda: "another")
    assert not fingerprint._is_known(state)


@pytest.mark.parametrize("sizes", [[0], [1], [5, 0, 7], [1 << 18], [1 << 18, 1], [300_000, 1, 600_000]])
def test_checksums_do_not_depend_on_pieces(sizes: list[int]) -> None:
    pieces = [np.random.default_rng(n).bytes(size) for n, size in enumerate(sizes)]
    sums = fingerprint.checksums(map(memoryview, pieces))
    assert sums == fingerprint.checksums([memoryview(b"".join(pieces))])
    assert len(sums) == 4 * -(-sum(sizes) // fingerprint.CHUNK)


def test_a_file_that_cannot_be_mapped_now_is_not_called_damaged(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*given: Any, **named: Any) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    with monkeypatch.context() as patch:
        patch.setattr(reader.mmap, "mmap", refused)
        with pytest.raises(cenote.CapacityError, match="Cannot allocate"):
            cenote.load(plan)
    monkeypatch.setenv("CENOTE_PLAN_CACHE", "100")
    source = tmp_path / "m.onnx"
    cenote.load(source, threads=1)
    later.finish()
    (kept,) = (tmp_path / "cache" / "plans").iterdir()
    before = kept.stat().st_ino
    monkeypatch.setattr(reader, "_mapped", refused)
    monkeypatch.setattr("cenote.plans.writer.write", refused)
    cenote.load(source, threads=1)
    assert kept.stat().st_ino == before, "the good plan is still there"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: Path(path).symlink_to(path)])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "x.cenote"
    make(path)
    code = f"import cenote\ntry: cenote.load({str(path)!r})\nexcept cenote.ModelError: print('refused')"
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert result.stdout.strip() == "refused"


def test_a_model_that_is_a_pipe_has_no_place_in_the_cache(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m.onnx")
    assert not is_plan_at(tmp_path / "m.onnx")
    assert Source.of(tmp_path / "m.onnx") is None


def test_layout_of_the_file(plan: Path) -> None:
    """Constants begin at a page, so that they can be mapped, and nothing follows them."""
    with plan.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        assert content[: len(MAGIC)] == MAGIC
        header, _ = reader.header_of(content)
        assert (len(content) - header["constant_bytes"]) % PAGE == 0


@pytest.mark.parametrize("started", [0, 1])
def test_threads_that_cannot_start_or_never_live_fail_no_digest(
    started: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = bytes(range(256)) * (1 << 14)
    wanted = fingerprint.of_bytes(content)

    def start(function: Callable[..., object], arguments: tuple[object, ...]) -> bool:
        nonlocal started
        started -= 1
        return started >= 0  # the thread is said to run, but has died before its first line

    monkeypatch.setattr(pieces, "start_thread", start)
    monkeypatch.setattr(pieces, "physical_cores", lambda: 4)
    assert fingerprint.of_bytes(content) == wanted
