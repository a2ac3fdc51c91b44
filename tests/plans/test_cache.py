"""The cache of plans: a hit gives the same model, nothing stale or damaged is used, and it keeps to its size."""

from __future__ import annotations

import errno
import io
import json
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import external_data_helper

import cenote
from cenote.codegen import cache as object_cache
from cenote.codegen import jit
from cenote.plans import cache, fingerprint, later, writer
from cenote.plans.classes import StoredPlan
from cenote.runtime import pieces
from tests.plans.models import changed, picture, small_model


@pytest.fixture
def plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, turned on, that is written at once."""
    monkeypatch.setattr(later, "start_thread", lambda *given: False)
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CENOTE_PLAN_CACHE", "100")
    return tmp_path / "cache" / "plans"


def from_cache(model: cenote.Model) -> bool:
    return isinstance(model.plan, StoredPlan)


def test_the_second_load_is_a_hit_with_the_same_bits(tmp_path: Path, plans: Path) -> None:
    path = small_model(tmp_path / "m.onnx")
    first, second = cenote.load(path, threads=2), cenote.load(path, threads=2)
    assert not from_cache(first)
    assert from_cache(second)
    assert np.array_equal(first(picture()), second(picture()))
    assert second.threads == 2
    assert (first.inputs, first.outputs, first.metadata) == (second.inputs, second.outputs, second.metadata)
    assert str(first.plan) == str(cenote.load(path, threads=2).plan)
    assert second.plan.describe().threads == second.plan.program.threads
    with pytest.raises(cenote.InputError, match="the model takes"):
        second(picture(2))


def test_another_number_of_threads_has_a_plan_of_its_own(tmp_path: Path, plans: Path) -> None:
    path = small_model(tmp_path / "m.onnx")
    models = [cenote.load(path, threads=threads) for threads in (1, 2, 1, 2)]
    assert [from_cache(model) for model in models] == [False, False, True, True]
    assert len({model(picture()).tobytes() for model in models}) == 1


def test_name_and_date_do_not_matter_but_the_content_does(tmp_path: Path, plans: Path) -> None:
    path = small_model(tmp_path / "m.onnx")
    first = cenote.load(path)(picture())
    other = tmp_path / "other.onnx"
    other.write_bytes(path.read_bytes())
    assert from_cache(cenote.load(other))
    assert from_cache(cenote.load(path.read_bytes()))
    before = path.stat()
    changed(path, 2.0)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    model = cenote.load(path)
    assert not from_cache(model)
    assert not np.array_equal(model(picture()), first)


def test_folders_of_pairs_are_kept_by_the_content_of_their_files(
    tmp_path: Path, plans: Path, caplog: pytest.LogCaptureFixture
) -> None:
    x = np.arange(48, dtype=np.float32).reshape(1, 4, 4, 3)

    def run(folder: Path) -> tuple[bool, Any]:
        caplog.clear()
        with caplog.at_level("INFO", "cenote"):
            found = cenote.load(folder)(x)
        return "from the cache" in caplog.text, found

    for name in ("m", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "3_config.bat").write_text("CONV2D\n1\n3\n1\n1\nSAME\n1\n1\nNHWC\n")
        (tmp_path / name / "3_values.bat").write_text("1\n2\n3\n")
    missed, first = run(tmp_path / "m")
    hit, second = run(tmp_path / "other")
    assert (missed, hit) == (False, True)
    assert np.array_equal(first, second)
    np.testing.assert_allclose(first[..., 0], x @ [1, 2, 3])
    model = cenote.load(tmp_path / "m")
    sent = pickle.dumps(model)
    assert np.array_equal(pickle.loads(sent)(x), first)
    (tmp_path / "m" / "3_values.bat").write_text("1\n2\n4\n")
    hit, third = run(tmp_path / "m")
    assert not hit
    np.testing.assert_allclose(third[..., 0], x @ [1, 2, 4])
    with pytest.raises(cenote.ModelError, match="has changed since the model was pickled"):
        pickle.loads(sent)


def test_options_have_plans_of_their_own(
    tmp_path: Path, plans: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CENOTE_TARGET", raising=False)
    path = small_model(tmp_path / "m.onnx")
    cenote.load(path)
    for options in ({"precision": "exact"}, {"weights": "float16"}, {"tune": "off"}):
        assert not from_cache(cenote.load(path, **options))
        again = cenote.load(path, **options)
        assert from_cache(again)
        assert again.precision == options.get("precision", "fast")
    monkeypatch.setenv("CENOTE_TARGET", "generic")
    assert not from_cache(cenote.load(path))


def test_new_figures_of_a_layer_make_new_plans(tmp_path: Path, plans: Path) -> None:
    path = small_model(tmp_path / "m.onnx")
    for tune in ("cached", "off"):
        cenote.load(path, tune=tune)
    object_cache.write_text(object_cache.TUNED, "since then a layer was timed")
    assert not from_cache(cenote.load(path))
    assert from_cache(cenote.load(path, tune="off"))


def test_another_build_of_cenote_makes_new_plans(
    tmp_path: Path, plans: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = small_model(tmp_path / "m.onnx")
    cenote.load(path)
    monkeypatch.setattr(object_cache, "source_state", lambda: "another")
    assert not from_cache(cenote.load(path))


@pytest.mark.parametrize("where", [0, 20, 60, 300, 0.3, 0.99])
@pytest.mark.parametrize("cut", [True, False])
def test_a_damaged_plan_is_made_anew(tmp_path: Path, plans: Path, where: float, cut: bool) -> None:
    path = small_model(tmp_path / "m.onnx")
    expected = cenote.load(path)(picture())
    (kept,) = plans.iterdir()
    content = bytearray(kept.read_bytes())
    position = int(where * len(content)) if 0 < where < 1 else int(where)
    if cut:
        del content[position:]
    else:
        content[position] ^= 0xFF
    kept.unlink()  # its pages are in use
    kept.write_bytes(content)
    model = cenote.load(path)
    assert not from_cache(model)
    assert np.array_equal(model(picture()), expected)
    assert from_cache(cenote.load(path))


def test_shapes_are_cached_too(tmp_path: Path, plans: Path) -> None:
    path = small_model(tmp_path / "m.onnx", "n")
    first = cenote.load(path)
    expected = {batch: first(picture(batch)) for batch in (1, 3)}
    second = cenote.load(path)
    assert second.inputs == first.inputs
    assert [str(declared) for declared in second.inputs] == ["x: float32[n,3,8,8]"]
    assert np.array_equal(second(picture(1)), expected[1])
    assert from_cache(second)
    for batch in (3, 2, 7):
        assert np.array_equal(second(picture(batch)), first(picture(batch)))
        assert from_cache(second)
    assert len(list(plans.iterdir())) == 1, "the model, with what it prepared for one picture and for several"


def test_the_first_model_of_a_process_may_have_no_plan_yet(
    tmp_path: Path, plans: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing has asked for the driver, which is written down too."""
    monkeypatch.setattr(jit, "_addresses", {})
    monkeypatch.setattr(jit, "_objects", {})
    path = small_model(tmp_path / "m.onnx", batch="N")
    assert cenote.load(path, threads=1)(picture(3)).shape[0] == 3


def test_a_model_that_changed_meanwhile_is_not_mixed_with_the_old_one(tmp_path: Path, plans: Path) -> None:
    path = small_model(tmp_path / "m.onnx", "n", "h")
    cenote.load(path)(picture(1))
    model = cenote.load(path)
    changed(path, 2.0)
    model(picture(1))
    with pytest.raises(cenote.ModelError, match="changed since"):
        model(picture(1, 7))


def test_weights_beside_the_model_count(tmp_path: Path, plans: Path) -> None:
    path = small_model(tmp_path / "m.onnx")
    model = onnx.load(path)
    external_data_helper.convert_model_to_external_data(model, location="w.bin", size_threshold=0)
    onnx.save(model, path)
    first = cenote.load(path)(picture())
    assert from_cache(cenote.load(path))
    content = bytearray((tmp_path / "w.bin").read_bytes())
    content[2] ^= 0x40
    (tmp_path / "w.bin").write_bytes(content)
    model = cenote.load(path)
    assert not from_cache(model)
    assert not np.array_equal(model(picture()), first)
    assert from_cache(cenote.load(path))
    (tmp_path / "w.bin").unlink()
    with pytest.raises(cenote.ModelError, match="missing"):
        cenote.load(path)


def test_a_plan_from_the_cache_can_be_saved(tmp_path: Path, plans: Path) -> None:
    path = small_model(tmp_path / "m.onnx")
    expected = cenote.load(path)(picture())
    model = cenote.load(path)
    assert from_cache(model)
    model.save(tmp_path / "m.cenote")
    assert np.array_equal(cenote.load(tmp_path / "m.cenote")(picture()), expected)


def test_what_cannot_be_known_again_is_not_cached(tmp_path: Path, plans: Path) -> None:
    path = small_model(tmp_path / "m.onnx")
    cenote.load(onnx.load(path))
    cenote.load(io.BytesIO(path.read_bytes()))
    assert not plans.exists()


def test_plans_are_their_owners_alone(tmp_path: Path, plans: Path) -> None:
    path = small_model(tmp_path / "m.onnx")
    cenote.load(path)
    (kept,) = plans.iterdir()
    assert plans.stat().st_mode & 0o777 == 0o700
    assert kept.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("setting", [("CENOTE_PLAN_CACHE", "0"), ("CENOTE_CACHE", "off")])
def test_it_can_be_turned_off(
    tmp_path: Path, plans: Path, monkeypatch: pytest.MonkeyPatch, setting: tuple[str, str]
) -> None:
    monkeypatch.setenv(*setting)
    path = small_model(tmp_path / "m.onnx")
    cenote.load(path)
    assert not from_cache(cenote.load(path))
    assert not plans.exists() or not list(plans.iterdir())


def test_a_folder_that_others_can_write_to_is_not_used(tmp_path: Path, plans: Path) -> None:
    plans.mkdir(parents=True)
    plans.chmod(0o777)
    path = small_model(tmp_path / "m.onnx")
    cenote.load(path)
    assert not from_cache(cenote.load(path))


def test_the_least_recently_used_go_first(
    tmp_path: Path, plans: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [small_model(tmp_path / f"{n}.onnx") for n in range(3)]
    for n, path in enumerate(paths):
        changed(path, n + 1.0)
    cenote.load(paths[0])
    (oldest,) = plans.iterdir()
    nbytes = oldest.stat().st_size
    cenote.load(paths[1])
    for age, kept in enumerate(sorted(plans.iterdir(), key=lambda kept: kept == oldest)):
        os.utime(kept, (1000 - age, 1000 - age))
    assert from_cache(cenote.load(paths[0])), "used now: not the oldest any more"
    abandoned, fresh = plans / ".new-old", plans / ".new-fresh"
    for path in (abandoned, fresh):
        path.write_bytes(b"half a plan")
    os.utime(abandoned, (1000, 1000))
    monkeypatch.setenv("CENOTE_PLAN_CACHE", "1")
    monkeypatch.setattr(cache, "_MEGABYTE", int(2.5 * nbytes))
    cenote.load(paths[2])
    assert len([kept for kept in plans.iterdir() if kept.suffix == ".cenote"]) == 2
    assert fresh.exists()
    assert not abandoned.exists()
    assert [from_cache(cenote.load(paths[n])) for n in (0, 2, 1)] == [True, True, False]


def test_a_plan_larger_than_the_cache_is_not_kept(
    tmp_path: Path, plans: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_MEGABYTE", 10)
    cenote.load(small_model(tmp_path / "m.onnx"))
    assert not list(plans.iterdir())


def test_a_full_disk_is_told_once(tmp_path: Path, plans: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any, **named: Any) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(writer, "write", full)
    path = small_model(tmp_path / "m.onnx")
    with pytest.warns(RuntimeWarning, match="is full"):
        model = cenote.load(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = cenote.load(path)
    assert np.array_equal(model(picture()), again(picture()))


def test_a_read_only_cache_is_used_but_not_written(
    tmp_path: Path, plans: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*given: Any, **named: Any) -> None:
        raise PermissionError(errno.EROFS, "read-only file system")

    path = small_model(tmp_path / "m.onnx")
    cenote.load(path)
    for function in ("utime", "unlink"):
        monkeypatch.setattr(os, function, refused)
    monkeypatch.setattr(writer, "write", refused)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert from_cache(cenote.load(path))
        changed(path, 2.0)
        assert not from_cache(cenote.load(path))


def test_processes_may_fill_it_at_once(tmp_path: Path, plans: Path) -> None:
    path = small_model(tmp_path / "m.onnx")
    code = (
        f"import sys, cenote, numpy as np; model = cenote.load({str(path)!r}, threads=1)\n"
        "print(model(np.ones((1, 3, 8, 8), np.float32)).tobytes().hex())"
    )
    workers = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    assert len({worker.communicate(timeout=120)[0] for worker in workers}) == 1
    assert [worker.returncode for worker in workers] == [0, 0, 0]
    assert [kept.suffix for kept in plans.iterdir()] == [".cenote"]
    assert from_cache(cenote.load(path, threads=1))


def test_a_warm_start_imports_nothing_that_compiles(tmp_path: Path, plans: Path) -> None:
    """What a process with a plan at hand imports is what it pays for, in time and in memory."""
    path = tmp_path / "m.onnx"
    model = onnx.load(small_model(path))
    del model.graph.node[2]  # a host step, which needs its operator
    model.graph.node[2].input[0] = "p"
    onnx.save(model, path)
    code = (
        f"import json, sys, cenote, numpy as np; model = cenote.load({str(path)!r}, threads=2)\n"
        "model(np.ones((1, 3, 8, 8), np.float32)); before = list(sys.modules)\n"
        "print(model.plan); print(json.dumps(before))"
    )
    cold, warm = (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(2)
    )
    assert "cenote.compiler.compile" in json.loads(cold.stdout.splitlines()[-1])
    modules = json.loads(warm.stdout.splitlines()[-1])
    parts = {".".join(name.split(".")[:2]) for name in modules if name.startswith("cenote.")}
    assert not parts & {
        f"cenote.{part}" for part in ("ops", "graph", "passes", "frontends", "compiler", "profile")
    }
    assert [name for name in modules if name.startswith("cenote.kernels.")] == ["cenote.kernels.driver"]
    heavy = {
        "cenote.codegen.code",
        "onnx",
        "llvmlite",
        "importlib.metadata",
        "numpy.random",
        "numpy.typing",
        "numpy.ma",
        "subprocess",
    }
    assert sorted(heavy & set(modules)) == []


@pytest.mark.parametrize("nbytes", [0, 1, 1000, 4096, 10_000])
def test_the_digest_is_of_the_content_however_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nbytes: int
) -> None:
    monkeypatch.setattr(fingerprint, "_CHUNK", 1000)
    monkeypatch.setattr(fingerprint, "_BLOCK", 300)
    content = np.random.default_rng(0).bytes(nbytes)
    path = tmp_path / "content"
    path.write_bytes(content)
    digest = fingerprint.of_file(path)
    assert digest == fingerprint.of_bytes(content)
    monkeypatch.setattr(pieces, "physical_cores", lambda: 3)
    assert digest == fingerprint.of_file(path)
    if content:
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        assert digest != fingerprint.of_file(path)
        assert digest != fingerprint.of_bytes(content + b"\0")
