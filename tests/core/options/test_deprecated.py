"""Deprecated names give what stands for them, and warn where they are used."""

from __future__ import annotations

import warnings

import pytest

import cenote
import cenote.functional as F
import cenote.ops
from cenote.core.options.deprecated import NAMES, Deprecated, warn_deprecated


@pytest.mark.parametrize(
    ("module", "instead", "value"),
    [
        (cenote, "cenote.load", cenote.load),
        (cenote.ops, "cenote.ops.read", cenote.ops.read),
        (F, "cenote.functional.relu", F.relu),
    ],
)
def test_a_deprecated_name_warns_and_gives_the_new_one(
    module: object, instead: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = module.__name__  # type: ignore[attr-defined]
    monkeypatch.setitem(NAMES, f"{name}.old", Deprecated(instead, "0.9"))
    with pytest.warns(
        DeprecationWarning, match=rf"^{name}\.old is deprecated and goes in Cenote 0\.9; use {instead}$"
    ) as told:
        assert module.old is value  # type: ignore[attr-defined]
    assert told[0].filename == __file__


def test_an_unknown_name_is_an_attribute_error() -> None:
    for module in (cenote, cenote.ops, F):
        with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'nothing'"):
            _ = module.nothing


def test_a_parameter_warns_at_the_users_line() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        warn_deprecated("the option pins", "algorithms", "0.4")
    (one,) = told
    assert (one.filename, one.category) == (__file__, DeprecationWarning)
    assert str(one.message) == "the option pins is deprecated and goes in Cenote 0.4; use algorithms"
