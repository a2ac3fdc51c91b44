"""Operators of users in plan files, in the cache and in other processes."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cenote
from cenote.core.extensions import registry
from cenote.core.types import Array
from tests.shop_models import OPERATOR, between, picture

SHOP = """
import numpy as np
import cenote

@cenote.register("shop.Frobnicate")
def frobnicate(x, alpha=1.0):
    return np.tanh(x) * x.dtype.type(alpha)
"""
RUN = """
import sys
import numpy as np
import cenote
{before}
x = np.load("x.npy")
np.save("y.npy", cenote.load(sys.argv[1])(x))
"""


def frobnicate(x: Array, alpha: float = 1.0) -> Array:
    return np.tanh(x) * x.dtype.type(alpha)


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder at hand with a model, a picture and a module that registers its operator."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.onnx").write_bytes(between(alpha=2.0))
    (tmp_path / "shop_ops.py").write_text(SHOP)
    np.save(tmp_path / "x.npy", picture(1, 3, 8, 8))
    return tmp_path


def _run(folder: Path, model: str, before: str = "") -> tuple[int, str]:
    """The exit status and the last line of the errors of a process that runs a model."""
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(before=before), model],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, (done.stderr.strip().splitlines() or [""])[-1]


def test_registration_serves_all_loads() -> None:
    made = cenote.register(OPERATOR)(frobnicate)
    assert made is frobnicate
    x = picture(1, 3, 8, 8)
    wanted = cenote.load(between(alpha=2.0), operators={OPERATOR: frobnicate})(x)
    assert np.array_equal(cenote.load(between(alpha=2.0))(x), wanted)
    assert np.array_equal(
        cenote.load(between(alpha=2.0), operators={OPERATOR: lambda x, alpha: x})(x) > 0, wanted > 0
    )
    cenote.unregister(OPERATOR)
    with pytest.raises(cenote.UnsupportedError, match=OPERATOR):
        cenote.load(between(alpha=2.0))
    with pytest.raises(cenote.ArgumentError, match="not registered"):
        cenote.unregister(OPERATOR)


def test_a_name_is_registered_once() -> None:
    cenote.register(OPERATOR)(frobnicate)
    cenote.register(OPERATOR)(frobnicate)
    with pytest.raises(cenote.ArgumentError) as caught:
        cenote.register(OPERATOR)(lambda x, alpha: x)
    assert str(caught.value).count(__file__) == 2, "both places are named"
    with pytest.raises(cenote.ArgumentError, match="domain"):
        cenote.register("Frobnicate")


def test_equal_sources_with_other_closures_are_other_operators() -> None:
    """The cache and the plans of one process hold both."""

    def times(factor: Any) -> Any:
        return lambda x, alpha: x * x.dtype.type(factor)

    x = picture(1, 3, 8, 8)
    once, twice = (cenote.load(between(alpha=2.0), operators={OPERATOR: times(f)})(x) for f in (1, 2))
    assert np.array_equal(2 * once, twice)


def test_a_plan_file_imports_the_module_of_its_operator(folder: Path) -> None:
    status, error = _run(folder, "m.onnx", "import shop_ops")
    assert status == 0, error
    wanted = np.load(folder / "y.npy")
    save = "import shop_ops; m = cenote.load('m.onnx'); m.plan_for({'x': (1, 3, 8, 8)}); m.save('p.cenote')"
    assert _run(folder, "m.onnx", save)[0] == 0
    (folder / "y.npy").unlink()
    status, error = _run(folder, "p.cenote")
    assert status == 0, error
    assert np.array_equal(np.load(folder / "y.npy"), wanted)
    (folder / "shop_ops.py").rename(folder / "moved.py")
    status, error = _run(folder, "p.cenote")
    assert status == 1
    assert "the plan needs the operator shop.Frobnicate" in error
    assert "import the module shop_ops" in error
    assert _run(folder, "p.cenote", "import moved")[0] == 1, "a function of another module is another"


def test_an_operator_that_changed_since_the_plan_was_made_is_refused(folder: Path) -> None:
    save = "import shop_ops; m = cenote.load('m.onnx'); m.plan_for({'x': (1, 3, 8, 8)}); m.save('p.cenote')"
    assert _run(folder, "m.onnx", save)[0] == 0
    (folder / "shop_ops.py").write_text(SHOP.replace("np.tanh(x)", "np.sinh(x)"))
    status, error = _run(folder, "p.cenote")
    assert status == 1
    assert "operator shop.Frobnicate has changed since the plan was made" in error
    assert "shop_ops.py" in error


def test_a_plan_of_the_cache_is_not_used_for_a_changed_operator(folder: Path) -> None:
    assert _run(folder, "m.onnx", "import shop_ops")[0] == 0
    first = np.load(folder / "y.npy")
    (folder / "shop_ops.py").write_text(SHOP.replace("np.tanh(x)", "np.tanh(x * 0)"))
    assert _run(folder, "m.onnx", "import shop_ops")[0] == 0
    assert first.any()
    assert not np.load(folder / "y.npy").any()


def test_a_function_that_cannot_be_told_is_not_saved(tmp_path: Path) -> None:
    lock = threading.Lock()

    def locked(x: Array, alpha: float) -> Array:
        with lock:
            return x

    model = cenote.load(between(alpha=2.0), operators={OPERATOR: locked})
    model(picture(1, 3, 8, 8))
    with pytest.raises(cenote.UnsupportedError, match=r"'lock' of .*locked is a lock"):
        model.save(tmp_path / "p.cenote")
    assert not (tmp_path / "p.cenote").exists()


def test_threads_and_pickles(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(between(alpha=2.0))
    model = cenote.load(path, operators={OPERATOR: frobnicate}, threads=1)
    x = picture(1, 3, 8, 8)
    wanted = model(x)
    found: list[Array] = []
    threads = [threading.Thread(target=lambda: found.extend(model(x) for _ in range(20))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 80
    assert all(np.array_equal(y, wanted) for y in found)
    assert np.array_equal(pickle.loads(pickle.dumps(model))(x), wanted)
