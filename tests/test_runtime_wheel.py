"""The distribution `cenote-runtime`: the files that it holds run plan files with NumPy alone."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import cenote
from cenote.codegen import jit
from cenote.core.types import Array
from cenote.ops.base import Op
from cenote.ops.table import operators

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "packaging" / "runtime"
PROJECT = tomllib.loads((FOLDER / "pyproject.toml").read_text(encoding="utf-8"))
ALONE = (
    "import sys\n"
    "for name in ('llvmlite', 'onnx', 'google', 'typer', 'rich', 'PIL', 'ml_dtypes', 'h5py'):\n"
    "    sys.modules[name] = None\n"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's files, laid out as pip would."""
    folder = tmp_path_factory.mktemp("site")
    held = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    for source, target in held.items():
        if (FOLDER / source).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(FOLDER / source, folder / target, dirs_exist_ok=True, ignore=ignored)
        else:
            (folder / target).parent.mkdir(exist_ok=True)
            shutil.copy(FOLDER / source, folder / target)
    return folder


def alone(site: Path, folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(site), "CENOTE_CACHE": "off"}
    arguments = [sys.executable, "-c", ALONE + code]
    return subprocess.run(arguments, capture_output=True, text=True, env=environment, cwd=folder, check=False)


def test_every_part_is_there_or_says_that_it_is_not(site: Path) -> None:
    parts = {path.stem for path in (ROOT / "src" / "cenote").iterdir() if not path.name.startswith("__pyc")}
    assert {path.stem for path in (site / "cenote").iterdir()} == parts - {"data"}


def test_what_it_imports_of_itself_is_there(site: Path) -> None:
    """Also what a function imports when it runs; what is left out says so."""
    missing = set()
    for path in site.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                place = site.joinpath(*name.split("."))
                parents = [place, *place.parents][: len(name.split("."))]
                there = any(each.with_suffix(".py").exists() for each in parents) or place.is_dir()
                if name.split(".")[0] == "cenote" and not there:
                    missing.add(f"{path.relative_to(site)}: {name}")
    assert not missing


def test_it_stays_small(site: Path) -> None:
    """Source alone, about 3.5 MB beside NumPy's 57; a folder of compiled kernels or of data would show here."""
    assert sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) < 4_000_000


def test_it_needs_numpy_alone() -> None:
    assert PROJECT["project"]["dependencies"] == ["numpy>=1.26"]
    assert "./packaging/runtime" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_the_embedded_model_runs_from_a_plan(site: Path, tmp_path: Path) -> None:
    model = cenote.load(ROOT / "src/cenote/data/fashion.onnx", threads=1)
    x = np.random.default_rng(0).random((5, 1, 28, 28), dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    expected = model(x)
    model.save(tmp_path / "fashion.cenote")
    code = (
        "import cenote, numpy as np; model = cenote.load('fashion.cenote', threads=1)\n"
        "np.save('y.npy', model(np.load('x.npy'))); assert 'conv' in str(model.plan).lower()\n"
        "print(cenote.info().versions['llvm'])"
    )
    done = alone(site, tmp_path, code)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "not installed\n"
    assert np.array_equal(np.load(tmp_path / "y.npy"), expected)


def planned(folder: Path) -> None:
    """A plan file of the embedded model for one picture, and pictures."""
    model = cenote.load(ROOT / "src/cenote/data/fashion.onnx", threads=1)
    model.plan_for({model.inputs[0].name: (1, 1, 28, 28)})
    model.save(folder / "fashion.cenote")
    np.save(folder / "x.npy", np.random.default_rng(0).random((1, 1, 28, 28), dtype=np.float32))
    np.savez(folder / "x.npz", picture=np.load(folder / "x.npy"))


def commanded(site: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return alone(site, folder, f"from cenote.cli import main; main({[*arguments]!r})")


@pytest.mark.parametrize("given", ["x.npy", "x.npz", "picture=x.npy", "picture=x.npz"])
def test_a_plan_runs_from_the_command_line(site: Path, tmp_path: Path, given: str) -> None:
    planned(tmp_path)
    done = commanded(site, tmp_path, "run", "fashion.cenote", given, "--save", "y.npz", "--threads", "1")
    assert (done.returncode, done.stderr) == (0, "")
    expected = cenote.load(tmp_path / "fashion.cenote", threads=1)(np.load(tmp_path / "x.npy"))
    (found,) = np.load(tmp_path / "y.npz").values()
    assert np.array_equal(found, expected)
    shown = json.loads(commanded(site, tmp_path, "run", "fashion.cenote", given, "--json").stdout)
    assert [each["shape"] for each in shown["outputs"].values()] == [[1, 10]]


def test_the_command_shows_the_installation(site: Path, tmp_path: Path) -> None:
    done = commanded(site, tmp_path, "info")
    assert done.returncode == 0
    assert "target" in done.stdout
    assert json.loads(commanded(site, tmp_path, "info", "--json").stdout)["version"] == cenote.__version__


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "none.cenote", "x.npy"], "error: none.cenote: there is no such file"),
        (["run", "fashion.cenote"], "error: input 'picture' is missing"),
        (["run", "fashion.cenote", "x.jpg"], "error: x.jpg: this distribution reads .npy and .npz"),
        (["run", "fashion.cenote", "none.npy"], "error: none.npy: No such file or directory"),
        (
            ["run", "fashion.cenote", "x.npy", "x.npy"],
            "error: 2 files given, the model has 1 inputs: picture",
        ),
        (["run", "fashion.cenote", "text.npy"], "error: text.npy holds no arrays of numbers"),
    ],
)
def test_faults_of_a_command_are_one_line(
    site: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    planned(tmp_path)
    (tmp_path / "text.npy").write_text("text")
    done = commanded(site, tmp_path, *arguments)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(message)


def test_programs_of_onnxruntime_run_plans(site: Path, tmp_path: Path) -> None:
    planned(tmp_path)
    code = (
        "import cenote.ort as ort, numpy as np; session = ort.InferenceSession('fashion.cenote')\n"
        "np.save('y.npy', session.run(None, {session.get_inputs()[0].name: np.load('x.npy')})[0])"
    )
    done = alone(site, tmp_path, code)
    assert done.returncode == 0, done.stderr
    assert np.array_equal(
        np.load(tmp_path / "y.npy"), cenote.load(tmp_path / "fashion.cenote")(np.load(tmp_path / "x.npy"))
    )


def test_a_missing_file_is_one(site: Path, tmp_path: Path) -> None:
    done = alone(
        site,
        tmp_path,
        "import cenote\ntry: cenote.load('none.cenote')\nexcept FileNotFoundError as e: print(e)",
    )
    assert done.stdout == "none.cenote: there is no such file\n"


@pytest.mark.parametrize(
    "code",
    [
        "import cenote; cenote.load('model.onnx')",
        "import cenote; cenote.verify('model.onnx')",
        "import cenote; cenote.quantize('model.onnx', 'data.npz', 'small.onnx')",
        "import cenote; cenote.compress('model.onnx', 'small.onnx')",
        "import cenote; cenote.functional",
        "import cenote; cenote.Profile",
        "import cenote; cenote.compare_profiles",
        "import cenote; cenote.load('fashion.cenote', threads=1).profile()",
        "import cenote; cenote.load('fashion.cenote', threads=1).diagnose()",
        "import cenote.functional as F",
        "import cenote.backend",
        "from cenote.core.types import dtype_named; dtype_named('bfloat16')",
        "from cenote.codegen import jit; jit.llvm_version()",
    ],
)
def test_what_is_left_out_says_what_to_install(site: Path, tmp_path: Path, code: str) -> None:
    shutil.copy(ROOT / "src/cenote/data/fashion.onnx", tmp_path / "model.onnx")
    model = cenote.load(tmp_path / "model.onnx", threads=1)
    model.plan_for({model.inputs[0].name: (1, 1, 28, 28)})
    model.save(tmp_path / "fashion.cenote")
    done = alone(site, tmp_path, code)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("cenote.core.errors.MissingPackageError: ")
    assert "is not installed" in last
    assert "pip install cenote (instead of cenote-runtime" in last


def test_both_at_once_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.1.0")
    assert "uninstall both, then install one" in cenote.info().problem


def following_content(op: str, open_sizes: bool) -> tuple[bytes, list[Array]]:
    """A model whose shapes follow content, by an operator with kernels for where it is cut, and its inputs."""
    random = np.random.default_rng(3)
    if op == "NonMaxSuppression":
        corners = random.random((1, 200, 4), dtype=np.float32)
        arrays = [corners + np.float32([0, 0, 1, 1]), random.random((1, 2, 200), dtype=np.float32)]
    else:
        arrays = [random.integers(0, 3, 40_000).astype(np.float32)]
    if op == "Compress":
        arrays.append(arrays[0] > 1)
    limits = {"most": np.int64(20), "overlap": np.float32(0.5)} if op == "NonMaxSuppression" else {}
    names = [f"x{n}" for n in range(len(arrays))]
    nodes = [
        helper.make_node(
            "Mul" if op != "Compress" else "Identity", ["x0"] * (1 + (op != "Compress")), ["first"]
        ),
        helper.make_node(op, ["first", *names[1:], *limits], ["found"]),
        helper.make_node("Cast", ["found"], ["y"], to=TensorProto.DOUBLE),
    ]
    inputs = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(array.dtype),
            [size if size < 10 or not open_sizes else "n" for size in array.shape],
        )
        for name, array in zip(names, arrays, strict=True)
    ]
    y = helper.make_tensor_value_info("y", TensorProto.DOUBLE, None)
    stored = [numpy_helper.from_array(np.array(value), name) for name, value in limits.items()]
    graph = helper.make_graph(nodes, "graph", inputs, [y], stored)
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString(), arrays


def test_each_operator_with_kernels_where_a_model_is_cut_is_tried() -> None:
    every = {each.name for each in operators() if each.run_on_host is not Op.run_on_host}
    assert every == {"non_zero", "unique", "compress", "non_max_suppression"}


@pytest.mark.parametrize("held", [True, False], ids=["held", "left out"])
@pytest.mark.parametrize("open_sizes", [True, False], ids=["open", "fixed"])
@pytest.mark.parametrize("op", ["NonZero", "Unique", "Compress", "NonMaxSuppression"])
def test_shapes_that_follow_content(
    site: Path, tmp_path: Path, op: str, open_sizes: bool, held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By kernels that the plan file holds, or by the reference where it does not: the same bits."""
    content, arrays = following_content(op, open_sizes)
    model = cenote.load(content, threads=1)
    expected = np.asarray(model(*arrays))
    assert expected.size > 2
    if not held:
        monkeypatch.setattr(jit, "of_host_steps", lambda target: set())
    model.save(tmp_path / "model.cenote")
    np.savez(tmp_path / "x.npz", *arrays)
    code = (
        "import cenote, numpy as np; from cenote.codegen import jit\n"
        "y = cenote.load('model.cenote', threads=1)(*np.load('x.npz').values()); np.save('y.npy', y)\n"
        "print(bool(jit.of_host_steps(jit.host_target())))"
    )
    done = alone(site, tmp_path, code)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{held}\n"
    assert np.array_equal(np.load(tmp_path / "y.npy"), expected)
