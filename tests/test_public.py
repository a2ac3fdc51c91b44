"""What a user imports: the names, and what importing them must not drag in."""

from __future__ import annotations

import importlib
import inspect
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import cenote

ROOT = Path(__file__).resolve().parents[1]
# Each costs a tenth of a second or more, or is optional.
HEAVY = (
    "onnx",
    "torch",
    "PIL",
    "rich",
    "typer",
    "google.protobuf",
    "onnxruntime",
    "scipy",
    "llvmlite.binding",
)


def test_public_names_are_listed_and_there() -> None:
    assert cenote.__all__ == sorted(cenote.__all__)
    assert all(hasattr(cenote, name) for name in cenote.__all__)


@pytest.mark.parametrize("name", [name for name in cenote.__all__ if not name.startswith("__")])
def test_public_names_are_documented(name: str) -> None:
    assert inspect.getdoc(getattr(cenote, name)), name


def test_every_error_is_public() -> None:
    errors = importlib.import_module("cenote.core.errors")
    classes = [
        value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, Exception)
    ]
    own = {value.__name__ for value in classes if value.__module__ == errors.__name__}
    assert own <= set(cenote.__all__)


def test_version_is_the_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    path = ROOT / project["tool"]["hatch"]["version"]["path"]
    namespace: dict[str, str] = {}
    exec(path.read_text(encoding="utf-8"), namespace)
    assert cenote.__version__ == namespace["__version__"]
    assert f"## {cenote.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_importing_cenote_imports_nothing_heavy() -> None:
    """0.25 s is the budget; what would break it is a dependency that only some calls need."""
    program = f"import cenote, sys, json; print(json.dumps([n for n in {HEAVY!r} if n in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def test_the_command_line_does_not_read_pictures_or_models_to_start() -> None:
    program = (
        "import cenote.cli, sys, json; print(json.dumps([n for n in ('onnx', 'PIL') if n in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def test_the_package_is_typed() -> None:
    assert (Path(cenote.__file__).parent / "py.typed").exists()
