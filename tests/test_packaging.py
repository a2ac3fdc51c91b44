"""What a user has after `make run` or `pip install`: command, extras, examples, what the README promises."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import cenote
from cenote.codegen import bundle, jit
from cenote.core.machine import cpuid
from tests import pythons
from tests.wheel import PROJECT, WHEEL, installed

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def python(*arguments: str, path: list[Path], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "XDG_CACHE_HOME": "",
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "HOME": str(folder),
    }
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, cwd=folder, check=False
    )


def test_make_run_says_how_to_have_the_command_at_hand() -> None:
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not installed")
    done = subprocess.run([make, "--dry-run", "run"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "The command is .venv/bin/cenote" in done.stdout
    assert ". .venv/bin/activate" in done.stdout
    assert "pip install ." in README
    assert ". .venv/bin/activate" in README


def test_extras_that_are_named_exist() -> None:
    pages = [README, *(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))]
    code = [
        path.read_text(encoding="utf-8")
        for part in ("src", "examples")
        for path in (ROOT / part).rglob("*.py")
    ]
    text = "\n".join(pages + code)
    named = {*re.findall(r"(?:cenote|'\.)\[(\w+)\]", text), *re.findall(r"extra `(\w+)`", text)}
    assert {"torch", "examples"} <= named
    assert named <= set(PROJECT["project"]["optional-dependencies"])


def test_every_public_module_is_in_the_readme() -> None:
    for name in ("functional", "torch", "backend"):
        assert f"`cenote.{name}`" in README
        assert (ROOT / "src" / "cenote" / f"{name}.py").exists() or name == "functional"


@pytest.mark.parametrize("module", re.findall(r"python -m (examples\.\w+)", README))
def test_examples_of_the_readme_are_in_the_wheel(module: str) -> None:
    assert f"{module.replace('.', '/')}.py" in WHEEL["only-include"]
    assert f"python -m cenote.{module}" in README


@pytest.mark.parametrize("name", ["classify_picture", "pooling_contact_sheet", "background"])
@pytest.mark.parametrize("where", ["checkout", "installed"])
def test_an_example_without_its_extra_says_so_in_a_line(tmp_path: Path, name: str, where: str) -> None:
    (tmp_path / "without" / "skimage").mkdir(parents=True)
    (tmp_path / "without" / "skimage" / "__init__.py").write_text("raise ImportError('not installed')")
    root = [ROOT, ROOT / "src"] if where == "checkout" else [installed(tmp_path / "site")]
    module = f"examples.{name}" if where == "checkout" else f"cenote.examples.{name}"
    done = python("-m", module, path=[tmp_path / "without", *root], folder=tmp_path)
    assert done.returncode == 1
    assert "pip install scikit-image" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_installed_example_writes_to_the_current_folder(tmp_path: Path) -> None:
    from PIL import Image

    Image.fromarray(np.arange(64 * 64 * 3, dtype=np.uint8).reshape(64, 64, 3)).save(tmp_path / "me.png")
    site = installed(tmp_path / "site")
    module = "cenote.examples.pooling_contact_sheet"
    done = python("-m", module, "--picture", "me.png", path=[site], folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "pooling.png").exists()
    text = "import cenote.examples.real_models as m; print(m.FOLDER)"
    assert python("-c", text, path=[site], folder=tmp_path).stdout.strip() == str(
        tmp_path / ".cache/cenote-examples"
    )


def test_a_model_that_cannot_be_fetched_is_said_in_a_line(tmp_path: Path) -> None:
    done = python("-m", "examples.real_models", "nobody", path=[ROOT, ROOT / "src"], folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("nobody is none of the models: pnet, ")


def test_the_programs_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, "height", "width"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", [x], [y])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "model.onnx"
    )
    namespace: dict[str, Any] = {"x": np.ones((1, 3, 8, 8), np.float32)}
    programs = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert len(programs) >= 2
    for program in programs:
        exec(program, namespace)


def test_batches_differ_by_rounding_alone() -> None:
    """The README says so beside "the same bits"."""
    model = cenote.load((ROOT / "src/cenote/data/fashion.onnx").read_bytes())
    x = np.random.default_rng(0).random((16, 1, 28, 28), dtype=np.float32)
    together, alone = model(x), np.concatenate([model(x[i : i + 1]) for i in range(16)])
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-5 * np.abs(alone).max())
    np.testing.assert_array_equal(model(x), together)


def test_the_wheel_takes_compiled_kernels_along() -> None:
    """hatch leaves out what git ignores, but for its artifacts."""
    path = bundle.PATH.relative_to(ROOT).as_posix()
    assert WHEEL["artifacts"] == [path]
    assert path in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert "python -m bundle\n" in (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "bundle" in PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]


@pytest.mark.skipif(not cpuid.can_ask(), reason="the package carries kernels for x86-64 only")
def test_a_network_of_the_bundle_needs_no_compiler(tmp_path: Path) -> None:
    """From its file without weights to an answer: compiled for both levels by one process, and then by none."""
    made = tmp_path / "kernels.bundle"
    arguments = ("-m", "bundle", "--networks", "lenet5", "--output", str(made))
    done = python(*arguments, path=[ROOT, ROOT / "src"], folder=tmp_path)
    assert done.returncode == 0, done.stderr
    code = (
        "import sys; sys.modules['llvmlite'] = None\n"
        "import os; from pathlib import Path; from cenote.codegen import bundle\n"
        f"bundle.PATH = Path({str(made)!r}); os.environ['CENOTE_CACHE'] = 'off'\n"
        "import cenote, numpy as np; from bundle.networks import network\n"
        "print(cenote.load(network('lenet5'))(np.ones((1, 1, 28, 28), np.float32)).shape)"
    )
    for target in ("avx2", "avx512"):
        with contextlib.suppress(cenote.ArgumentError):
            jit.named_target(target)
            forced = f"import os; os.environ['CENOTE_TARGET'] = '{target}'\n{code}"
            done = python("-c", forced, path=[ROOT, ROOT / "src"], folder=tmp_path)
            assert done.stdout == "(1, 10)\n", done.stderr


def test_a_wheel_without_compiled_kernels_works(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from cenote.codegen import bundle; bundle.PATH = Path('nowhere')\n"
        "import cenote, numpy as np; from importlib.resources import files\n"
        "model = cenote.load((files('cenote') / 'data' / 'fashion.onnx').read_bytes())\n"
        "print(model(np.ones((1, 1, 28, 28), np.float32)).shape, cenote.info().cache.bundled)"
    )
    done = python("-c", code, path=[installed(tmp_path / "site")], folder=tmp_path)
    assert done.stdout == "(1, 10) 0\n", done.stderr


def test_make_pythons_finds_interpreters_and_says_which_are_not_there() -> None:
    assert pythons.version_of(sys.executable).startswith(f"{sys.version_info[0]}.{sys.version_info[1]}")
    assert pythons.version_of("no_such_python") == ""
    assert pythons.found([sys.executable]) == {pythons.version_of(sys.executable): sys.executable}
    done = subprocess.run(
        [sys.executable, "-m", "tests.pythons", "--python", "no_such_python"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "no_such_python does not run" in done.stdout
    assert "-m tests.pythons" in (ROOT / "Makefile").read_text(encoding="utf-8")
