"""The public names of `cenote.ops`."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import cenote.ops
from cenote.ops.table import operators


def test_names_are_listed_in_order() -> None:
    assert sorted(cenote.ops.__all__) == sorted(set(cenote.ops.__all__))
    assert dir(cenote.ops) == sorted(cenote.ops.__all__)
    with pytest.raises(AttributeError, match="no attribute 'frobnicate'"):
        cenote.ops.frobnicate  # noqa: B018


@pytest.mark.parametrize("name", cenote.ops.__all__)
def test_each_is_there_and_documented(name: str) -> None:
    assert inspect.getdoc(getattr(cenote.ops, name)), name


def test_type_checkers_know_them_all() -> None:
    assert cenote.ops.__file__ is not None
    with open(cenote.ops.__file__, encoding="utf-8") as file:
        imported = file.read().partition("if TYPE_CHECKING:")[2].partition("__all__")[0]
    for name in cenote.ops.__all__:
        assert f" {name}" in imported or f"{name},\n" in imported, name


def test_the_import_imports_no_operators() -> None:
    text = "import sys, cenote.ops; print([name for name in sys.modules if name.startswith('cenote.ops.')])"
    made = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert made.stdout.strip() == "[]"
    assert operators()
