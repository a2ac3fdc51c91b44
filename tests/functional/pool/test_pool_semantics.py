"""Runs every cell of the tables of docs/pooling_semantics.md."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from cenote.core import errors
from cenote.functional.arguments import SEMANTICS

PAGE = Path(__file__).parents[3] / "docs" / "pooling_semantics.md"
ERRORS = {"ArgumentError": errors.ArgumentError, "ShapeError": errors.ShapeError}


def cells() -> Iterator[Any]:
    """Each cell of each table whose first column is a call."""
    columns: list[str] = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            columns = []
            continue
        parts = [part.strip() for part in re.split(r"(?<!\\)\|", line)[1:-1]]
        if parts[0] == "call":
            columns = parts[1:]
        elif columns and not set(parts[0]) <= {"-"}:
            for column, cell in zip(columns, parts[1:], strict=True):
                call = parts[0].strip("`")
                yield pytest.param(call, column, cell, id=f"{column}: {call}")


CELLS = list(cells())


def names(semantics: str | None) -> dict[str, Any]:
    """What the calls of the page mean."""

    def on(function: Callable[..., Any], layout: str, second: bool = False) -> Callable[..., Any]:
        def run(x: Any, *args: Any, **kwargs: Any) -> Any:
            array = x if isinstance(x, np.ndarray) else np.array(x, np.float32)
            y = function(array, *args, layout=layout, semantics=semantics, **kwargs)
            return (y[1] if second else y).ravel()

        return run

    def argmax(function: Callable[..., Any], layout: str) -> Callable[..., Any]:
        indices = on(function, layout, second=True)
        return lambda *args, **kwargs: indices(*args, return_indices=True, **kwargs)

    def slope(x: Any, p: float, size: int) -> Any:
        ones = np.ones(len(x) // size, np.float32)
        array = np.array(x, np.float32)
        return F.lp_pool1d_backward(ones, array, p, size, layout="L", semantics=semantics)

    return {
        "shape": lambda *args, **kwargs: F.pool_output_shape(
            *args, layout="L", semantics=semantics, **kwargs
        ),
        "max1d": on(F.max_pool1d, "L"),
        "avg1d": on(F.avg_pool1d, "L"),
        "lp1d": on(F.lp_pool1d, "L"),
        "slope1d": slope,
        "argmax1d": argmax(F.max_pool1d, "L"),
        "argmax2d": argmax(F.max_pool2d, "NCHW"),
        "planes": np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2),
        "inf": np.inf,
        "nan": np.nan,
        "int64": lambda values: np.array(values, np.int64),
        "int8": lambda values: np.array(values, np.int8),
        "uint8": lambda values: np.array(values, np.uint8),
    }


def scope_of(column: str) -> dict[str, Any]:
    """What the calls of a column mean: the rules of a framework, or a value of `accumulate`."""
    if not column.startswith("accumulate="):
        return names(None if column == "default" else column)
    how = eval(column.removeprefix("accumulate="))
    scope = names("torch")
    for name in ("avg1d", "lp1d"):
        scope[name] = functools.partial(scope[name], accumulate=how)
    scope["sum"] = lambda values: np.atleast_1d(F.sum(np.array(values, np.float32), accumulate=how))
    return scope


@pytest.mark.parametrize(("call", "column", "cell"), CELLS)
def test_cell(call: str, column: str, cell: str) -> None:
    scope = scope_of(column)
    if cell in ERRORS:
        with pytest.raises(ERRORS[cell]):
            eval(call, scope)
        return
    got, wanted = eval(call, scope), eval(cell, scope)
    if isinstance(wanted, tuple):
        assert got == wanted
    else:
        assert got.shape == (len(wanted),)
        np.testing.assert_allclose(got.astype(np.float64), np.array(wanted, np.float64), rtol=1e-6)


def test_every_semantics_has_cells() -> None:
    columns = [cell.values[1] for cell in CELLS]
    assert all(columns.count(name) >= 30 for name in SEMANTICS)
    assert len(CELLS) >= 180
