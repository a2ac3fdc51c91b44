"""Signatures for type checkers, and the table of names, are those of the functions."""

from __future__ import annotations

import pytest

from tests.functional import interface


@pytest.mark.parametrize("name", ["names.py", "__init__.pyi", "differentiable.pyi"])
def test_what_is_made_from_the_functions_is_as_they_are(name: str) -> None:
    path = interface.FOLDER / name
    assert interface.pages()[path] == path.read_text(encoding="utf-8"), (
        "run python -m tests.functional.interface"
    )
