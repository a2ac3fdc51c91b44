"""The cache of object code: safe keys and permissions, harmless when damaged, unwritable, shared or of another CPU."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cenote.codegen import cache, jit
from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import I64
from cenote.core.target import Target


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    cache._usable.cache_clear()
    return tmp_path / "cache" / "objects"


@pytest.fixture
def target() -> Target:
    return jit.named_target("generic")


def test_round_trip_in_a_private_folder(folder: Path, target: Target) -> None:
    assert cache.read("k", target) is None
    cache.write("k", target, b"code")
    assert cache.read("k", target) == b"code"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in folder.iterdir()] == [cache.key("k", target)]


def test_keys_tell_kernels_targets_and_generators_apart(
    folder: Path, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [
        cache.key("other", target),
        cache.key("k", dataclasses.replace(target, cpu="znver9")),
        cache.key("k", dataclasses.replace(target, features="+avx9")),
        cache.key("k", dataclasses.replace(target, level2=1 << 20)),
    ]
    first = cache.key("k", target)
    assert len({first, *others}) == 5
    cache._world.cache_clear()
    monkeypatch.setattr(cache, "generator_digest", lambda: "another generator")
    assert cache.key("k", target) != first
    cache._world.cache_clear()


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "text"])
def test_a_damaged_file_is_not_used(folder: Path, target: Target, damage: str) -> None:
    cache.write("k", target, b"code" * 100)
    path = folder / cache.key("k", target)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes({"cut": content[:30], "flip": content, "empty": b"", "text": b"hello"}[damage])
    assert cache.read("k", target) is None
    cache.write("k", target, b"new")
    assert cache.read("k", target) == b"new"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_folder_is_harmless(folder: Path, target: Target) -> None:
    cache.write("k", target, b"code")
    folder.chmod(0o500)
    cache.write("other", target, b"code")
    assert cache.read("other", target) is None
    folder.chmod(0o700)


def test_a_folder_that_others_can_write_to_is_not_used(folder: Path, target: Target) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    cache._usable.cache_clear()
    cache.write("k", target, b"code")
    assert list(folder.iterdir()) == []
    assert cache.read("k", target) is None


def test_a_path_that_cannot_be_a_folder_is_harmless(
    tmp_path: Path, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", "off"):
        monkeypatch.setenv("CENOTE_CACHE", str(place))
        cache._usable.cache_clear()
        cache.write("k", target, b"code")
        assert cache.read("k", target) is None


def test_pruning_removes_what_is_old(folder: Path, target: Target) -> None:
    cache.write("old", target, b"1")
    cache.write("new", target, b"2")
    long_ago = time.time() - 100 * 86400
    os.utime(folder / cache.key("old", target), (long_ago, long_ago))
    assert cache.prune() == 1
    assert cache.read("new", target) == b"2"


def kernel(number: int, target: Target) -> Kernel:
    k = Kernel(f"test_cache_{number}", target, [Parameter("x", I64, pointer=True)])
    k.pointer("x").store(k.integer(number))
    return k


def test_processes_may_fill_it_at_once(folder: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "from cenote.codegen import jit\n"
        "from tests.codegen.test_cache import kernel\n"
        "target = jit.named_target('generic')\n"
        "jit.addresses([kernel(n, target) for n in range(4)], target)\n"
    )
    workers = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [worker.wait(timeout=120) for worker in workers] == [0, 0, 0]
    objects = [path for path in folder.iterdir() if "-" not in path.name]
    assert len(objects) == 4
    assert not any(path.name.startswith(".new") for path in folder.iterdir())
