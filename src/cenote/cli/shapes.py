"""Sizes for symbolic dimensions: from `--shape`, else 1 for a batch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import typer

import cenote

Shapes = dict[str, tuple[int, ...]]
_BOUND = re.compile(r"[^,\0]*\0")  # a dimension's name and "<=", which stands as a null byte


def parse_shapes(texts: Sequence[str]) -> Shapes:
    """Return sizes of inputs from texts like `name=1,3,224,224`, one per input. A bound as `cenote.load` takes it,
    `h<=224`, counts as its largest size. Raises BadParameter (exit code 2)."""
    shapes: Shapes = {}
    for text in texts:
        # A shape begins after the last "=" that belongs to no "<=".
        name, separator, numbers = text.replace("<=", "\0").rpartition("=")
        numbers = _BOUND.sub("", numbers)
        extents = [part.strip() for part in numbers.replace("x", ",").split(",")] if numbers.strip() else []
        if not separator or not name or not all(part.isdecimal() for part in extents):
            raise typer.BadParameter(f"'{text}' is not of the form NAME=1,3,224,224", param_hint="--shape")
        shapes[name.replace("\0", "<=")] = tuple(int(part) for part in extents)
    return shapes


def parse_bounds(texts: Sequence[str]) -> dict[str, list[int | str | None]]:
    """Return `shapes` of `cenote.load` out of texts like `name=n<=8,3,h<=640,?`: sizes, names, bounds, and ? for what
    stays open. Raises BadParameter (exit code 2)."""
    shapes: dict[str, list[int | str | None]] = {}
    for text in texts:
        name, separator, entries = text.replace("<=", "\0").rpartition("=")
        if not separator or not name:
            raise typer.BadParameter(
                f"'{text}' is not of the form NAME=n<=8,3,224,224", param_hint="--bounds"
            )
        dimensions = [part.strip().replace("\0", "<=") for part in entries.split(",")]
        shapes[name.replace("\0", "<=")] = [
            int(part) if part.isdecimal() else None if part == "?" else part for part in dimensions
        ]
    return shapes


def shapes_of(inputs: Mapping[str, Any]) -> Shapes:
    """Shapes of arrays, numbers and lists of numbers, by name. Raises InputError for ragged lists."""
    try:
        return {name: np.shape(value) for name, value in inputs.items()}
    except ValueError as error:
        raise cenote.InputError(f"lists of different lengths: {error}") from None


def complete_shapes(
    model: cenote.Model,
    given: Mapping[str, tuple[int, ...]],
    real: Mapping[str, tuple[int, ...]] | None = None,
) -> Shapes:
    """A shape for every input: the one of a real input, else the given one, else the declared one with 1 for a
    symbolic first dimension.

    Raises BadParameter when a name is no input of the model, or is given both ways, or another dimension is symbolic
    and no shape is given.
    """
    real = real or {}
    names = [declared.name for declared in model.inputs]
    for name in given:
        if name not in names:
            raise typer.BadParameter(
                f"'{name}' is no input of the model; its inputs: {', '.join(names)}", param_hint="--shape"
            )
        if name in real:
            raise typer.BadParameter(f"'{name}' has the shape of its --input already", param_hint="--shape")
    shapes: Shapes = {}
    for declared in model.inputs:
        if declared.name in real:
            shapes[declared.name] = real[declared.name]
            continue
        if declared.name in given:
            shapes[declared.name] = given[declared.name]
            continue
        extents: list[int | str | None] = [None] if declared.shape is None else list(declared.shape)
        if declared.shape and not isinstance(extents[0], int):
            extents[0] = 1
        fixed = tuple(extent for extent in extents if isinstance(extent, int))
        if len(fixed) != len(extents):
            example = ",".join(str(extent) if isinstance(extent, int) else "SIZE" for extent in extents)
            raise typer.BadParameter(
                f"the model takes {declared}: give its size with --shape {declared.name}={example}",
                param_hint="--shape",
            )
        shapes[declared.name] = fixed
    return shapes
