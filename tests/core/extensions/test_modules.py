"""Digests of modules: what they cover, and what they do not."""

from __future__ import annotations

import importlib
import subprocess
import sys
import types
from pathlib import Path

import pytest

from cenote.core.extensions.modules import import_registering, source_digest
from tests.core.extensions.packages import written

PACKAGE = {
    "shopping/__init__.py": "",
    "shopping/ops.py": "import numpy as np\nfrom . import tables\nfrom .deep.inner import three\n",
    "shopping/tables.py": "TABLE = (1, 2)\n",
    "shopping/deep/__init__.py": "",
    "shopping/deep/inner.py": "def three():\n    from shopping.late import number\n    return number\n",
    "shopping/late.py": "number = 3\n",
    "shopping/other.py": "unused = True\n",
}


def digest_in_another_process(folder: Path, module: str) -> str:
    text = f"import {module}; from cenote.core.extensions.modules import source_digest as s; print(*s('{module}'))"
    made = subprocess.run(
        [sys.executable, "-c", text], cwd=folder, capture_output=True, text=True, check=True
    )
    return made.stdout.strip()


def test_all_that_a_module_imports_from_its_package_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {}
    for changed in ("", *PACKAGE):
        folder = tmp_path / (changed.replace("/", "_") or "as it is")
        files = {name: text + "# changed\n" * (name == changed) for name, text in PACKAGE.items()}
        with monkeypatch.context() as patch:
            written(folder, files, patch)
            for name in [each for each in sys.modules if each.startswith("shopping")]:
                patch.delitem(sys.modules, name)
            importlib.import_module("shopping.ops")
            found[changed], untold = source_digest("shopping.ops")
            assert untold == ""
            assert "shopping.late" not in sys.modules, "a digest imports nothing"
            for name in [each for each in sys.modules if each.startswith("shopping")]:
                del sys.modules[name]
    assert len(set(found.values())) == len(PACKAGE)
    assert found["shopping/other.py"] == found[""]


def test_scripts_in_one_folder_belong_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = set()
    for text in ("by = 2\n", "by = 3\n"):
        written(tmp_path, {"helpers_27.py": text, "script_27.py": "import helpers_27\n"}, monkeypatch)
        importlib.invalidate_caches()
        importlib.import_module("script_27")
        found.add(source_digest("script_27"))
    assert len(found) == 2


def test_the_digest_is_that_of_the_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, {"early_27.py": "by = 2\n"}, monkeypatch)
    importlib.import_module("early_27")
    before = source_digest("early_27")
    (tmp_path / "early_27.py").write_text("by = 3\n# changed\n")
    assert source_digest("early_27") == before, "of the code that runs, not of the file that is there by now"
    importlib.reload(sys.modules["early_27"])
    assert source_digest("early_27") != before


def test_another_process_finds_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, {"same_27.py": "import shutil\n"}, monkeypatch)
    importlib.import_module("same_27")
    assert digest_in_another_process(tmp_path, "same_27") == source_digest("same_27")[0]


def test_a_module_without_source_is_like_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nowhere_27", types.ModuleType("nowhere_27"))
    digest, untold = source_digest("nowhere_27")
    assert untold == "module nowhere_27 has no source"
    assert source_digest("nowhere_27")[0] == digest, "one process can keep kernels by it"
    text = "from cenote.core.extensions.modules import source_digest as s; print(*s('__main__'), sep='|')"
    made = {
        subprocess.run(
            [sys.executable, "-c", text], capture_output=True, text=True, check=True
        ).stdout.strip()
        for _ in range(2)
    }
    assert len(made) == 2
    assert all(each.endswith("|an interactive session has no source") for each in made)


@pytest.mark.parametrize(
    ("text", "imported"),
    [
        (
            "import cenote\n\n\n@cenote.register('shop.F')\ndef f(x): return x\ncenote.unregister('shop.F')\n",
            True,
        ),
        ("from cenote import register\nregister\n", True),
        ("import cenote\n", False),
        ("def register(): pass\nregister()\n", False),
        ("import os  # import cenote; cenote.register\n", False),
        ("no module\n", False),
    ],
)
def test_a_plan_makes_no_module_run_that_registers_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, imported: bool
) -> None:
    written(tmp_path, {"named_27.py": text}, monkeypatch)
    import_registering("named_27")
    assert ("named_27" in sys.modules) == imported
    import_registering("missing_27")
    import_registering("")
