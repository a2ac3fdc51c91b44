"""`cenote warm` and `cenote cache`, and what the package says while it works."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import cenote
from tests.cli.conftest import Command


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache that keeps models too."""
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CENOTE_PLAN_CACHE", "100")
    return tmp_path / "cache"


def files(folder: Path) -> dict[str, int]:
    """Number of files of each kind, as `cenote cache` sees them."""
    kinds = [each.kind for each in cenote.cache_contents()]
    return {kind: kinds.count(kind) for kind in ("kernel", "model", "note")}


def filled(folder: Path) -> None:
    """Two kernels, a model and a note, used at different times."""
    for place, name, days in (
        ("objects", "a" * 64, 0), ("objects", "b" * 64, 40), ("objects", "tune-x.json", 0), ("plans", "c.cenote", 3)
    ):  # fmt: skip
        path = folder / place / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_bytes(b"0" * 3000)
        os.utime(path, (time.time() - days * 86400,) * 2)


def test_a_process_after_warm_needs_no_compiler(folder: Path, identity: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cenote", "warm", identity, "--shape", "x=1,3,8,8", "--json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["models"][0]["inputs"] == {"x": [1, 3, 8, 8]}
    assert found["models"][0]["kernels_compiled"] > 0
    code = (
        "import sys, numpy as np; sys.modules['llvmlite'] = sys.modules['onnx'] = None\n"
        "import cenote; x = np.ones((1, 3, 8, 8), np.float32)\n"
        f"print(cenote.load({str(identity)!r})(x).sum())"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "384.0"


def test_warm_runs_several_models(
    cenote_command: Command, folder: Path, identity: Path, scores: Path
) -> None:
    ended = cenote_command("warm", scores, identity, "--shape", "x=1,3")
    assert ended.code == 1
    assert "input 'x' has shape [1, 3]" in ended.err
    ended = cenote_command("warm", scores, scores, "--precision", "exact")
    assert ended.code == 0
    assert ended.out.count("kernels compiled") == 2
    assert files(folder)["model"] >= 1


@pytest.mark.parametrize(
    ("cache", "arguments", "code", "message"),
    [
        ("off", (), 1, "there is no cache to prepare: CENOTE_CACHE is off"),
        ("/dev/null/x", (), 1, "there is no cache to prepare"),
        ("", ("--shape", "z=1,2"), 2, "no model has an input 'z'"),
    ],
)
def test_warm_refuses(
    cenote_command: Command, folder: Path, scores: Path, monkeypatch: pytest.MonkeyPatch,
    cache: str, arguments: tuple[str, ...], code: int, message: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("CENOTE_CACHE", cache or str(folder))
    ended = cenote_command("warm", scores, *arguments)
    assert ended.code == code
    assert message in ended.err


def test_cache_lists(cenote_command: Command, folder: Path) -> None:
    filled(folder)
    text = cenote_command("cache").out
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in text.splitlines() if line.strip()}
    assert rows["kernels"] == "2 5.9 KiB 40 days ago to today"
    assert rows["models"] == "1 2.9 KiB 3 days ago"
    assert rows["notes"] == "1 2.9 KiB today"
    found = json.loads(cenote_command("cache", "--json").out)
    assert [(each["kind"], each["bytes"]) for each in found["files"]] == [
        ("kernel", 3000), ("kernel", 3000), ("model", 3000), ("note", 3000),
    ]  # fmt: skip
    assert found["files"][0]["used"] > found["files"][1]["used"]


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ((), {"kernel": 0, "model": 0, "note": 0}),
        (("--kernels",), {"kernel": 0, "model": 1, "note": 1}),
        (("--models",), {"kernel": 2, "model": 0, "note": 1}),
        (("--models", "--kernels"), {"kernel": 0, "model": 0, "note": 0}),
    ],
)
def test_cache_clears(
    cenote_command: Command, folder: Path, options: tuple[str, ...], left: dict[str, int]
) -> None:
    filled(folder)
    (folder / "objects" / ".new-1").write_bytes(b"being written")
    ended = cenote_command("cache", "clear", *options, "--json")
    assert json.loads(ended.out) == {"removed": 4 - sum(left.values())}
    assert files(folder) == left
    assert (folder / "objects" / ".new-1").exists()


def test_without_a_cache_there_is_nothing_to_list(
    cenote_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CENOTE_CACHE", "off")
    assert "the cache is off" in cenote_command("cache").out
    assert cenote_command("cache", "clear").out == "removed 0 files\n"
    monkeypatch.setenv("CENOTE_CACHE", "/dev/null/x")
    assert "not used: [Errno 20]" in cenote_command("cache").out


def test_an_unusable_cache_is_said_once(
    cenote_command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, scores: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "file"))
    err = " ".join(cenote_command("bench", scores, "--seconds", "0.01").err.split())
    assert err.count("warning: the cache is not used") == 1
    assert "Not a directory" in err


def test_verbose_says_what_is_done(cenote_command: Command, folder: Path, scores: Path) -> None:
    assert "not in the cache, prepared in" in cenote_command("-v", "bench", scores, "--seconds", "0.01").err
    assert f"{scores.name}: from the cache" in cenote_command("-v", "bench", scores, "--seconds", "0.01").err
    assert cenote_command("bench", scores, "--seconds", "0.01").err == ""


def test_compiles_are_logged(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    from cenote.codegen import jit
    from tests.codegen.kernels import kernel

    target = jit.named_target("generic")
    with caplog.at_level(logging.DEBUG, logger="cenote"):
        jit.addresses([kernel(50_001, target)], target)
    assert "0 found compiled, 1 to compile" in caplog.text
    assert "compiled test_cache_50001 in" in caplog.text
    assert "compiled 1 kernels for generic in" in caplog.text


def test_the_package_is_silent_by_default() -> None:
    """Not even the handler of last resort prints what a program did not ask for."""
    code = "import os; os.environ['CENOTE_CACHE'] = '/dev/null/x'; import cenote; cenote.info()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_what_numpy_computes_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    from tests.onnx_texts import parsed

    model = parsed("g (float[3,3] x) => (float y) { y = Det(x) }")
    with caplog.at_level(logging.DEBUG, logger="cenote"):
        cenote.load(model)
    assert "runs as NumPy" in caplog.text


def test_cached_models_are_listed_by_name_the_last_used_first(
    cenote_command: Command, folder: Path, identity: Path, scores: Path
) -> None:
    for days, path in enumerate((scores, identity)):
        cenote_command("warm", path, *(("--shape", "x=1,3,8,8") if path == identity else ()))
        for place in (folder / "plans").iterdir():
            if place.stat().st_mtime > time.time() - 3600:
                os.utime(place, (time.time() - (2 - days) * 86400,) * 2)
    for number in range(12):
        place = folder / "plans" / f"{number}.cenote"
        place.write_bytes(b"0")
        os.utime(place, (time.time() - 30 * 86400,) * 2)
    lines = cenote_command("cache").out.splitlines()
    rows = [" ".join(line.split()) for line in lines if line.startswith("  ") and line.strip()][1:]
    for row, path in zip(rows, (identity, scores), strict=False):
        assert row.startswith(f"{path.parent.name}/{path.name}")
    assert len(rows) == 11
    assert rows[-1].startswith("and 4 more")
    found = json.loads(cenote_command("cache", "--json").out)["files"]
    assert [each["model"] for each in found if each["kind"] == "model"][:2] == [str(identity), str(scores)]
