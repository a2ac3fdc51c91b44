"""Kernels that came with the package: found, checked, never needed."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path

import pytest

from cenote.codegen import bundle, jit, llvm
from cenote.core.target import Target
from tests.codegen.kernels import kernel


@pytest.fixture
def target() -> Target:
    return jit.named_target("generic")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the package's kernels lie, as far as this test goes; nothing else is kept."""
    monkeypatch.setenv("CENOTE_CACHE", "off")
    monkeypatch.setattr(bundle, "PATH", tmp_path / "kernels.bundle")
    return tmp_path / "kernels.bundle"


def refuse(*given: object, **named: object) -> None:
    pytest.fail("it was compiled")


def test_what_was_written_is_read(path: Path, target: Target) -> None:
    objects = {bundle.key(f"k{i}", target): bytes([i]) * 1000 * i for i in range(20)}
    bundle.write(path, objects)
    assert [bundle.read(f"k{i}", target) for i in range(20)] == [bytes([i]) * 1000 * i for i in range(20)]
    assert bundle.read("k20", target) is None
    assert bundle.size() == (20, path.stat().st_size)


def test_a_kernel_of_the_package_is_not_compiled(
    path: Path, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = kernel(40_001, target)
    bundle.write(path, {bundle.key(source.symbol, target): llvm.object_code(source)})
    monkeypatch.setattr(jit, "_compile", refuse)
    assert jit.addresses([source], target)[source.symbol]


def test_it_serves_every_cpu_of_its_level_and_no_other(path: Path, target: Target) -> None:
    bundle.write(path, {bundle.key("k", target): b"code"})
    assert bundle.read("k", dataclasses.replace(target, l2_bytes=7 << 20)) == b"code"
    assert bundle.read("k", dataclasses.replace(target, cpu="x86-64-v9")) is None


def test_another_generator_does_not_see_it(
    path: Path, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle.write(path, {bundle.key("k", target): b"code"})
    monkeypatch.setattr(bundle, "generator_digest", lambda: "another")
    assert bundle.read("k", target) is None


@pytest.mark.parametrize("damage", ["flip", "cut", "cut to the index", "empty", "text", "swap"])
def test_what_is_damaged_is_compiled(
    path: Path, target: Target, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    source, other = kernel(40_100, target), kernel(40_101, target)
    names = [bundle.key(each.symbol, target) for each in (source, other)]
    bundle.write(
        path, {name: llvm.object_code(each) for name, each in zip(names, (source, other), strict=True)}
    )
    content = bytearray(path.read_bytes())
    at, _ = bundle._index.__wrapped__(path)[names[0]]
    flipped = bytearray(content)
    flipped[at + 40] ^= 1
    swapped = bytes(content).replace(names[0], b"-" * 32).replace(names[1], names[0])
    path.write_bytes(
        {"flip": flipped, "cut": content[: at + 10], "cut to the index": content[:30], "empty": b"",
         "text": b"hello " * 99, "swap": swapped}[damage]
    )  # fmt: skip
    bundle._index.cache_clear()
    with caplog.at_level(logging.WARNING, logger="cenote"):
        assert bundle.read(source.symbol, target) is None
        assert jit.addresses([source], target)[source.symbol]
    assert "is damaged" in caplog.text


def test_without_one_nothing_is_said(path: Path, target: Target, caplog: pytest.LogCaptureFixture) -> None:
    assert bundle.read("k", target) is None
    assert bundle.size() == (0, 0)
    assert caplog.text == ""


def test_what_would_unpack_to_more_than_any_kernel_is_damaged(
    path: Path, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "_LARGEST", 1000)
    bundle.write(path, {bundle.key("k", target): bytes(1001)})
    assert bundle.read("k", target) is None
