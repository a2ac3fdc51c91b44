"""The cache of object code: safe keys and permissions, harmless when damaged, unwritable, shared or of another CPU."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import cenote
from cenote.codegen import cache, jit
from cenote.core.target import Target
from tests.codegen.kernels import kernel


@pytest.fixture
def target() -> Target:
    return jit.named_target("generic")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: Target) -> Path:
    """Where an empty cache keeps its files; what every process puts there is known already."""
    cache.key("", target)
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "objects"


def test_round_trip_in_a_private_folder(folder: Path, target: Target) -> None:
    assert cache.read("k", target) is None
    cache.write("k", target, b"code")
    assert cache.read("k", target) == b"code"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in folder.iterdir()] == [cache.key("k", target)]


def test_code_of_changed_source_files_is_not_stored(
    folder: Path, target: Target, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An update of the package while a process runs: modules that it imports later are newer than its keys."""
    writer = cache.KernelWriter(target)
    writer.add("old", b"code")
    writer.finish()
    with monkeypatch.context() as context, caplog.at_level("INFO", cache.__name__):
        context.setattr(cache, "_STATE", "the state of the files before")
        writer.add("new", b"code")
        writer.finish()
    writer.add("later", b"code")
    writer.finish()
    assert [cache.read(symbol, target) for symbol in ("old", "new", "later")] == [b"code", None, b"code"]
    assert "source files have changed" in caplog.text


def test_the_state_is_that_of_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache.is_source_unchanged()
    monkeypatch.setattr(cache, "_PACKAGE", tmp_path)
    assert not cache.is_source_unchanged()


def test_keys_tell_kernels_targets_and_generators_apart(
    folder: Path, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [
        cache.key("other", target),
        cache.key("k", dataclasses.replace(target, cpu="x86-64-v9")),
        cache.key("k", dataclasses.replace(target, features="+avx9")),
    ]
    first = cache.key("k", target)
    assert len({first, *others}) == 4
    assert cache.key("k", dataclasses.replace(target, l2_bytes=1 << 20)) == first, (
        "it serves every CPU of the level"
    )
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
    cache.write("k", target, b"code")
    assert list(folder.iterdir()) == []
    assert cache.read("k", target) is None


def test_a_path_that_cannot_be_a_folder_is_harmless(
    tmp_path: Path, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", "off"):
        monkeypatch.setenv("CENOTE_CACHE", str(place))
        cache.write("k", target, b"code")
        assert cache.read("k", target) is None


def test_a_sound_file_under_another_name_is_not_used(folder: Path, target: Target) -> None:
    cache.write("k", target, b"code")
    (folder / cache.key("k", target)).rename(folder / cache.key("other", target))
    assert cache.read("other", target) is None


def test_a_kernel_under_another_name_is_compiled_again(folder: Path, target: Target) -> None:
    names = [cache.key(f"test_cache_{number}", target) for number in (901, 902)]
    jit.addresses([kernel(901, target)], target)
    (folder / names[0]).rename(folder / names[1])
    assert jit.addresses([kernel(902, target)], target)


@pytest.mark.parametrize("kind", ["pipe", "folder", "link", "sparse", "another's"])
def test_what_is_no_file_of_ours_never_blocks(folder: Path, target: Target, kind: str) -> None:
    """In a process of its own, which must end."""
    cache.write("k", target, b"code")
    path = folder / cache.key("k", target)
    path.rename(folder / "aside")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(folder / "aside")
    elif kind == "sparse":
        with path.open("wb") as file:
            file.truncate(1 << 42)
    else:
        (folder / "aside").rename(path)
        path.chmod(0o666)
    code = (
        "from cenote.codegen import cache, jit; target = jit.named_target('generic')\n"
        "assert cache.read('k', target) is None; cache.write('k', target, b'new'); print(cache.read('k', target))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stdout.strip() == ("None" if kind == "folder" else "b'new'"), "replaced"


def test_folders_are_private_whatever_the_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: Target
) -> None:
    for umask in (0o000, 0o002, 0o777):
        base = tmp_path / f"{umask:o}" / "above" / "cache"
        monkeypatch.setenv("CENOTE_CACHE", str(base))
        before = os.umask(umask)
        try:
            cache.write("k", target, b"code")
        finally:
            os.umask(before)
        assert cache.read("k", target) == b"code"
        for made in (base.parent.parent, base.parent, base, base / "objects"):
            assert made.stat().st_mode & 0o777 == 0o700


def test_a_base_that_others_can_write_to_is_not_used(folder: Path, target: Target) -> None:
    cache.write("k", target, b"code")
    assert not cache.problem()
    for mode in (0o777, 0o775, 0o702):
        folder.parent.chmod(mode)
        assert cache.read("k", target) is None, "checked again, not remembered"
        assert "can be written to by other users" in cache.problem()
    folder.parent.chmod(0o1777)  # as /tmp: others can make files there, but not exchange ours
    assert cache.read("k", target) == b"code"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("which", ["objects", "file", "base"])
def test_what_belongs_to_another_user_is_not_used(folder: Path, target: Target, which: str) -> None:
    cache.write("k", target, b"code")
    assert cache.read("k", target) == b"code"
    path = {"objects": folder, "file": folder / cache.key("k", target), "base": folder.parent}[which]
    os.chown(path, 65534, 65534)
    assert cache.read("k", target) is None
    assert which == "file" or "belongs to another user" in cache.problem()


def test_an_exchanged_folder_is_noticed(folder: Path, target: Target) -> None:
    """What lies behind a link is not ours to trust, and a folder that is open stays the one that was checked."""
    cache.write("k", target, b"code")
    with cache.folder() as place:
        assert place is not None
        folder.rename(folder.with_name("aside"))
        folder.symlink_to(folder.with_name("aside"))
        assert place.read(cache.key("k", target), 1 << 20)
    assert cache.read("k", target) is None


def test_what_is_wrong_with_the_cache_is_told(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cenote.info().cache.problem == ""
    folder.parent.chmod(0o777)
    assert "can be written to by other users" in cenote.info().cache.problem
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "file"))
    assert "Not a directory" in cenote.info().cache.problem
    monkeypatch.setenv("CENOTE_CACHE", "off")
    assert cenote.info().cache.problem == ""


def test_a_full_or_read_only_disk_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *given, **named: False)
    assert cache.problem().endswith("cannot be written to")
    monkeypatch.setattr(os, "access", lambda *given, **named: True)
    monkeypatch.setattr(os, "fstatvfs", lambda handle: SimpleNamespace(f_bavail=0))
    assert "is full" in cache.problem()


def test_without_a_home_there_is_no_cache(monkeypatch: pytest.MonkeyPatch, target: Target) -> None:
    for variable in ("CENOTE_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(variable, raising=False)

    def nobody(*given: object) -> None:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr("pwd.getpwuid", nobody)
    cache.write("k", target, b"code")
    assert cache.read("k", target) is None
    assert cenote.info().cache.folder == ""


def test_the_generator_is_all_that_kernels_may_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*cache.GENERATOR, "ops"):
        (tmp_path / name / "sub" / "folder").mkdir(parents=True)
    monkeypatch.setattr(cache, "_PACKAGE", tmp_path)
    digests = [cache._generator_digest()]
    for name in (*cache.GENERATOR, "ops"):
        (tmp_path / name / "sub" / "folder" / "x.py").write_text("x = 1")
        digests.append(cache._generator_digest())
    (tmp_path / "kernels" / "sub" / "folder" / "x.py").rename(tmp_path / "kernels" / "sub" / "x.py")
    digests.append(cache._generator_digest())
    assert len(set(digests)) == len(cache.GENERATOR) + 2
    assert digests[-2] == digests[-3], "operators are no part of a kernel"


def test_pruning_removes_what_is_old(folder: Path, target: Target) -> None:
    cache.write("old", target, b"1")
    cache.write("new", target, b"2")
    long_ago = time.time() - 100 * 86400
    os.utime(folder / cache.key("old", target), (long_ago, long_ago))
    assert cache.prune() == 1
    assert cache.read("new", target) == b"2"
    os.utime(folder / cache.key("new", target), (long_ago, long_ago))
    assert cache.prune() == 0, "once a day"


def test_compiling_removes_what_is_old(folder: Path, target: Target) -> None:
    cache.write("old", target, b"1")
    long_ago = time.time() - 100 * 86400
    os.utime(folder / cache.key("old", target), (long_ago, long_ago))
    jit.addresses([kernel(77, target)], target)
    assert cache.read("old", target) is None


def test_processes_may_fill_it_at_once(folder: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "from cenote.codegen import jit\n"
        "from tests.codegen.kernels import kernel\n"
        "target = jit.named_target('generic')\n"
        "jit.addresses([kernel(n, target) for n in range(4)], target)\n"
    )
    workers = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [worker.wait(timeout=120) for worker in workers] == [0, 0, 0]
    objects = [path for path in folder.iterdir() if len(path.name) == 64]
    assert len(objects) == 8, "each under the key of its spec and that of its text"
    assert not any(path.name.startswith(".new") for path in folder.iterdir())


def test_another_version_takes_the_code_of_kernels_whose_text_has_not_changed(
    folder: Path, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cenote.codegen import llvm

    source = kernel(77, target)
    code = llvm.object_code(source)
    compiled: list[str] = []
    compile_now = llvm.optimized_module

    def counted(text: str, target: Target, place: str) -> Any:
        compiled.append(text)
        return compile_now(text, target, place)

    monkeypatch.setattr(llvm, "optimized_module", counted)
    assert llvm.object_code(source) == code
    assert not compiled
    name = cache.key_of_text(source.module(), target)
    (folder / name).write_bytes(b"damaged")
    assert llvm.object_code(source) == code
    assert len(compiled) == 1
    assert cache.key_of_text(source.module(), dataclasses.replace(target, features="+avx9")) != name
