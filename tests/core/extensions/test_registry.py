"""Names of operators: taken twice, forgotten, of installed extensions; classes in plans, caches and other processes."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import cenote
from cenote.core.extensions import registry
from tests.core.extensions.packages import distribution
from tests.shop_classes import SHRINK
from tests.shop_models import between, convolved, picture

NAME = "shop.Shrink"
RUN = """
import sys
import numpy as np
import cenote
{before}
model = cenote.load(sys.argv[1], threads=1)
np.save("y.npy", model(np.load("x.npy")))
model.save("new.cenote")
print(*[name for name in ("shop_27",) if name in sys.modules])
"""


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_registered", "_installed", "_classes"):
        monkeypatch.setattr(registry, name, {})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder at hand with a model, a picture and a module that registers its operator."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CENOTE_PLAN_CACHE", "100")
    Path("m.onnx").write_bytes(between(kind="Shrink", by=0.25))
    Path("shop_27.py").write_text(SHRINK)
    np.save("x.npy", picture(1, 3, 8, 8))
    return tmp_path


def run(model: str, before: str = "") -> tuple[str, str]:
    """What a process that runs a model prints, and the last line of its errors. Its answer is checked."""
    Path("y.npy").unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(before=before), model], capture_output=True, text=True, check=False
    )
    if not done.returncode:
        wanted = np.maximum(convolved(np.load("x.npy")) - 0.25, 0)
        np.testing.assert_allclose(np.load("y.npy"), wanted, atol=1e-5)
    return done.stdout.strip(), done.stderr.strip().rpartition("\n")[2]


def defined(text: str = SHRINK, place: str = "shop_here.py") -> Any:
    """The class of a module with this text, as if it had been imported from there."""
    module = ModuleType(place.removesuffix(".py"))
    sys.modules[module.__name__] = module
    try:
        exec(compile(text, place, "exec"), vars(module))
    finally:
        del sys.modules[module.__name__]
    return module.Shrink


# ---- names ----------------------------------------------------------------------------------------------------------


def test_registered_classes_are_listed_replaced_and_forgotten() -> None:
    first = defined()
    assert cenote.registered_operators() == {NAME: first}
    second = defined()
    assert cenote.registered_operators() == {NAME: second}, "a module that is imported again"
    cenote.unregister(second)
    assert cenote.registered_operators() == {}
    with pytest.raises(cenote.ArgumentError, match="Shrink is not registered"):
        cenote.unregister(second)
    defined()
    cenote.unregister(NAME)
    with pytest.raises(cenote.ArgumentError, match=r"shop\.Shrink is not registered"):
        cenote.unregister(NAME)


def test_a_name_that_is_taken_is_refused_with_both_places() -> None:
    defined()
    with pytest.raises(
        cenote.ArgumentError, match=r"registered twice: Shrink \(shop_here.*Shrink \(shop_there"
    ):
        defined(place="shop_there.py")
    with pytest.raises(cenote.ArgumentError, match=r"registered twice: Shrink .*<lambda>"):
        cenote.register(NAME)(lambda x: x)
    with pytest.raises(cenote.ArgumentError, match=r"two classes have the name 'shop\.shrink'"):
        defined(SHRINK.replace('"shop.Shrink"', '"shop.Other"'), "shop_there.py")
    assert list(cenote.registered_operators()) == [NAME]


def test_a_function_and_a_class_are_registered_in_their_own_ways() -> None:
    with pytest.raises(cenote.ArgumentError, match=r'write "@cenote\.register"'):
        cenote.register(NAME)(defined())
    with pytest.raises(cenote.ArgumentError, match="a class says both itself"):
        cenote.register(defined(), pure=False)  # type: ignore[call-overload]


def test_a_class_may_stand_for_an_operator_of_cenote() -> None:
    text = SHRINK.replace('"shop.Shrink"', '"ai.onnx.Relu"').replace('node, "by"', "node")
    defined(text)
    x = picture(1, 3, 8, 8)
    model = cenote.load(between(kind="Shrink"), operators={NAME: lambda x: x})
    c = convolved(x)
    np.testing.assert_allclose(model(x), np.maximum(c - 0.5, 0) + np.minimum(c + 0.5, 0), atol=1e-5)


def test_a_class_can_be_given_to_a_load() -> None:
    made = defined()
    cenote.unregister(made)
    x = picture(1, 3, 8, 8)
    for name, kind in ((NAME, "Shrink"), ("shop.Frobnicate", "Frobnicate")):
        model = cenote.load(between(kind=kind, by=0.25), operators={name: made})
        np.testing.assert_allclose(model(x), np.maximum(convolved(x) - 0.25, 0), atol=1e-5)
    assert cenote.registered_operators() == {}


def test_inspection_knows_registered_operators() -> None:
    model = between(kind="Shrink", by=0.25)
    (problem,) = cenote.unsupported(model)
    assert "@cenote.register" in problem
    defined()
    assert cenote.unsupported(model) == []


# ---- plans, caches and processes ------------------------------------------------------------------------------------


def test_a_plan_file_imports_the_module_of_its_class(folder: Path) -> None:
    assert run("m.onnx", "import shop_27") == ("shop_27", "")
    Path("new.cenote").rename("p.cenote")
    assert run("p.cenote")[0].startswith("shop_27")
    Path("shop_27.py").rename("moved.txt")
    assert "needs the operator class Shrink of the module shop_27" in run("p.cenote")[1]
    Path("shop_27.py").write_text(SHRINK.replace("self.by, 0)", "self.by, 0.0)"))
    assert "class Shrink has changed since the plan was made (now Shrink (" in run("p.cenote")[1]
    Path("shop_27.py").write_text("open('ran', 'w')\n")
    assert "which this process does not know" in run("p.cenote")[1]
    assert not Path("ran").exists(), "a module that registers nothing is not run"


def test_a_class_without_source_runs_and_is_not_saved(folder: Path) -> None:
    model = cenote.load("m.onnx", operators={NAME: defined()})
    model(np.load("x.npy"))
    with pytest.raises(cenote.UnsupportedError, match="module shop_here has no source"):
        model.save("p.cenote")


def test_a_changed_class_is_not_answered_from_the_cache(folder: Path) -> None:
    assert run("m.onnx", "import shop_27")[1] == ""
    kept = sorted(os.listdir("cache/plans"))
    assert run("m.onnx", "import shop_27")[1] == ""
    assert sorted(os.listdir("cache/plans")) == kept
    Path("shop_27.py").write_text(SHRINK + "\n# changed\n")
    assert run("m.onnx", "import shop_27")[1] == ""
    assert len(os.listdir("cache/plans")) > len(kept)


def test_an_installed_extension_is_imported_when_a_name_is_not_known(folder: Path) -> None:
    assert "entry points cenote.operators" in run("m.onnx")[1]
    distribution(folder, "shop", {"shop": "shop_27"})
    for model in ("m.onnx", "m.onnx", "new.cenote"):  # compiled, from the cache, from a plan file
        assert run(model) == ("shop_27", "")
    kept = sorted(os.listdir("cache/plans"))
    Path("shop_27.py").write_text(SHRINK + "\n# changed\n")
    assert "has changed since the plan was made" in run("new.cenote")[1]
    assert run("m.onnx")[1] == "", "the cached plan is made anew"
    assert sorted(os.listdir("cache/plans")) == kept, "in the same place"
    Path("shop_27.py").write_text("raise OSError('no licence')\n")
    assert (
        "the extension shop (shop_27) of shop 1.0 cannot be imported (OSError: no licence)"
        in run("m.onnx")[1]
    )


def test_a_model_that_needs_none_imports_no_extension(folder: Path) -> None:
    distribution(folder, "shop", {"shop": "shop_27"})
    nodes = "import onnx; m = onnx.load('m.onnx'); n = m.graph.node[1]; n.op_type = 'Identity'; n.domain = ''"
    text = f"{nodes}; del n.attribute[:]; onnx.save(m, 'plain.onnx')"
    subprocess.run([sys.executable, "-c", text], check=True)
    again = "import cenote, sys; cenote.load('plain.onnx'); print('shop_27' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", again], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_models_are_pickled_and_survive_a_fork(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "shop_27", raising=False)
    import shop_27  # type: ignore[import-not-found]

    x = np.load("x.npy")
    model = cenote.load("m.onnx", operators={NAME: shop_27.Shrink}, threads=2)
    wanted = model(x)
    Path("model.pickle").write_bytes(pickle.dumps(model))
    text = "import pickle, numpy as np; m = pickle.load(open('model.pickle', 'rb'))"
    text += "; np.save('y.npy', m(np.load('x.npy')))"
    subprocess.run([sys.executable, "-c", text], check=True)
    assert np.array_equal(np.load("y.npy"), wanted)
    child = os.fork()
    if not child:
        os._exit(0 if np.array_equal(model(x), wanted) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert np.array_equal(cenote.load("m.onnx", threads=1)(x), wanted), "the same bits on one thread"
    monkeypatch.delitem(sys.modules, "shop_27")
