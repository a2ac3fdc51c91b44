"""Inputs named on the command line: .npy, .npz, pictures, numbers; one run per file, or one run of all files."""

from __future__ import annotations

import contextlib
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import cenote
from cenote.cli.preprocess import Preprocess, read_picture

Inputs = dict[str, Any]  # arrays, or numbers and lists of numbers, which the model takes too


def read_runs(model: cenote.Model, texts: Sequence[str], preprocess: Preprocess) -> list[tuple[str, Inputs]]:
    """Return the runs that the files on the command line request: a title and the inputs by name.

    A model with one input runs once per file, one with several runs once. Raises as `read_inputs`.
    """
    if len(model.inputs) == 1:
        return [(text, read_inputs(model, [text], preprocess)) for text in texts]
    return [(", ".join(texts), read_inputs(model, texts, preprocess))]


def read_inputs(model: cenote.Model, texts: Sequence[str], preprocess: Preprocess) -> Inputs:
    """Inputs by name: from a .npz with an array per input, from files in the order of the inputs, from NAME=FILE, or
    from NAME=NUMBER (any JSON of numbers). Raises InputError, OSError."""
    declared = {each.name: each for each in model.inputs}
    named = [_named(text, list(declared)) for text in texts]
    inputs: Inputs = {}
    for name, text in named:
        if not name and Path(text).suffix == ".npz":
            arrays = _archive(Path(text), list(declared))
        else:
            taken = {*inputs, *(name for name, _ in named)}
            free = next((name for name in declared if name not in taken), "")
            if not name and not free:
                raise cenote.InputError(
                    f"{len(texts)} files given, the model has {len(declared)} inputs: {', '.join(declared)}"
                )
            arrays = {name or free: _value(declared[name or free], text, preprocess, bool(name))}
        for name, value in arrays.items():
            if name in inputs:
                raise cenote.InputError(f"input '{name}' is given twice")
            inputs[name] = value
    return inputs


def _named(text: str, names: Sequence[str]) -> tuple[str, str]:
    """Split NAME=TEXT; a text without the name of an input is a file, whose name may contain "="."""
    for name in sorted(names, key=len, reverse=True):
        if text.startswith(f"{name}="):
            return name, text[len(name) + 1 :]
    name, separator, _ = text.partition("=")
    if separator and name.isidentifier() and not Path(text).exists():
        raise cenote.InputError(f"'{name}' is no input of the model; its inputs: {', '.join(names)}")
    return "", text


def _value(declared: Any, text: str, preprocess: Preprocess, numbers: bool) -> Any:
    """Read one input: an array file, a picture, or (if `numbers`) numbers on the command line."""
    path = Path(text)
    if numbers:
        with contextlib.suppress(ValueError):
            return _written(json.loads(text), declared)
    if path.suffix == ".npy":
        return read_array(path)
    if path.suffix == ".npz":
        return _archive(path, [declared.name])[declared.name]
    return read_picture(path, declared, preprocess)


def read_array(path: Path) -> Any:
    """Read a .npy. Raises InputError for other content, whose words are not NumPy's: these advise to unpickle it, which
    runs code; OSError."""
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, EOFError, SyntaxError):
        raise cenote.InputError(
            f"{path}: not a .npy file of an array of numbers, as numpy.save writes it: damaged, or of another kind"
        ) from None


def _written(value: Any, declared: Any) -> Any:
    """Return the value of an input from numbers on the command line; one number fills an input of one element of any
    rank."""
    if isinstance(value, int | float):
        for _ in declared.shape or ():
            value = [value]
    return value


def _archive(path: Path, names: Sequence[str]) -> Inputs:
    """Return the arrays of a .npz by input; an only array may have any name where there is one input."""
    try:
        with np.load(path, allow_pickle=False) as content:
            arrays = {name: content[name] for name in content.files}
    except (ValueError, EOFError, zipfile.BadZipFile, AttributeError):
        raise cenote.InputError(
            f"{path}: not a .npz file of arrays of numbers, as numpy.savez writes it: damaged, or of another kind"
        ) from None
    if len(arrays) == len(names) == 1:
        return {names[0]: next(iter(arrays.values()))}
    unknown = [name for name in arrays if name not in names]
    if (unknown and len(names) > 1) or not {*arrays} & {*names}:
        shown = ", ".join(arrays)
        raise cenote.InputError(f"{path}: has the arrays {shown}; the model's inputs: {', '.join(names)}")
    return {name: arrays[name] for name in names if name in arrays}
