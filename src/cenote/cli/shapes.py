"""Sizes for symbolic dimensions: from `--shape`, else 1 for a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import typer

import cenote

Shapes = dict[str, tuple[int, ...]]


def parse_shapes(texts: Sequence[str]) -> Shapes:
    """`name=1,3,224,224`, as often as there are inputs to tell. Raises BadParameter (exit code 2)."""
    shapes: Shapes = {}
    for text in texts:
        name, separator, numbers = text.rpartition("=")
        extents = [part.strip() for part in numbers.replace("x", ",").split(",")] if numbers.strip() else []
        if not separator or not name or not all(part.isdecimal() for part in extents):
            raise typer.BadParameter(f"'{text}' is not of the form NAME=1,3,224,224", param_hint="--shape")
        shapes[name] = tuple(int(part) for part in extents)
    return shapes


def complete_shapes(model: cenote.Model, given: Mapping[str, tuple[int, ...]]) -> Shapes:
    """A shape for every input: the given one, else the declared one with 1 for a symbolic first dimension.

    Raises BadParameter when a name is no input of the model, or another dimension is symbolic and no shape is given.
    """
    names = [declared.name for declared in model.inputs]
    for name in given:
        if name not in names:
            raise typer.BadParameter(
                f"'{name}' is no input of the model; its inputs: {', '.join(names)}", param_hint="--shape"
            )
    shapes: Shapes = {}
    for declared in model.inputs:
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
