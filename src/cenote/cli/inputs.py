"""Files as inputs of a model: .npy, .npz, pictures; one run per file, or one run from all of them."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cenote
from cenote.cli.preprocess import Preprocess, read_picture

Inputs = dict[str, NDArray[Any]]


def read_runs(model: cenote.Model, texts: Sequence[str], preprocess: Preprocess) -> list[tuple[str, Inputs]]:
    """The runs that the files on the command line ask for: a title and the inputs by name.

    A model with one input runs once per file. One with several runs once: its inputs are given as NAME=FILE, as one
    .npz with an array per input, or as files in the order of the inputs. Raises InputError, OSError.
    """
    names = [declared.name for declared in model.inputs]
    if len(names) == 1:
        return [(text, _one(model, text, preprocess)) for text in texts]
    if len(texts) == 1 and Path(texts[0]).suffix == ".npz":
        return [(texts[0], _archive(Path(texts[0])))]
    found: Inputs = {}
    free = [name for name in names if not any(text.startswith(f"{name}=") for text in texts)]
    for text in texts:
        name, path = _named(text, names)
        if not name and not free:
            raise cenote.InputError(
                f"{len(texts)} files given, the model has {len(names)} inputs: {', '.join(names)}"
            )
        if name in found:
            raise cenote.InputError(f"input '{name}' is given twice")
        found[name or free.pop(0)] = _array(path)
    return [(", ".join(texts), found)]


def _named(text: str, names: Sequence[str]) -> tuple[str, Path]:
    """NAME=FILE, or just a file."""
    for name in names:
        if text.startswith(f"{name}="):
            return name, Path(text[len(name) + 1 :])
    return "", Path(text)


def _one(model: cenote.Model, text: str, preprocess: Preprocess) -> Inputs:
    name = model.inputs[0].name
    _, path = _named(text, [name])
    if path.suffix == ".npz":
        arrays = _archive(path)
        return arrays if name in arrays or len(arrays) != 1 else {name: next(iter(arrays.values()))}
    return {name: _array(path) if path.suffix == ".npy" else read_picture(path, model, preprocess)}


def _array(path: Path) -> NDArray[Any]:
    if path.suffix != ".npy":
        raise cenote.InputError(
            f"{path}: a model with several inputs takes .npy files, or one .npz with all of them"
        )
    try:
        array: NDArray[Any] = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise cenote.InputError(f"{path}: not a .npy file ({error})") from None
    return array


def _archive(path: Path) -> Inputs:
    try:
        with np.load(path, allow_pickle=False) as content:
            return {name: content[name] for name in content.files}
    except (ValueError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        raise cenote.InputError(f"{path}: not a .npz file ({error})") from None
