"""Algorithms and rewrites of users are known by names, and plans by the digests of their modules."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import cenote
from cenote.core.extensions import switched
from cenote.core.extensions.switched import UserExtension, extensions_by_name, lookup, resolved
from cenote.core.load_options import LoadOptions
from tests.core.extensions.packages import written

MODULE = """
import cenote

@cenote.register_algorithm("shop.slow", of="pool")
def slow(problem, target):
    return None
"""


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switched, "_registered", {})


def nothing(problem: object, target: object) -> None:
    return None


def other(graph: object) -> object:
    return graph


def test_names_are_registered_and_forgotten() -> None:
    assert cenote.register_algorithm("shop.slow", of="pool")(nothing) is nothing
    assert cenote.register_rewrite("shop.other")(other) is other
    assert [*cenote.registered_extensions()] == ["shop.slow", "shop.other"]
    cenote.unregister("shop.slow")
    assert [*cenote.registered_extensions()] == ["shop.other"]
    with pytest.raises(cenote.ArgumentError, match=r"shop\.slow is not registered"):
        cenote.unregister("shop.slow")


@pytest.mark.parametrize(
    ("register", "said"),
    [
        (
            lambda: cenote.register_algorithm("slow", of="pool"),
            "'slow' is no name of an algorithm or a rewrite",
        ),
        (lambda: cenote.register_rewrite("shop."), "'shop.' is no name"),
        (lambda: cenote.register_rewrite(3), "3 is no name"),  # type: ignore[arg-type]
        (lambda: cenote.register_algorithm("shop.slow", of="pools"), r"of='pools' is not known \(pool, "),
    ],
)
def test_wrong_registrations_are_refused(register: Callable[[], object], said: str) -> None:
    with pytest.raises(cenote.ArgumentError, match=said):
        register()


def test_a_name_is_taken_once_but_by_the_same_function() -> None:
    cenote.register_rewrite("shop.other")(other)
    cenote.register_rewrite("shop.other")(other)
    with pytest.raises(
        cenote.ArgumentError, match=r"registered twice: other \(.*: \d+\)|registered twice: other \("
    ):
        cenote.register_rewrite("shop.other")(nothing)


def test_an_unknown_name_is_refused_with_those_known_and_the_ways_to_add_one() -> None:
    cenote.register_algorithm("shop.slow", of="pool")(nothing)
    said = r"extensions: .*'shop\.slo'.*known: shop\.slow; close to it: shop\.slow.*--operators.*cenote\.operators"
    with pytest.raises(cenote.ArgumentError, match=said):
        LoadOptions(extensions=("shop.slo",))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("shop.slow", "takes a list of names"),
        (5, "takes a list of names"),
        ((5,), "5 is no name"),
        (("shop.slow", "shop.slow"), "given twice"),
    ],
)
def test_other_values_are_refused(given: object, said: str) -> None:
    cenote.register_algorithm("shop.slow", of="pool")(nothing)
    with pytest.raises(cenote.ArgumentError, match=said):
        extensions_by_name("extensions", given)


def test_a_plan_finds_the_module_and_tells_another_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, {"slow_27.py": MODULE}, monkeypatch)
    importlib.import_module("slow_27")
    options = LoadOptions(extensions=("shop.slow",))
    again = LoadOptions.of_record({**options.record(), "extensions": [[*options.extensions[0]]]})
    assert again.key() == options.key()
    switched._registered.clear()
    monkeypatch.delitem(sys.modules, "slow_27")
    (found,) = again.switched_on()
    assert (found.name, found.of) == ("shop.slow", "pool")
    assert found.origin == "shop.slow, of slow_27.py:4"

    (tmp_path / "slow_27.py").write_text(MODULE.replace("return None", "return  None"))
    switched._registered.clear()
    monkeypatch.delitem(sys.modules, "slow_27")
    importlib.invalidate_caches()
    importlib.import_module("slow_27")
    assert LoadOptions(extensions=("shop.slow",)).key() != options.key()
    with pytest.raises(cenote.UnsupportedError, match=r"algorithm shop\.slow has changed .*slow_27\.py:4"):
        again.switched_on()
    switched._registered.clear()
    (tmp_path / "slow_27.py").unlink()
    monkeypatch.delitem(sys.modules, "slow_27")
    importlib.invalidate_caches()
    with pytest.raises(
        cenote.UnsupportedError, match=r"planning takes shop\.slow.*import the module slow_27"
    ):
        resolved(again.extensions)  # type: ignore[arg-type]  # as a plan mentions them


def test_installed_extensions_are_looked_at_for_unknown_names(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def import_installed() -> None:
        asked.append(True)
        cenote.register_rewrite("shop.other")(other)

    monkeypatch.setattr(switched, "import_installed", import_installed)
    LoadOptions()
    assert not asked
    assert lookup("shop.other") is not None
    assert lookup("shop.other") is not None
    assert asked == [True]


@pytest.mark.parametrize("seconds", [float("nan"), -1.0, float("inf"), None, "1", True, 1j])
def test_an_estimate_is_a_number_of_seconds(seconds: object) -> None:
    extension = UserExtension("shop.slow", nothing, of="pool")
    with pytest.raises(cenote.OperatorError, match=r"algorithm shop\.slow, nothing \(.*estimates"):
        extension.check_estimate(seconds)
    extension.check_estimate(np.float32(0.5))


def test_errors_name_the_function_and_the_line() -> None:
    def broken(problem: object, target: object) -> None:
        raise KeyError("shape")

    with pytest.raises(
        cenote.OperatorError, match=r"broken \(.*raised KeyError: 'shape' \(.*test_switched\.py:\d+\)"
    ):
        UserExtension("shop.slow", broken, of="pool")(1, 2)

    def refused(problem: object, target: object) -> None:
        raise cenote.ShapeError("too large")

    with pytest.raises(cenote.ShapeError, match=r"algorithm shop\.slow, .*refused \(.*: too large"):
        UserExtension("shop.slow", refused, of="pool")(1, 2)
