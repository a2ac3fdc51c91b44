"""Errors begin with the name of the function that was called, whatever raises them."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from cenote.core.errors import CenoteError, InputError

NAMES = sorted({*F.__all__} - {"Traced", "explain", "fused"})


@pytest.mark.parametrize("name", NAMES)
def test_arguments_that_fit_nothing(name: str) -> None:
    function = getattr(F, name)
    parameters = inspect.signature(function).parameters.values()
    wrong = {
        each.name: "x" for each in parameters if each.default is each.empty and each.kind < each.VAR_KEYWORD
    }
    with pytest.raises(CenoteError, match=rf"^{name}: "):
        function(**{key: value for key, value in wrong.items() if key != "args"})


def test_parts_of_a_call() -> None:
    """Checks of threads, operators, kernels, formulas of two variants, and functions within others."""
    x, table = np.ones((2, 3), np.float32), np.ones((4, 2), np.float32)
    wrong: dict[str, Any] = {
        r"^relu: threads: 0 is not": lambda: F.relu(x, threads=0),
        r"^flip: axis 5 is out of range": lambda: F.flip(x, 5),
        r"^embedding: index 9 at \[0\] is outside": lambda: F.embedding(np.array([9]), table),
        r"^clamp: shapes \[2, 3\] and \[4\]": lambda: F.clamp(x, max=np.ones(4, np.float32)),
        r"^celu: alpha is 0": lambda: F.celu(x, 0),
        r"^instance_norm: expected an input of at least 3 axes": lambda: F.instance_norm(x),
        r"^max_pool2d_backward: got an unexpected": lambda: F.max_pool2d_backward(x, x, 2, windows=3),
    }
    for text, function in wrong.items():
        with pytest.raises(CenoteError, match=text):
            function()


def test_functions_of_the_user() -> None:
    """Parts of a fused function are named, and where none is at fault, the function itself."""

    def doubled(x: Any) -> Any:
        return F.bitwise_and(x, 1.5) * 2 if x.shape == (2,) else F.softplus(x) if x.shape == (3,) else 2

    fused = F.fused(doubled)
    with pytest.raises(CenoteError, match=r"^bitwise_and: "):
        fused(np.ones(2, np.float32))
    with pytest.raises(CenoteError, match=r"^softplus: type int64 is not a float type"):
        fused(np.ones(3, np.int64))
    with pytest.raises(InputError, match=r"^doubled: a fused function returns one array"):
        fused(np.ones(4, np.float32))
