"""`cenote.ort` does what onnxruntime does: each behaviour against its recorded answer, and that against onnxruntime."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import cenote.ort
from tests.ort.behaviours import Behaviour
from tests.ort.recorded_runs import BOUND, FEEDS, REFUSED
from tests.ort.recorded_sessions import DESCRIBED, LOADS, OPTIONS

ALL: dict[str, Behaviour] = {
    f"{group}: {name}": behaviour
    for group, table in {
        "feed": FEEDS,
        "refused": REFUSED,
        "load": LOADS,
        "described": DESCRIBED,
        "options": OPTIONS,
        "bound": BOUND,
    }.items()
    for name, behaviour in table.items()
}


def outcome(behaviour: Behaviour, ort: ModuleType) -> Any:
    """What comes of it: the value, or the name of the exception's class."""
    try:
        return behaviour.call(ort)
    except Exception as error:
        return type(error).__name__


def agree(got: Any, want: Any) -> None:
    """The same values, of the same types."""
    if isinstance(want, list):
        assert isinstance(got, list), got
        assert len(got) == len(want), got
        for one, other in zip(got, want, strict=True):
            agree(one, other)
    elif isinstance(want, np.ndarray):
        assert isinstance(got, np.ndarray), got
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
    else:
        assert got == want


@pytest.mark.filterwarnings("ignore:Specified provider", "ignore:Duplicate provider")
@pytest.mark.parametrize("name", ALL)
def test_cenote_does_what_was_recorded(name: str) -> None:
    agree(outcome(ALL[name], cenote.ort), ALL[name].outcome)


@pytest.mark.filterwarnings("ignore:Specified provider", "ignore:Duplicate provider")
@pytest.mark.parametrize("name", ALL)
def test_onnxruntime_does_what_was_recorded(name: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    if onnxruntime.__version__ != cenote.ort.__version__:
        pytest.skip(f"this is onnxruntime {onnxruntime.__version__}")
    behaviour = ALL[name]
    agree(outcome(behaviour, onnxruntime), behaviour.outcome if behaviour.real is None else behaviour.real)


def test_exceptions_are_no_built_in_ones() -> None:
    state = cenote.ort.capi.onnxruntime_pybind11_state
    for name in (
        "Fail",
        "InvalidArgument",
        "NoSuchFile",
        "InvalidProtobuf",
        "InvalidGraph",
        "NotImplemented",
        "EPFail",
    ):
        kind = getattr(state, name)
        assert not issubclass(kind, ValueError | RuntimeError | OSError)
        assert getattr(cenote.ort.capi._pybind_state, name) is kind
        assert str(kind("why")).startswith("[ONNXRuntimeError] : ")
