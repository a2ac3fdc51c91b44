"""Digests of functions: equal where they compute the same, different where anything that they use differs."""

from __future__ import annotations

import functools
import linecache
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from cenote.core.extensions.digests import digest_of, place_of

SCALE = 2.0


def scaled(x: Any) -> Any:
    return helped(x) * SCALE


def helped(x: Any) -> Any:
    return x + 1


def _holding(held: Any) -> Callable[..., Any]:
    return lambda x: x * held


def _module(folder: Path, text: str) -> ModuleType:
    """A module with this text, always under the same name and path."""
    path = folder / "shop_digest.py"
    path.write_text(text)
    code = compile(text, str(path), "exec")
    made = ModuleType("shop_digest")
    linecache.checkcache(str(path))
    exec(code, made.__dict__)
    return made


def test_a_function_has_the_same_digest_again() -> None:
    assert digest_of(scaled) == digest_of(scaled)
    assert digest_of(_holding(2.0)) == digest_of(_holding(2.0))
    assert digest_of(_holding(np.arange(5))) == digest_of(_holding(np.arange(5)))
    assert digest_of(np.tanh)[1] == ""


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (2, 2.0),
        (2, 3),
        ("a", "b"),
        (np.arange(5), np.arange(5.0)),
        (np.arange(5), np.arange(5)[::-1]),
        ([1, 2], (1, 2)),
        ({"a": 1}, {"a": 2}),
        (np.tanh, np.sinh),
        (scaled, helped),
        (functools.partial(scaled, 1), functools.partial(scaled, 2)),
        (_holding(1), _holding(2)),
    ],
    ids=[
        "kind",
        "number",
        "text",
        "dtype",
        "array",
        "list",
        "dict",
        "ufunc",
        "function",
        "partial",
        "closure",
    ],
)
def test_what_a_closure_holds_counts(a: Any, b: Any) -> None:
    assert digest_of(_holding(a)) == digest_of(_holding(a))
    assert digest_of(_holding(a))[0] != digest_of(_holding(b))[0]


def test_lambdas_of_one_line_differ() -> None:
    digests = {digest_of(each)[0] for each in (lambda x: x + 1, lambda x: x + 2, lambda x: x - 1)}
    assert len(digests) == 3


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("return x + 1", "return x + 2"),
        ("A = 1", "A = 2"),
        ("y=1)", "y=2)"),
        ("return x * A", "return x * A * 1.5"),
    ],
)
def test_a_change_of_the_source_counts(tmp_path: Path, before: str, after: str) -> None:
    text = (
        "A = 1\ndef helped(x):\n    return x + 1\n"
        "def f(x, y=1):\n    return helped(x) + g(x)\ndef g(x):\n    return x * A\n"
    )
    assert before in text
    digest = digest_of(_module(tmp_path, text).f)[0]
    second = _module(tmp_path, text.replace(before, after)).f
    assert digest_of(second)[0] != digest
    assert digest_of(_module(tmp_path, text + "\n# a remark\n").f)[0] == digest


def test_a_value_that_cannot_be_told_makes_a_function_unlike_any_other() -> None:
    held = object()
    first, second = digest_of(_holding(held)), digest_of(_holding(held))
    assert first[0] != second[0]
    assert first[1] == "'held' of _holding.<locals>.<lambda> is a object"


def test_a_function_that_calls_itself_ends() -> None:
    def again(n: int) -> int:
        return again(n - 1) if n else 0

    assert digest_of(again)[1] == ""


def test_places() -> None:
    assert place_of(scaled).startswith(f"scaled ({__file__}:")
    assert place_of(functools.partial(scaled, 1)) == place_of(scaled)
    assert place_of(np.tanh) == "tanh"
