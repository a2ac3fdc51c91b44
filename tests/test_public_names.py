"""The list of public names: complete, the same on every machine, changed by decision, and used by what users read."""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import cenote
from cenote.core.options import deprecated

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = re.compile(r"(<!-- (?:new file|in) .*-->\n)?^```python.*\n((?:.*\n)*?)```$", re.MULTILINE)
# Code inside this folder: it is a part of the package, or shows what it is made of.
OF_CENOTE = {"architecture.md", "life_of_a_layer.md", "where_to_change.md"}


def _module() -> ModuleType:
    specification = importlib.util.spec_from_file_location("public_names", ROOT / "docs" / "public_names.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


public_names = _module()
WRITTEN = public_names.FILE.read_text(encoding="utf-8")


def test_a_change_of_public_names_is_a_decision() -> None:
    now, before = {*public_names.text().splitlines()}, {*WRITTEN.splitlines()}
    new, gone = sorted(now - before), sorted(before - now)
    assert not new + gone, (
        f"public names are not those of docs/public_names.txt: new {new}, gone or with other parameters {gone}. If "
        "that is meant, run `make docs`; from 0.2 on, what is gone was deprecated before (docs/stability.md)"
    )


def test_every_public_name_is_listed_with_its_parameters() -> None:
    lines = WRITTEN.splitlines()
    for name in cenote.__all__:
        assert name == "__version__" or any(
            re.match(rf"(class |module )?cenote\.{name}\b", each) for each in lines
        )
    assert "cenote.Model.run(self, inputs, outputs=None)" in lines
    assert "class cenote.ShapeError of CenoteError, ValueError" in lines
    assert "cenote.Model.from_graph" not in WRITTEN
    assert not [each for each in lines if " at 0x" in each or "<" in each]


def test_every_facade_is_listed() -> None:
    """A module of the package that lists its names is public, or is started as a program."""
    found = {
        f"cenote.{path.relative_to(ROOT / 'src' / 'cenote').parts[0].removesuffix('.py')}"
        for pattern in ("*.py", "*/__init__.py")
        for path in (ROOT / "src" / "cenote").glob(pattern)
        if path.parent.name != "cenote" or path.name != "__init__.py"
        if re.search(r"^__all__ = ", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert found - {"cenote.cli", "cenote.codegen"} <= set(public_names.modules())
    assert {name for name in public_names.MODULES if name.count(".") == 1} >= found - {
        "cenote.cli",
        "cenote.codegen",
    }


BEFORE = "cenote.f(x)\nclass cenote.C(a)\ncenote.C.m(self)\n"
AFTER = "cenote.f(x, y=1)\nclass cenote.C(a)\ncenote.g(x)\n"


@pytest.mark.parametrize(
    ("version", "entry", "missing"),
    [
        ("0.2.0", "- New things.", ["cenote.C.m", "cenote.f"]),
        ("0.2.0", "- New things: `f`, `C.m`.", ["cenote.C.m", "cenote.f"]),
        ("0.2.0", f"{public_names.HEADING} `f` takes y.", ["cenote.C.m"]),
        ("0.2.0", f"{public_names.HEADING} `f` takes y; `C.m`\n  is gone.", []),
        ("0.1.0", "- New things.", []),
    ],
)
def test_what_goes_is_in_the_changelog(version: str, entry: str, missing: list[str]) -> None:
    changelog = (
        f"# Changelog\n\n## {version}\n\n- One.\n{entry}\n\n## 0.0.1\n\n{public_names.HEADING} `m`, `f`\n"
    )
    assert public_names.undecided(BEFORE, AFTER, changelog, version) == missing


def test_deprecated_names_go_when_their_version_is_there() -> None:
    now = tuple(map(int, cenote.__version__.split(".")[:2]))
    for name, each in deprecated.NAMES.items():
        assert tuple(map(int, each.goes.split("."))) > now, f"{name} was to go in {each.goes}"


def programs() -> Iterator[tuple[str, str]]:
    """What users read and run, by place: programs of pages, and examples."""
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        if path.name not in OF_CENOTE and not path.name.startswith("add_"):
            for order, code in PROGRAM.findall(path.read_text(encoding="utf-8")):
                if not order:
                    yield path.name, code
    for path in sorted((ROOT / "examples").rglob("*.py")):
        yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


@cache
def homes() -> dict[str, list[tuple[str, object]]]:
    """The public modules that have a name, and what it stands for in each."""
    found: dict[str, list[tuple[str, object]]] = {}
    for name in public_names.modules():
        with contextlib.suppress(ImportError):
            module = importlib.import_module(name)
            for each in public_names.names_of(module):
                found.setdefault(each, []).append((name, getattr(module, each)))
    return found


def private_imports(code: str) -> list[str]:
    """Imports from private modules of what is public elsewhere, as texts that say where."""
    faults = []
    for node in ast.walk(ast.parse(code)):
        module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
        if module.split(".")[0] != "cenote" or module in public_names.MODULES:
            continue
        for alias in node.names:
            value = getattr(importlib.import_module(module), alias.name, None)
            public = [home for home, other in homes().get(alias.name, ()) if other is value]
            if public:
                faults.append(f"{alias.name} from {module}: it is public in {' and '.join(public)}")
    return faults


def test_what_users_read_uses_public_names() -> None:
    found = [f"{place}: {fault}" for place, code in programs() for fault in private_imports(code)]
    assert not found
    assert len([*programs()]) > 30


def test_the_rule_sees_a_private_import() -> None:
    (fault,) = private_imports("from cenote.core.errors import ShapeError")
    assert fault == "ShapeError from cenote.core.errors: it is public in cenote"
    assert not private_imports("from cenote import ShapeError\nfrom cenote.core.sizes import maximum")
