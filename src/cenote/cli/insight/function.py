"""`cenote profile --op`: one function of cenote.functional on arrays of random numbers."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np
import typer

import cenote
from cenote.cli.console import say, say_json


def profile_function(
    name: str, shapes: str | None, settings: Sequence[str], seconds: float, as_json: bool
) -> None:
    """Call a function and show its profile: algorithm, rivals, time, measures, roof."""
    if not shapes:
        raise typer.BadParameter(
            "a function takes arrays: --shapes 32x3x224x224,64x3x3x3", param_hint="--shapes"
        )
    arrays = [_array(text.strip(), number) for number, text in enumerate(shapes.split(","))]
    named = {key: value for key, value in map(_setting, settings) if key}
    more = [value for key, value in map(_setting, settings) if not key]
    try:
        found = cenote.profile_call(name, *arrays, *more, seconds=seconds, **named)
    except TypeError as error:  # no such argument
        raise cenote.ArgumentError(f"{name}: {error}") from error
    if as_json:
        say_json(found.to_dict())
    else:
        say(str(found))


def _array(text: str, seed: int) -> Any:
    """Return an array from "32x3x224x224" or "int64:10": normal random numbers, zeros where it holds integers."""
    kind, _, extents = text.rpartition(":")
    parts = extents.split("x") if extents != "()" else []
    if not all(part.isdecimal() for part in parts):
        raise typer.BadParameter(
            f"'{text}' is not of the form 32x3x224x224 or int64:10", param_hint="--shapes"
        )
    try:
        dtype = np.dtype(kind or "float32")
    except TypeError:
        raise typer.BadParameter(f"'{kind}' is no type of elements", param_hint="--shapes") from None
    shape = [int(part) for part in parts]
    if dtype.kind != "f":
        return np.zeros(shape, dtype)
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def _setting(text: str) -> tuple[str, Any]:
    """Return name and value from "padding=1", no name from "3"; what is no Python literal is a text."""
    name, separator, value = text.partition("=")
    if not separator:
        name, value = "", text
    elif not name.isidentifier():
        raise typer.BadParameter(f"'{text}' is not of the form NAME=VALUE", param_hint="--op")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value
